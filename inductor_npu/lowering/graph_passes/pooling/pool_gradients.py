"""Gradients of max pools, which windows write where their greatest element was.

Inductor adds each window's gradient at an address that the data say, which is the work of the scalar core and of
atomic additions. Where the window's choice is known as an offset within the window, the other way round needs neither:
each element of the input looks at the few windows over it, and adds up what those give that chose it. The elements are
taken apart into blocks as long as the windows' stride, `h = block * stride + rest`; the window `shift` blocks further
on begins `padding - shift * stride` before the block, so that the element has the place `rest + padding - shift *
stride` in it: all addresses are affine.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from inductor_npu.lowering.graph_passes.nodes import along, called, convert, counted, filled, in_place_of, is_on_npu
from inductor_npu.providers import current_target

_aten = torch.ops.aten
_OTHER_SHAPES = (_aten.view.default, _aten.reshape.default, _aten._unsafe_view.default, _aten.unsqueeze.default)

# No window has this place.
_NOWHERE = -1

# The most windows over an element: what looks in 25 is vector code in one kernel more of the corpus
# (`python -m corpus.thresholds`), but is compiled for as long as a small model.
_MOST_WINDOWS = 9


@dataclass(frozen=True)
class Windows:
    """Along one axis: `count` windows of `size` elements, each `stride` behind the one before, the first of which
    begins `padding` before an axis of `length` elements.
    """

    count: int
    size: int
    stride: int
    padding: int
    length: int

    @property
    def blocks(self) -> int:
        return math.ceil(self.length / self.stride)

    @property
    def shifts(self) -> range:
        """By how many blocks the windows over a block's elements are further on than the block."""
        return range(
            math.ceil((self.padding - self.size + 1) / self.stride),
            (self.stride - 1 + self.padding) // self.stride + 1,
        )


def apply(graph: torch.fx.Graph) -> int:
    """Rewrites the gradients of max pools in `graph` on `npu`; returns how many there were."""
    rewritten = 0
    for node in graph.find_nodes(op="call_function", target=_aten.scatter_add.default):
        indices = _before_views(node.args[2])
        if _is_gradient(node, indices) and _pays(_axes(indices)):
            _rewrite(graph, node, indices)
            rewritten += 1
    return rewritten


def _before_views(node: Any) -> torch.fx.Node:
    """What computes a tensor that is only seen in another shape."""
    while node.target in _OTHER_SHAPES:
        node = node.args[0]
    return node


def _is_gradient(node: torch.fx.Node, indices: torch.fx.Node) -> bool:
    """Whether `node` adds to each plane of zeros what the windows over it give, which chose an element each."""
    if indices.target is not torch.ops.prims._low_memory_max_pool_offsets_to_indices.default:
        return False
    into, dim, _, source = node.args
    offsets, _, input_size, _, _, dilation = indices.args
    values = [each.meta["val"] for each in (into, source, offsets)]
    if not all(map(is_on_npu, values)) or any(step != 1 for step in dilation):
        return False
    if not all(isinstance(size, int) and size > 0 for value in values for size in value.shape):
        return False
    windows = values[2].shape[-len(input_size) :]
    shapes = [(each.dim(), each.shape[-1]) for each in values[:2]]
    return dim in (1, -1) and shapes == [(2, math.prod(input_size)), (2, math.prod(windows))] and _is_zero(into)


def _is_zero(node: torch.fx.Node) -> bool:
    return node.target is _aten.full.default and node.args[1] == 0


def _axes(indices: torch.fx.Node) -> list[Windows]:
    offsets, sizes, lengths, strides, paddings, _ = indices.args
    counts = offsets.meta["val"].shape[-len(lengths) :]
    return [Windows(*each) for each in zip(counts, sizes, strides, paddings, lengths)]


def _pays(axes: Sequence[Windows]) -> bool:
    """Not for rows shorter than a block of the Unified Buffer, each of which would take one."""
    return (
        axes[-1].count >= current_target().shortest_row
        and math.prod(len(axis.shifts) for axis in axes) <= _MOST_WINDOWS
    )


