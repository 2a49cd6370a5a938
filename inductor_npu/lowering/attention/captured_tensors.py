"""Gradients of tensors that `score_mod` captures: a learned bias, a scale of each head.

Each score adds a value to one element of such a tensor. The kernel of queries' gradients stores these values, for every
score, and kernels of their own add them up: first along the axes of scores on which the element does not depend, then
at the element's place. That takes memory for all scores. The kernel cannot add at once: on a chip, both vector cores of
a cube core would add the same tile.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch._inductor import ir, lowering
from torch._inductor.index_propagation import IndexPropagation
from torch._inductor.virtualized import OpsWrapper, V, ops

from inductor_npu.codegen.attention.problem import AXES, GradientOfScore
from inductor_npu.lowering.attention import user_graph
from inductor_npu.lowering.attention.operands import Reads

_aten = torch.ops.aten
_SCATTER = torch.ops.flex_lib.zeros_and_scatter.default
# What leaves a gradient as it is, but for its dtype.
_COPIES = (
    _aten._to_copy.default,
    _aten.clone.default,
    _aten.alias.default,
    torch.ops.prims.convert_element_type.default,
)


@dataclass(frozen=True)
class Added:
    """`value`: what a score adds to a captured tensor, the `number`th, at its `place`: functions of operators."""

    number: int
    value: GradientOfScore
    place: tuple[Any, ...]


def gradients_of(graph: Any, captured: Sequence[Any], query: ir.TensorBox) -> tuple[GradientOfScore, list[Added]]:
    """The derivative of score_mod by the score, and what a score adds to captured tensors. `graph` has both.

    Raises NotImplementedError for a captured tensor with a gradient that score_mod does more with than index it.
    """
    derivative, *others = _results(graph.graph_module.graph)
    terms = [
        (number, *term)
        for number, node in enumerate(others[len(user_graph.OF_SCORE) - 1 :])
        if node is not None
        for term in _terms(node)
    ]
    wanted = [derivative, *(node for _, value, place in terms for node in (value, *place))]
    pieces = iter(_functions(graph, wanted, captured, query))
    by_score = _of_score(next(pieces))
    return by_score, [
        Added(number, _of_score(next(pieces)), tuple(next(pieces) for _ in place)) for number, _, place in terms
    ]


def _results(graph: torch.fx.Graph) -> list[torch.fx.Node | None]:
    (results,) = graph.output_node().args
    return list(results)


def _terms(node: torch.fx.Node) -> Iterator[tuple[torch.fx.Node, tuple[torch.fx.Node, ...]]]:
    """The values that a score adds to the tensor whose gradient is `node`, each with the indices of its place."""
    if node.target in _COPIES:
        yield from _terms(node.args[0])
    elif node.target is _SCATTER:
        _, place, values = node.args
        for value, inner in _terms(values):
            yield value, (*place, *inner)
    elif not node.meta["val"].dim():
        yield node, ()
    elif node.target is _aten.add.Tensor:
        for each in node.args:
            yield from _terms(each)
    else:
        raise NotImplementedError(
            "flex_attention on npu: score_mod captures a tensor that needs a gradient and does more with it than index "
            f"it (its gradient is a result of {node.target}); do that outside of score_mod, or detach the tensor"
        )


def _functions(graph: Any, wanted: Sequence[Any], captured: Sequence[Any], query: ir.TensorBox) -> list[Any]:
    """The operators of each of the nodes `wanted` of `graph`."""
    nodes: dict[torch.fx.Node, torch.fx.Node] = {}
    alone = torch.fx.Graph()
    alone.graph_copy(graph.graph_module.graph, nodes)
    alone.output([nodes[node] for node in wanted])
    alone.eliminate_dead_code()
    subgraph = ir.Subgraph(name=graph.name, graph_module=torch.fx.GraphModule(graph.graph_module, alone))
    return list(map(user_graph.function, user_graph.compiled(subgraph, user_graph.OF_GRADIENT, captured, query)))


def _of_score(of: Any) -> GradientOfScore:
    return lambda product, weighted: of(
        {"score": OpsWrapper._unwrap(product), "grad_score_mod": OpsWrapper._unwrap(weighted)}
    )


# -- sums -------------------------------------------------------------------------------------------------------------


def summed(
    added: Sequence[Added], values: Sequence[ir.IRNode], captured: Sequence[Any]
) -> tuple[ir.TensorBox | None, ...]:
    """The gradients of `captured` tensors, in their dtypes; None for what is no tensor. `values` [B, H, M, N]: those of
    `added`.
    """
    totals = [_zeros_like(each) if isinstance(each, ir.IRNode) else None for each in captured]
    for each, stored in zip(added, values, strict=True):
        total = totals[each.number]
        assert total is not None, "numbers have no gradients"
        total.realize()
        _add(total, ir.TensorBox.create(stored), each.place)
    return tuple(
        None if total is None else lowering.to_dtype(total, like.get_dtype())
        for total, like in zip(totals, captured, strict=True)
    )


def _zeros_like(tensor: ir.IRNode) -> ir.TensorBox:
    return lowering.full(tensor.get_size(), 0, dtype=torch.float32, device=tensor.get_device())


def _add(total: ir.TensorBox, values: ir.TensorBox, place: Sequence[Any]) -> None:
    """Adds `values` to the elements of `total` at `place`."""
    needed = _axes_of(place, total.get_size(), values.get_size())
    others = [position for position, axis in enumerate(AXES) if axis not in needed]
    if others:
        values = lowering.lowerings[_aten.sum.dim_IntList](values, others, True)
    values.realize()

    def place_of(indices: Sequence[sympy.Expr]) -> list[sympy.Expr]:
        found = [of({}, indices) for of in place]
        return [
            ops.indirect_indexing(index, size, check=True, wrap_neg=True)
            for index, size in zip(found, total.get_size(), strict=True)
        ]

    scatter = ir.Scatter(
        device=total.get_device(),
        dtype=torch.float32,
        inner_fn=values.make_loader(),
        ranges=values.get_size(),
        output_indexer=place_of,
        scatter_mode="atomic_add",
    )
    buffer = ir.ComputedBuffer(name=None, layout=ir.MutationLayoutSHOULDREMOVE(total), data=scatter)
    buffer.name = V.graph.register_buffer(buffer)
    V.graph.register_operation(buffer)


def _axes_of(place: Sequence[Any], total: Sequence[sympy.Expr], sizes: Sequence[sympy.Expr]) -> set[sympy.Symbol]:
    """Which of AXES, of these `sizes`, decide what `place` is in a tensor of the sizes `total`."""
    reads = Reads()
    with V.set_ops_handler(IndexPropagation(reads, dict(zip(AXES, sizes, strict=True)), {})):
        found = [ops.indirect_indexing(of({}), size, check=False) for of, size in zip(place, total, strict=True)]
    return {symbol for index in (*found, *reads.indices) for symbol in index.free_symbols}.intersection(AXES)
