"""Comments beside operator calls: which operators a generated module calls instead of launching a kernel, and why.

Matrix products, convolutions, attention, Fourier transforms, linear algebra and collectives call a library on every
device; streams and events call the runtime. Their comments state the user's lines only. Every other operator runs in
eager because no kernel can be generated for it, and its comment states the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._inductor import ir, lowering
from torch._library.utils import is_builtin
from torch.utils import _pytree as pytree

from inductor_npu import providers
from inductor_npu.codegen.annotations import arithmetic
from inductor_npu.codegen.annotations.launch_comments import write_arithmetic, write_in_eager, write_library
from inductor_npu.codegen.attention import choice
from inductor_npu.codegen.emit import header
from inductor_npu.codegen.grouped.problem import why_library as why_library_multiplies_groups
from inductor_npu.tiling import cube
from inductor_npu.tiling.convolution import reason_against_call

_aten = torch.ops.aten
_CONVOLUTIONS = (_aten.convolution.default, _aten.convolution_backward.default)
# What lowering/contractions.py and grouped_products.py make kernels of.
_PRODUCTS = (
    _aten.mm.default,
    _aten.bmm.default,
    _aten.addmm.default,
    _aten.baddbmm.default,
    _aten._int_mm.default,
)

_GROUPED = _aten._grouped_mm.default
# What no kernel of ours computes: Ascend's Triton refuses arguments of eight-bit floats for every chip that is known.
_SCALED = tuple(
    getattr(_aten, name).default
    for name in ("_scaled_mm", "_scaled_mm_v2", "_scaled_grouped_mm", "_scaled_grouped_mm_v2")
    if hasattr(_aten, name)
)

# How the names of operators begin whose backward passes and variants Inductor leaves to libraries, beside those that
# it calls as extern_kernels.
_OF_LIBRARIES = (
    "_convolution",
    "convolution",
    "_scaled_dot_product",
    "_flash_attention",
    "_efficient_attention",
    "npu_fusion_attention",
    "_scaled_mm",
    "_grouped_mm",
    "_int_mm",
    "_weight_int",
    "_fft",
    "_linalg",
    "linalg",
    "mkldnn",
)
_NAMESPACES_OF_LIBRARIES = ("_c10d_functional", "c10d", "c10d_functional", "symm_mem", "streams")


def comments(node: Any) -> list[str]:
    """Returns the comments above the call of Inductor's ExternKernel `node`."""
    lines = header.source_lines_of_call(node)
    if (reason := why_in_eager(node)) is not None:
        lines.append(write_in_eager(reason))
    elif (reason := _why_library(node)) is not None:
        lines.append(write_library(reason))
    if (operations := arithmetic.of_call(node)) > 0:
        lines.append(write_arithmetic(operations))
    return lines


def _why_library(node: Any) -> str | None:
    """Returns why the product, the convolution or the attention `node` is no kernel of ours; None for others."""
    origin = arithmetic.operator_of(node)
    if origin is not None and choice.is_attention(origin):
        return choice.why_library(origin)
    if origin is not None and origin.target in _CONVOLUTIONS:
        return reason_against_call(origin) or None
    if origin is None or origin.target not in (*_PRODUCTS, *_SCALED, _GROUPED):
        return None
    if origin.target in _PRODUCTS:
        return cube.why_library(_dtypes_of(origin.args[-2:]), providers.current_target())
    operands, others = origin.args[:2], origin.args[2:]
    if origin.target in _SCALED:
        return f"kernels for {providers.current_target().name} load no {_dtypes_of(operands)[0]}"
    named = {**dict(zip(("offs", "bias", "out_dtype"), others)), **origin.kwargs}
    return why_library_multiplies_groups(_dtypes_of(operands), named.get("out_dtype"), named.get("bias") is not None)


def _dtypes_of(operands: Sequence[Any]) -> list[torch.dtype]:
    return [operand.meta["val"].dtype for operand in operands]


def why_in_eager(node: Any) -> str | None:
    """Returns why the operator of `node` runs in eager; None for one that a library computes on every device."""
    if not isinstance(node, (ir.FallbackKernel, ir.ScatterFallback, ir.IndexPutFallback)):
        return None
    operator = node.op_overload
    if not isinstance(operator, torch._ops.OpOverload):
        return "Inductor calls this higher-order operator as it is"
    if operator.namespace in _NAMESPACES_OF_LIBRARIES or operator._opname.startswith(_OF_LIBRARIES):
        return None
    if not is_builtin(operator):
        return "Inductor cannot look into a custom operator"
    if dtypes := _dtypes_without_code(node):
        return f"Inductor generates no code for {dtypes}"
    code = lowering.lowerings.get(operator)
    if code is None or getattr(code, "_is_fallback_handler", False):
        return "Inductor generates no code for it on any device"
    return "Inductor generates code for it, but not for these arguments and settings"


def _dtypes_without_code(node: Any) -> str:
    """Why Inductor generates no code for any operator with the dtypes of `node`; empty if it does."""
    origin = node.get_origin_node()
    if origin is None:
        return ""
    values = [value for part in (origin, *origin.all_input_nodes) for value in pytree.tree_leaves(part.meta.get("val"))]
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    found = [tensor for tensor in tensors if lowering.unsupported_input_tensor(tensor, origin)]
    return ", ".join(dict.fromkeys("sparse tensors" if tensor.is_sparse else str(tensor.dtype) for tensor in found))
