"""What the installed torch and Triton do of themselves, asked of their modules and never of their versions: which of
compat's touches are needed. Nothing here imports Dynamo, Inductor or Triton at module level.
"""

from __future__ import annotations

import importlib
import inspect
from types import CodeType
from typing import Any

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


def strides_are_compared_by_remainders() -> bool:
    """Torch 2.13 alone: earlier ones have no such comparison, later ones compare in another way."""
    from torch._inductor.ir import Layout

    method = getattr(Layout, "_stride_expr_ge_or_false", None)
    return method is not None and "statically_known_multiple_of" not in method.__code__.co_names


def associative_scan() -> Any:
    """The function; the package binds it to the name of its module."""
    return importlib.import_module("torch._higher_order_ops.associative_scan").associative_scan


def scans_are_refused_by_a_table() -> bool:
    """Before torch 2.14."""
    code = associative_scan().__code__
    return with_npu_in_tables(code) != code


def with_npu_in_tables(code: CodeType) -> CodeType:
    """`code`, and the functions defined in it, with npu in each table of devices that have Triton scans."""
    constants = tuple(
        with_npu_in_tables(constant)
        if isinstance(constant, CodeType)
        else (*constant, DEVICE)
        if constant == ("cuda", "xpu")
        else constant
        for constant in code.co_consts
    )
    return code.replace(co_consts=constants)


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


def values_are_written_over() -> bool:
    """Before torch 2.15."""
    from torch._inductor.fx_passes import reinplace

    return not hasattr(reinplace, "should_reinplace_index_put")


def loops_are_reshaped() -> bool:
    """From torch 2.13 on."""
    from torch._inductor.scheduler import Scheduler

    return hasattr(Scheduler, "_try_reindex_pointwise_for_reduction")


def hash_of_triton_is_not_taken_yet() -> bool:
    """Whether Triton has the function, and nobody has called it: of one that was, nobody knows of which files."""
    from triton.runtime import cache

    take = getattr(cache, "triton_key", None)
    return take is not None and not take.cache_info().currsize


def loops_are_visited_twice() -> bool:
    """From Triton 3.6 on."""
    """From Triton 3.6 on."""
    from triton.compiler.code_generator import CodeGenerator

    return hasattr(CodeGenerator, "_find_carries")