def _rewrite(graph: torch.fx.Graph, node: torch.fx.Node, indices: torch.fx.Node) -> None:
    into, _, _, source = node.args
    offsets = indices.args[0]
    value, axes = into.meta["val"], _axes(indices)
    counts = offsets.meta["val"].shape[-len(axes) :]
    with in_place_of(node):
        planes = [value.shape[0], *counts]
        chosen = called(graph, convert, called(graph, _aten.reshape.default, offsets, planes), torch.int32)
        # Of a plane in one row it would not be seen which of its elements are neighbours.
        in_planes = _before_views(source)
        if in_planes.meta["val"].shape[-len(counts) :] == counts:
            source = in_planes
        given = called(graph, _aten.reshape.default, source, planes)
        nothing = filled(graph, value, 0, value.dtype)
        total = None
        for shifts in itertools.product(*(axis.shifts for axis in axes)):
            place = _places(graph, value, axes, shifts)
            is_chosen = called(graph, _aten.eq.Tensor, _shifted(graph, chosen, axes, shifts, _NOWHERE), place)
            gradient = _shifted(graph, given, axes, shifts, 0)
            part = called(graph, _aten.where.self, is_chosen, gradient, nothing)
            total = part if total is None else called(graph, _aten.add.Tensor, total, part)
        blocks = [axis.blocks * axis.stride for axis in axes]
        result = called(graph, _aten.reshape.default, total, [value.shape[0], *blocks])
        for dim, axis in enumerate(axes, 1):
            if axis.length < blocks[dim - 1]:
                result = called(graph, _aten.slice.Tensor, result, dim, 0, axis.length)
        result = called(graph, _aten.reshape.default, result, list(value.shape))
    node.replace_all_uses_with(result)
    graph.erase_node(node)


def _places(graph: torch.fx.Graph, like: Any, axes: Sequence[Windows], shifts: Sequence[int]) -> torch.fx.Node:
    """Which place the elements of a block have in the windows that are so many blocks further on, counted as offsets
    are; below zero where they have none.
    """
    dims = 1 + 2 * len(axes)
    place = None
    for number, (axis, shift) in enumerate(zip(axes, shifts)):
        first = axis.padding - shift * axis.stride
        own = along(graph, counted(graph, like, axis.stride), 2 + 2 * number, dims)
        if first != 0:
            own = called(graph, _aten.add.Tensor, own, first)
        scale = math.prod(each.size for each in axes[number + 1 :])
        if scale != 1:
            own = called(graph, _aten.mul.Tensor, own, scale)
        bounds = []
        if first < 0:
            bounds.append(called(graph, _aten.ge.Scalar, own, 0))
        if first + axis.stride > axis.size:
            bounds.append(called(graph, _aten.lt.Scalar, own, axis.size * scale))
        for bound in bounds:  # far enough below zero for what the other axes add
            below = filled(graph, like, -math.prod(each.size for each in axes) * len(axes), torch.int32)
            own = called(graph, _aten.where.self, bound, own, below)
        place = own if place is None else called(graph, _aten.add.Tensor, place, own)
    assert place is not None
    return place


def _shifted(
    graph: torch.fx.Graph, of_windows: torch.fx.Node, axes: Sequence[Windows], shifts: Sequence[int], otherwise: int
) -> torch.fx.Node:
    """For each block what belongs to the window that is so many blocks further on, along all elements of the block;
    `otherwise` where there is no such window.
    """
    pads: list[int] = []
    for axis, shift in zip(reversed(axes), reversed(shifts)):
        pads += [-shift, axis.blocks + shift - axis.count]
    if any(pads):
        of_windows = called(graph, _aten.constant_pad_nd.default, of_windows, pads, otherwise)
    for number in range(len(axes)):
        of_windows = called(graph, _aten.unsqueeze.default, of_windows, 2 + 2 * number)
    return of_windows
