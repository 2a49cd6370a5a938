"""Max pools over windows of many elements, one axis after the other.

Inductor writes a window of fewer than 25 elements as so many loads, and a larger one as a reduction, whose windows
overlap along every axis at once: tiles of up to six axes, the innermost of which is a handful of elements. The greatest
of a window is also the greatest of its rows' greatest ones. Taken along the innermost axis first, each step is a pool
over as many elements as the window has along one axis, and what overlaps along the others is not read again. Of equal
elements the first one is chosen in each step, hence also in the whole window; its offset is that of its row, and in
that row the one that the step before chose.

Windows that do not overlap stay: as a reduction they are vector code that reads each element once.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from typing import Any

import torch

from inductor_npu.lowering.graph_passes.nodes import called, convert, filled, in_place_of, is_on_npu

_aten, _prims = torch.ops.aten, torch.ops.prims
_pool = _prims._low_memory_max_pool_with_offsets.default
_to_indices = _prims._low_memory_max_pool_offsets_to_indices.default
_POOLS = {_pool: 0, _aten.max_pool2d_with_indices.default: 2, _aten.max_pool3d_with_indices.default: 3}

# `_low_memory_max_pool_with_offsets` writes windows of fewer elements as loads (torch/_inductor/lowering.py).
_LOADED_ONE_BY_ONE = 25


@dataclass(frozen=True)
class _Windows:
    """Of a pool, each from the outermost axis inwards."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    paddings: tuple[int, ...]
    dilations: tuple[int, ...]
    ceil_mode: bool

    def along(self, axis: int) -> _Windows:
        """The same windows as long as one element in all axes but one."""

        def only(values: tuple[int, ...], otherwise: int) -> tuple[int, ...]:
            return tuple(value if number == axis else otherwise for number, value in enumerate(values))

        return _Windows(
            only(self.sizes, 1), only(self.strides, 1), only(self.paddings, 0), only(self.dilations, 1), self.ceil_mode
        )

    @property
    def arguments(self) -> tuple[list[int], list[int], list[int], list[int], bool]:
        """Those of `_low_memory_max_pool_with_offsets` behind the tensor."""
        return [*self.sizes], [*self.strides], [*self.paddings], [*self.dilations], self.ceil_mode


def apply(graph: torch.fx.Graph) -> int:
    """Rewrites the max pools over wide windows in `graph` on `npu`; returns how many there were."""
    rewritten = 0
    for target in _POOLS:
        for node in graph.find_nodes(op="call_function", target=target):
            windows = _windows_of(node)
            if _pays(windows) and _is_known(node, windows):
                _rewrite(graph, node, windows)
                rewritten += 1
    return rewritten


def _windows_of(node: torch.fx.Node) -> _Windows:
    names = ("x", "sizes", "strides", "paddings", "dilations", "ceil_mode")
    given = dict(zip(names, node.args))
    sizes: Any = given["sizes"]
    axes = _POOLS[node.target] or len(sizes)

    def each(value: Any) -> tuple[int, ...]:
        values = tuple(value) if isinstance(value, (list, tuple)) else (value,)
        return values * axes if len(values) == 1 else values

    strides = given.get("strides") or sizes
    return _Windows(
        each(sizes),
        each(strides),
        each(given.get("paddings", 0)),
        each(given.get("dilations", 1)),
        bool(given.get("ceil_mode", False)),
    )


def _pays(windows: _Windows) -> bool:
    """Whether windows overlap, and are a reduction as a whole and along no axis for itself."""
    reaches = ((size - 1) * dilation for size, dilation in zip(windows.sizes, windows.dilations))
    overlap = any(reach >= stride for reach, stride in zip(reaches, windows.strides))
    return overlap and max(windows.sizes) < _LOADED_ONE_BY_ONE <= math.prod(windows.sizes)


def _is_known(node: torch.fx.Node, windows: _Windows) -> bool:
    """Whether it is known where the pool's windows lie, or need not be, because nobody asks what they chose."""
    value = node.args[0].meta["val"]
    lengths = value.shape[-len(windows.sizes) :]
    return is_on_npu(value) and (all(isinstance(each, int) for each in lengths) or not _results(node)[1])


