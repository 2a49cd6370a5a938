"""The axis of a loop nest whose neighbours fill the lanes of a chunk."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ...ttir.ir import Value
from ..analysis.operations import is_tensor, is_virtual, moves
from ..analysis.strides import Strides
from ..analysis.view_axes import source_axes
from ..forms.scratch import Buffer, Place
from ..forms.types import shape_of
from .steps import Group, KeptRoot, OpRoot, Root

Axes = tuple[int | None, ...]  # which axis of a value each axis of the nest runs along


def vector_axis(group: Group, places: Mapping[Value, Place], strides: Strides) -> int:
    """The axis along which most memory is contiguous; the last one that has more than one element if there is
    none. `places` says where the values written so far are.
    """
    votes = _Votes(group.shape, places, strides)
    for root in group.roots:
        votes.of_root(root)
    weighted = [v * min(1.0, d / 16) for v, d in zip(votes.votes, group.shape)]
    best = max(weighted, default=0)
    candidates = [a for a, d in enumerate(group.shape) if d > 1]
    if not candidates:
        return max(len(group.shape) - 1, 0)
    for axis in reversed(candidates):
        if best > 0 and weighted[axis] == best:
            return axis
    return candidates[-1]


class _Votes:
    """The votes of the memory behind values for the axes of a nest over `shape` that it runs along."""

    def __init__(self, shape: tuple[int, ...], places: Mapping[Value, Place], strides: Strides) -> None:
        self.shape, self.places, self.strides = shape, places, strides
        self.votes = [0.0] * len(shape)
        self._seen: set[tuple[Value, Axes]] = set()

    def of_root(self, root: Root) -> None:
        identity = tuple(range(len(self.shape)))
        if isinstance(root, OpRoot) and root.is_effect:
            self._vote(root.operands[0], identity, 2.0)
        if isinstance(root, KeptRoot) and root.buffer is not None:
            for axis, stride in enumerate(root.buffer.strides):
                self.votes[axis] += 1.5 * (stride == 1 and self.shape[axis] > 1)
        for operand in root.operands:
            self._visit(operand, identity)

    def _vote(self, pointer: Value, axes: Axes, weight: float) -> None:
        for nest_axis, axis in enumerate(axes):
            if axis is not None and self.strides.along(pointer, axis) in (1, -1):
                self.votes[nest_axis] += weight

    def _visit(self, value: Value, axes: Axes) -> None:
        """Lets the memory behind `value` vote for the axes it runs along."""
        if (value, axes) in self._seen or not is_tensor(value):
            return
        self._seen.add((value, axes))
        place, op = self.places.get(value), value.owner
        # A vector that is broadcast is little memory.
        weight = min(1.0, math.prod(shape_of(value.type)) / math.prod(self.shape))
        if isinstance(place, Buffer):
            for nest_axis, axis in enumerate(axes):
                self.votes[nest_axis] += weight * (
                    axis is not None and place.strides[axis] == 1 and place.shape[axis] > 1
                )
        elif place is not None or op is None:
            return
        elif op.name == "tt.load":
            self._vote(op.operands[0], axes, weight)
        elif is_virtual(op):
            for operand in op.operands:
                mapped = source_axes(op, axes) if moves(op) else axes
                if mapped is not None:
                    self._visit(operand, mapped)
