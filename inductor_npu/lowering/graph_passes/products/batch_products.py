"""Products of one tensor with several small weights (query, key and value; the gates of a cell), as one batch, where
the library computes them.

Each product is a call of the library. Where the weights are small, the call costs more than a copy of them: n products
`x @ w[i]` become `bmm(x, stack(w))`, and each result is a contiguous part of the batch, with the strides that it had.
A bias stays inside the product (`baddbmm`), so that types of half precision are rounded as often as before.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch._inductor.pattern_matcher import stable_topological_sort

from inductor_npu import providers
from inductor_npu.lowering.graph_passes.nodes import called, in_place_of, is_on_npu, returned_nodes, writes
from inductor_npu.tiling import cube

_aten = torch.ops.aten

# Bytes of weights that may be copied for each call of the library that is saved.
_COPIED_PER_CALL = 24 * 1024
# The copy is one kernel with a part for each weight; Inductor copies more than these one by one.
_MOST = 8
_VIEWS = (_aten.view.default, _aten.permute.default, _aten.reshape.default, _aten.squeeze.dim, _aten.unsqueeze.default)


@dataclass
class _Group:
    """Products that do not depend on each other, in the order of the graph."""

    products: list[torch.fx.Node] = field(default_factory=list)
    before: set[int] = field(default_factory=set)  # the groups that have to be computed before this one


def apply(graph: torch.fx.Graph) -> int:
    """Batches the products of `graph` for which it pays; returns how many batches there are now."""
    batched = 0
    for products in _groups(graph):
        if _pays(products):
            _batch(graph, products)
            batched += 1
    if batched:
        stable_topological_sort(graph)
    return batched


def _groups(graph: torch.fx.Graph) -> list[list[torch.fx.Node]]:
    """Products with the same left operand, alike in shape, that can be computed at once.

    Two groups never wait for each other: a product joins one only if nothing that it needs comes after that group.
    """
    groups: list[_Group] = []
    open_groups: dict[Any, int] = {}
    needs: dict[torch.fx.Node, frozenset[int]] = {}
    returned = returned_nodes(graph)
    for node in graph.nodes:
        if writes(node):
            break  # what comes after may read something else in the same memory
        needed = frozenset().union(*(needs.get(operand, frozenset()) for operand in node.all_input_nodes))
        if node not in returned and _is_candidate(node):
            key = _key(node)
            index = open_groups.get(key)
            if index is None or len(groups[index].products) == _MOST or index in _all_before(groups, needed):
                index = open_groups[key] = len(groups)
                groups.append(_Group())
            groups[index].products.append(node)
            groups[index].before |= needed
            needed |= {index}
        if needed:
            needs[node] = needed
    return [group.products for group in groups]


def _all_before(groups: list[_Group], needed: frozenset[int]) -> set[int]:
    """`needed` and every group that these need in turn."""
    found: set[int] = set()
    waiting = list(needed)
    while waiting:
        index = waiting.pop()
        if index not in found:
            found.add(index)
            waiting.extend(groups[index].before)
    return found


def _is_candidate(node: torch.fx.Node) -> bool:
    """Whether `node` is a plain product on `npu`, maybe with a bias for its columns, whose weight has a known size."""
    if node.op != "call_function" or node.kwargs or node.target not in (_aten.mm.default, _aten.addmm.default):
        return False
    values = [operand.meta.get("val") for operand in node.args]
    if not all(map(is_on_npu, values)):
        return False
    *bias, left, right = values
    known = all(isinstance(size, int) for size in right.shape)
    alike = all(value.dtype == left.dtype for value in values) and left.dtype.is_floating_point
    is_library = cube.why_library((left.dtype, right.dtype), providers.current_target()) is not None
    return known and alike and is_library and all(value.shape == right.shape[1:] for value in bias)


def _key(product: torch.fx.Node) -> Any:
    *_, left, right = product.args
    return product.target, _identity(left), right.meta["val"].shape, _transposed(right)


def _identity(node: Any) -> Any:
    """Equal for two nodes that are the same views of the same tensor."""
    if isinstance(node, torch.fx.Node) and node.target in _VIEWS:
        return node.target, *(_identity(argument) for argument in node.args)
    return tuple(node) if isinstance(node, list | tuple) else node


def _transposed(weight: torch.fx.Node) -> bool:
    return weight.target is _aten.permute.default and list(weight.args[1]) == [1, 0]


def _pays(products: list[torch.fx.Node]) -> bool:
    weight = products[0].args[-1].meta["val"]
    copied = weight.numel() * weight.element_size() * len(products)
    saved = len(products) - 1
    kernels = 2 if products[0].target is _aten.addmm.default else 1  # that copy: biases have one of their own
    return saved > kernels and copied <= _COPIED_PER_CALL * saved


def _batch(graph: torch.fx.Graph, products: list[torch.fx.Node]) -> None:
    """Puts one batch where the last of `products` is; whoever sorts the graph moves what uses it behind it."""
    last = products[-1]
    *_, left, right = last.args
    count, (inner, columns) = len(products), right.meta["val"].shape
    with in_place_of(last):
        weights = [product.args[-1] for product in products]
        if _transposed(right):
            stacked = _stacked(graph, [weight.args[0] for weight in weights], (columns, inner))
            stacked = called(graph, _aten.permute.default, stacked, [0, 2, 1])
        else:
            stacked = _stacked(graph, weights, (inner, columns))
        shared = called(graph, _aten.unsqueeze.default, left, 0)
        shared = called(graph, _aten.expand.default, shared, [count, -1, -1])
        if last.target is _aten.addmm.default:
            biases = _stacked(graph, [product.args[0] for product in products], (1, columns))
            result = called(graph, _aten.baddbmm.default, biases, shared, stacked)
        else:
            result = called(graph, _aten.bmm.default, shared, stacked)
        parts = [called(graph, _aten.select.int, result, 0, index) for index in range(count)]
    for product, part in zip(products, parts):
        part.meta = {**product.meta, "val": part.meta["val"]}
        product.replace_all_uses_with(part)
        graph.erase_node(product)


def _stacked(graph: torch.fx.Graph, tensors: list[torch.fx.Node], shape: tuple[int, int]) -> torch.fx.Node:
    """The tensors one after the other, as matrices of `shape`."""
    joined = called(graph, _aten.cat.default, tensors, 0)
    return called(graph, _aten.view.default, joined, [len(tensors), *shape])
