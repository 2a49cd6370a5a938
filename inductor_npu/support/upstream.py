"""What the installed torch and Triton do themselves, asked of their modules, never of their versions: it decides which
of compat's patches are needed. Nothing here imports Dynamo, Inductor or Triton at module level.
"""

from __future__ import annotations

import inspect

DEVICE = "npu"


def triton_is_looked_up_in_a_table() -> bool:
    """Before torch 2.14."""
    from torch.utils import _triton

    function = inspect.unwrap(_triton.has_triton)
    return "get_registered_device_interfaces" not in function.__code__.co_names


def is_no_gpu_type() -> bool:
    """Also where `npu` is enabled after Inductor has asked the registered devices."""
    from torch._inductor import utils

    return DEVICE not in utils.GPU_TYPES


def benchmarkers_cannot_be_registered() -> bool:
    """Before torch 2.12."""
    from torch._inductor.runtime import benchmarking

    return not hasattr(benchmarking, "register_benchmarker")


def has_policies_of_capture() -> bool:
    """From torch 2.12 on a backend can say how compiled graphs are captured."""
    from torch._inductor import cudagraph_utils

    return hasattr(cudagraph_utils, "CUDAGraphPolicy")


def strides_are_compared_by_remainders() -> bool:
    """Torch 2.13 alone: earlier ones have no such comparison, later ones compare in another way."""
    from torch._inductor.ir import Layout

    method = getattr(Layout, "_stride_expr_ge_or_false", None)
    return method is not None and "statically_known_multiple_of" not in method.__code__.co_names


def views_take_flexible_strides() -> bool:
    """Before torch 2.13: a view of a tensor whose layout is not decided yet keeps the strides that it has by then."""
    from torch._inductor import ir

    return hasattr(ir, "View") and not hasattr(ir, "is_dense_contiguous_storage_and_layout")


def flex_attention_checks_devices_itself() -> bool:
    """Not where torch_npu has put a check of its own, which takes npu, in the place of torch's."""
    from torch.nn.attention import flex_attention

    return flex_attention._validate_device.__module__ == flex_attention.__name__


def numbers_are_protected() -> bool:
    """Whether sympy keeps an Identity of a number as one."""
    from torch.utils._sympy.functions import Identity

    return "eval" not in vars(Identity)


def positions_follow_the_order_of_loops() -> bool:
    """Before torch 2.15, from which on positions are counted wherever several axes are reduced."""
    from torch._inductor import lowering

    code = lowering._make_reduction_inner.__code__
    counts_positions = "should_compute_logical_index" in code.co_cellvars
    return not counts_positions or "PermuteView" in code.co_names  # which it names where it counts for some only