def _results(node: torch.fx.Node) -> tuple[list[torch.fx.Node], list[torch.fx.Node]]:
    """The nodes that take the greatest elements, and those that take where these were."""
    largest = [user for user in node.users if user.args[1] == 0]
    return largest, [user for user in node.users if user.args[1] == 1]


def _rewrite(graph: torch.fx.Graph, node: torch.fx.Node, windows: _Windows) -> None:
    of_largest, of_places = _results(node)
    x = largest = node.args[0]
    offsets: torch.fx.Node | None = None
    axes = len(windows.sizes)
    with in_place_of(node):
        for axis in reversed(range(axes)):
            pooled = called(graph, operator.getitem, called(graph, _pool, largest, *windows.along(axis).arguments), 0)
            if of_places:
                offsets = _offsets(graph, largest, pooled, offsets, windows, axis)
            largest = pooled
        if offsets is not None and node.target is _pool:
            offsets = called(graph, convert, offsets, torch.int8)
        elif offsets is not None:
            sizes, strides, paddings, dilations, _ = windows.arguments
            lengths = list(x.meta["val"].shape[-axes:])
            offsets = called(graph, _to_indices, offsets, sizes, lengths, strides, paddings, dilations)
    for users, result in ((of_largest, largest), (of_places, offsets)):
        for user in users:
            user.replace_all_uses_with(result)
            graph.erase_node(user)
    graph.erase_node(node)


def _offsets(
    graph: torch.fx.Graph,
    x: torch.fx.Node,
    largest: torch.fx.Node,
    within: torch.fx.Node | None,
    windows: _Windows,
    axis: int,
) -> torch.fx.Node:
    """Where the `largest` of `x` along `axis` are, as int32 offsets in the axes from `axis` inwards; `within`: the
    offsets in the axes behind, for each element of `x`.
    """
    value = x.meta["val"]
    columns = math.prod(windows.sizes[axis + 1 :])
    elements = _along_window(graph, x, _least(value.dtype), largest, windows, axis)
    behind = [None] * len(elements) if within is None else _along_window(graph, within, 0, largest, windows, axis)
    offset: torch.fx.Node | None = None
    for place, (element, inner) in reversed(list(enumerate(zip(elements, behind)))):
        if inner is None:
            here = filled(graph, value, place * columns, torch.int32)
        else:
            here = called(graph, _aten.add.Tensor, inner, place * columns) if place else inner
        if offset is None:
            offset = called(graph, _aten.expand.default, here, list(largest.meta["val"].shape))
            continue
        is_first = called(graph, _aten.eq.Tensor, element, largest)
        if value.dtype.is_floating_point:
            is_nan = called(graph, _aten.ne.Tensor, element, element)  # then no element equals the largest
            is_first = called(graph, _aten.bitwise_or.Tensor, is_first, is_nan)
        offset = called(graph, _aten.where.self, is_first, here, offset)
    assert offset is not None
    return offset


def _least(dtype: torch.dtype) -> Any:
    """What no element is below."""
    return -math.inf if dtype.is_floating_point else torch.iinfo(dtype).min


def _along_window(
    graph: torch.fx.Graph, x: torch.fx.Node, outside: Any, largest: torch.fx.Node, windows: _Windows, axis: int
) -> list[torch.fx.Node]:
    """The first elements of all windows along `axis`, the second ones, and so on; `outside` is beyond the borders."""
    step, dilation, padding = windows.strides[axis], windows.dilations[axis], windows.paddings[axis]
    behind = len(windows.sizes) - 1 - axis
    value = x.meta["val"]
    dim = value.dim() - 1 - behind
    last = (largest.meta["val"].shape[dim] - 1) * step  # where the last window begins
    reach = (windows.sizes[axis] - 1) * dilation
    pads = [0, 0] * behind + [padding, last + reach + 1 - padding - value.shape[dim]]
    if any(pads):
        x = called(graph, _aten.constant_pad_nd.default, x, pads, outside)
    return [
        called(graph, _aten.slice.Tensor, x, dim, first, first + last + 1, step)
        for first in range(0, reach + 1, dilation)
    ]
