"""Operators whose only kernels are templates, FlexAttention and products with another type of result, become plain
operators where templates are off: by INDUCTOR_NPU_TEMPLATES=none, and where a graph is compiled again without them
(lowering/attempts.py). The scores of attention lie in memory then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._higher_order_ops.flex_attention import sdpa_dense, sdpa_dense_backward
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.virtualized import V
from torch._subclasses.functional_tensor import dispatch_functionalize
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from inductor_npu import config
from inductor_npu.lowering.graph_passes.nodes import in_place_of, is_on_npu

_aten = torch.ops.aten


def _product(product: Callable[..., torch.Tensor], operands: int) -> Callable[..., torch.Tensor]:
    """`product` with a type of its result after its `operands` tensors, of tensors of that type: a product of half
    types is exact in float32.
    """

    def plain(*arguments: Any, **options: Any) -> torch.Tensor:
        tensors, (dtype, *others) = arguments[:operands], arguments[operands:]
        return product(*(each.to(dtype) for each in tensors), *others, **options)

    return plain


def _gradients(*arguments: Any) -> Any:
    """`sdpa_dense_backward`, which computes gradients of those captured tensors that say they need one."""
    *others, joint_graph, block_mask, scale, options, captured, masks_captured = arguments
    *_, output = joint_graph.graph.nodes
    wanted = output.args[0][-len(captured) :] if captured else ()
    captured = [each.requires_grad_() if gradient is not None else each for each, gradient in zip(captured, wanted)]
    return sdpa_dense_backward(*others, joint_graph, block_mask, scale, options, tuple(captured), masks_captured)


_PLAIN: dict[Any, Callable[..., Any]] = {
    torch.ops.higher_order.flex_attention: sdpa_dense,
    torch.ops.higher_order.flex_attention_backward: _gradients,
    _aten.mm.dtype: _product(torch.mm, 2),
    _aten.bmm.dtype: _product(torch.bmm, 2),
    _aten.addmm.dtype: _product(torch.addmm, 3),
}


def apply(graph: torch.fx.Graph) -> int:
    """Replaces them in `graph` where templates are off; returns how many."""
    if config.templates != "none":
        return 0
    found = [node for node in graph.nodes if node.target in _PLAIN and any(map(_is_on_npu, node.all_input_nodes))]
    for node in found:
        _replace(node, _PLAIN[node.target])
    return len(found)


def _is_on_npu(node: Node) -> bool:
    return is_on_npu(node.meta.get("val"))


def _replace(node: Node, plain: Callable[..., Any]) -> None:
    """Puts the operators of which `plain` consists in the place of `node`."""
    graph = node.graph
    owner = graph.owning_module
    leaves, layout = pytree.tree_flatten((tuple(node.args), dict(node.kwargs)))
    values = [_value(leaf, owner) for leaf in leaves]
    places = [place for place, value in enumerate(values) if isinstance(value, torch.Tensor | torch.SymInt)]

    def run(*given: Any) -> Any:
        taken = {**dict(enumerate(values)), **dict(zip(places, given))}
        args, options = pytree.tree_unflatten([taken[place] for place in range(len(values))], layout)
        return plain(*args, **options)

    with V.fake_mode, torch.no_grad():
        traced = make_fx(dispatch_functionalize(run), select_decomp_table(), "real")(
            *(values[place] for place in places)
        )
    known = dict(zip(traced.graph.find_nodes(op="placeholder"), (leaves[place] for place in places)))
    for constant in traced.graph.find_nodes(op="get_attr"):
        name = f"_constant_{len(owner._buffers)}_of_{node.name}"
        owner.register_buffer(name, getattr(traced, constant.target))
        constant.target = name
    with in_place_of(node):
        results = graph.graph_copy(traced.graph, known)
    _give(node, results)


def _give(node: Node, results: Any) -> None:
    """Has the takers of `node` take `results` instead, of which they take parts where there are several."""
    if isinstance(results, Node):
        node.replace_all_uses_with(results)
    else:
        for part in list(node.users):
            _give(part, results[part.args[1]])
    node.graph.erase_node(node)


def _value(leaf: Any, owner: Any) -> Any:
    """What a node computes, or the graph that it names; anything else as it is."""
    if not isinstance(leaf, Node):
        return leaf
    named = getattr(owner, leaf.target) if leaf.op == "get_attr" else None
    return named if isinstance(named, GraphModule) else leaf.meta["val"]
