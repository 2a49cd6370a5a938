"""Inductor's choices for `npu`: the number of parts in which rows and columns are reduced, and whether loops over rows
and columns of the same tensors are fused.

The results of a row's parts are contiguous in memory, row by row, and an NPU moves rows of less than a block of 32
bytes one by one. A row of several axes, as that of a batch norm, is reduced in parts that begin and end where an index
of an axis does: addresses in others have a `//` and a `%` of the index in the part, and no tile goes along it.

Inductor takes choices from an object that backends may exchange (`V.set_choices_handler`): one for all devices, which
others may have exchanged, too. The object here corrects answers of the one before it, for `npu`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import torch
from torch._inductor.scheduler import BaseSchedulerNode
from torch._inductor.virtualized import V

from inductor_npu.codegen.scheduling import rows_and_columns
from inductor_npu.providers import current_target

_DEVICE = "npu"
_FARTHEST = 4  # so many times more or fewer parts than were asked for


class _NpuChoices:
    """Answers as `others` do, except that rows on `npu` are reduced in a number of parts that fills blocks, and that
    pairs of rows_and_columns.py may be fused.
    """

    def __init__(self, others: Any) -> None:
        self._others = others

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "_others"), name)

    def reduction_split_factor(
        self, device: torch.device, reduction_numel_hint: int, numel_hint: int, inner_reduction: bool
    ) -> int:
        """Returns in how many parts each of `numel_hint` rows of `reduction_numel_hint` elements is reduced."""
        parts = self._others.reduction_split_factor(
            device, reduction_numel_hint, numel_hint, inner_reduction=inner_reduction
        )
        if device.type != _DEVICE or parts == 1:
            return parts
        if numel_hint == 1:
            return _between_indices(parts, _reduced_axes(reduction_numel_hint), fewest=parts)
        if not inner_reduction:
            return max(parts, rows_and_columns.parts_of(reduction_numel_hint, numel_hint))
        in_a_block = current_target().shortest_row  # numbers of 4 bytes
        parts = -(-parts // in_a_block) * in_a_block
        return _between_indices(parts, _reduced_axes(reduction_numel_hint))

    def can_fuse(self, scheduler: Any, node1: BaseSchedulerNode, node2: BaseSchedulerNode, shared: int) -> bool:
        """As `others` answer; `shared` is how much both access alike. They do not know what a pair shares."""
        if not shared and _is_ours(node1) and rows_and_columns.can_be_pair(node1, node2):
            shared = rows_and_columns.shared_by(node1)
        return self._others.can_fuse(scheduler, node1, node2, shared)

    def can_fuse_horizontal(
        self, scheduler: Any, node1: BaseSchedulerNode, node2: BaseSchedulerNode, shared: int
    ) -> bool:
        """As `can_fuse`, of loops that do not depend on each other."""
        is_pair = _is_ours(node1) and rows_and_columns.can_be_pair(node1, node2)
        return is_pair or self._others.can_fuse_horizontal(scheduler, node1, node2, shared)


def _reduced_axes(elements: int) -> Sequence[int]:
    """The lengths of the axes with so many elements that the operator reduces whose loops are being made, from the
    outermost inwards: those of its operand's that have as many. One of all elements where none have, none where sizes
    are dynamic.
    """
    node = getattr(V.graph, "current_node", None)  # nobody makes loops where there is no graph
    values = [operand.meta.get("val") for operand in node.all_input_nodes] if node is not None else []
    shapes = [value.shape for value in values if isinstance(value, torch.Tensor)]
    if not all(isinstance(length, int) for shape in shapes for length in shape):
        return ()
    for shape in shapes:
        lengths = [length for length in shape if length > 1]
        for dropped in range(len(lengths)):
            for kept in combinations(lengths, len(lengths) - dropped):
                if math.prod(kept) == elements:
                    return kept
    return (elements,)


def _between_indices(parts: int, lengths: Sequence[int], fewest: int = 1) -> int:
    """The number of parts nearest to `parts`, each of whole indices along axes of these `lengths`; of one axis only if
    it is near, for any part of it is addressed as easily. Not below `fewest` where there is another.
    """
    outer, numbers = 1, set[int]()
    for length in lengths:
        numbers |= {outer * number for number in range(1, min(length, _FARTHEST * parts) + 1) if length % number == 0}
        outer *= length
    nearest = min(numbers, key=lambda number: (number < fewest, abs(math.log(number / parts))), default=parts)
    is_near = parts <= _FARTHEST * nearest and nearest <= _FARTHEST * parts
    return nearest if is_near or len(lengths) > 1 else parts


def _is_ours(node: BaseSchedulerNode) -> bool:
    device = node.get_device()
    return device is not None and device.type == _DEVICE


def correct_choices() -> None:
    """Has this thread's choices corrected, including a user's. Call it before the loops of a graph are made; further
    calls do nothing.
    """
    if not isinstance(V.choices, _NpuChoices):
        V.set_choices_handler(_NpuChoices(V.choices))
