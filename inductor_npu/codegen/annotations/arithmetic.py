"""Counts the arithmetic of matrix products, attention and convolutions, for the comments beside launches and calls.

The count is that of `torch.utils.flop_counter`: two floating-point operations for a multiply-add, masks and padding not
considered. It is the graph's: what a kernel computes twice, such as scores in a backward pass, counts once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import sympy
import torch
from torch._inductor import ir
from torch.utils import _pytree as pytree
from torch.utils.flop_counter import flop_registry

from inductor_npu.codegen.index.size_terms import hint

_aten = torch.ops.aten
_FORWARD = _aten._scaled_dot_product_flash_attention
_BACKWARD = _aten._scaled_dot_product_flash_attention_backward
# Operators that may also be sums on the vector cores.
_PRODUCTS = (_aten.mm, _aten.bmm, _aten.addmm, _aten.baddbmm)
# Operators without a formula, and one with the same operands that has one.
_LIKE = {_aten._int_mm: _aten.mm}
# Attention, whose formulas count heads of keys and values for each head of queries only in later torches.
_OF_ATTENTION = {
    _aten._scaled_dot_product_fused_attention_overrideable: lambda *args: of_attention(*args[:3]),
    _aten._scaled_dot_product_fused_attention_overrideable_backward: lambda *args: sum(of_gradients(*args[1:4])),
}
# torch_npu's attention and its gradients, of which the result's comes after queries, keys and values.
_OF_TORCH_NPU = {
    "npu.npu_fusion_attention_v3": lambda *args: of_attention(*args[:3]),
    "npu.npu_fusion_attention_grad_v3": lambda *args: sum(of_gradients(*args[:3])),
}
_FOUR_AXES = "BNSD"

# What the user called, of which a node was made: in a forward and in a backward pass.
_SOURCES = ("source_fn_stack", "fwd_source_fn_stack")
_ATTENTION = "scaled_dot_product_attention"

_Sizes = Sequence[Any]


def of_call(kernel: ir.IRNode) -> int:
    """Returns the floating-point operations of the operator that Inductor's ExternKernel `kernel` calls."""
    node = operator_of(kernel)
    return 0 if node is None else _of_operator(node)


def of_loops(nodes: Iterable[Any]) -> int:
    """Returns the floating-point operations of the products in the loops of scheduler nodes."""
    return sum(of_call(node.node) for node in nodes if _is_product(node.node))


def is_part_of_attention(nodes: Iterable[Any]) -> bool:
    """Returns whether a product in the loops of scheduler nodes is one of `scaled_dot_product_attention`, which PyTorch
    decomposed, or of its gradients.
    """
    operators = [operator_of(node.node) for node in nodes if _is_product(node.node)]
    stacks = [operator.meta.get(name) for operator in operators if operator is not None for name in _SOURCES]
    return any(function[0] == _ATTENTION for stack in stacks if stack for function in stack)


def _is_product(buffer: Any) -> bool:
    """Whether the loops of `buffer` are a product. Those that make operands ready have the same origin: a copy, or
    a sum that attention needs.
    """
    if not isinstance(buffer, ir.ComputedBuffer) or not isinstance(buffer.data, ir.Reduction):
        return False
    operator = operator_of(buffer)
    is_matrix_product = operator is not None and getattr(operator.target, "overloadpacket", None) in _PRODUCTS
    return buffer.data.reduction_type == "dot" or is_matrix_product


def operator_of(made: ir.IRNode) -> torch.fx.Node | None:
    """Returns the operator of the graph whose lowering made `made`. Its other origins are what its operands are
    computed with: the operators before it in the graph.
    """
    return max(made.get_origins(), default=None)


def _of_operator(node: torch.fx.Node) -> int:
    """The floating-point operations of the operator that `node` of a graph calls on `npu`: at the sizes for which the
    graph is compiled, and 0 for an operator of another kind.
    """
    target = getattr(node.target, "overloadpacket", node.target)
    formula = flop_registry.get(_LIKE.get(target, target))
    if target in _OF_ATTENTION:
        formula = _without_results(_OF_ATTENTION[target])
    if str(target) in _OF_TORCH_NPU and _FOUR_AXES in node.args:
        formula = _without_results(_OF_TORCH_NPU[str(target)])
    if formula is None:
        return 0
    result = node.meta["val"]
    if not any(t.device.type == "npu" for t in pytree.tree_leaves(result) if isinstance(t, torch.Tensor)):
        return 0
    args, options = torch.fx.map_arg((node.args, node.kwargs), lambda each: _sizes_of(each.meta["val"]))
    args = [
        argument for argument in args if not isinstance(argument, torch.dtype)
    ]  # overloads with a dtype of the result
    return int(formula(*args, **options, out_val=pytree.tree_map(_sizes_of, result)))


def _without_results(formula: Callable[..., int]) -> Callable[..., int]:
    """`formula` of operands alone."""
    return lambda *args, out_val, **options: formula(*args)


def of_attention(query: _Sizes, key: _Sizes, value: _Sizes) -> int:
    """Returns the floating-point operations of attention of tensors of these sizes, as `Attention` has them."""
    return int(flop_registry[_FORWARD](*_for_each_head(query, key, value)))


def of_gradients(query: _Sizes, key: _Sizes, value: _Sizes) -> tuple[int, int]:
    """Returns the floating-point operations of the gradients of attention: of keys and values with all that they need,
    and of the product that gives those of queries.
    """
    queries, keys, values = _for_each_head(query, key, value)
    whole = int(flop_registry[_BACKWARD]([*queries[:3], values[3]], queries, keys, values))
    batch, heads, rows, dim = queries
    last = int(flop_registry[_aten.bmm]([batch * heads, rows, keys[2]], [batch * heads, keys[2], dim]))
    return whole - last, last


def _for_each_head(query: _Sizes, key: _Sizes, value: _Sizes) -> list[list[int]]:
    """The sizes with a head of keys and values for each head of queries: the work is that."""
    queries, *shared = ([hint(sympy.sympify(size)) for size in sizes] for sizes in (query, key, value))
    return [queries, *([*queries[:2], *sizes[2:]] for sizes in shared)]


def _sizes_of(value: Any) -> Any:
    """The sizes of a tensor as numbers; what is no tensor as it is."""
    if not isinstance(value, torch.Tensor):
        return value
    return [size if isinstance(size, int) else hint(size.node.expr) for size in value.shape]
