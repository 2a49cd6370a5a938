"""The weights of a convolution as the matrices that patches are multiplied by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sympy
from torch._inductor import ir, lowering
from torch._inductor.virtualized import V

from inductor_npu.lowering.convolutions.loops import computed, load_at
from inductor_npu.lowering.convolutions.window import zero_unless


@dataclass(frozen=True)
class Weights:
    """Matrices from `inner` channels to `outer` ones, of each group, for each tap of a window; and, of a window that
    each element of an image is spread over, for each *phase*: which of the places between two elements it is.

    They are elements of buffer `name`, from `start` on, at these distances.
    """

    name: str
    start: sympy.Expr
    group: sympy.Expr
    outer: sympy.Expr
    inner: sympy.Expr
    tap: tuple[sympy.Expr, ...]
    phase: tuple[sympy.Expr, ...]

    def load(
        self,
        group: sympy.Expr,
        outer: sympy.Expr,
        inner: sympy.Expr,
        tap: Sequence[sympy.Expr],
        phase: Sequence[sympy.Expr],
    ) -> Any:
        """Loads an element."""
        indices = (group, outer, inner, *tap, *phase)
        steps = (self.group, self.outer, self.inner, *self.tap, *self.phase)
        return load_at(self.name, self.start, indices, steps)

    @property
    def are_readable(self) -> bool:
        """Whether the cube cores can read them: channels of one kind are neighbours."""
        known = V.graph.sizevars.statically_known_equals
        return known(self.outer, 1) or known(self.inner, 1)


def gathering(weight: ir.IRNode, groups: int) -> Weights:
    """Those of a window that gathers: `weight`, in memory, is [groups * outer, inner, *taps]."""
    layout = weight.get_layout()
    outer, inner, *tap = layout.stride
    each = sympy.sympify(weight.get_size()[0]) // groups
    phase = (sympy.S.Zero,) * len(tap)
    return Weights(weight.get_name(), layout.offset, outer * each, outer, inner, tuple(tap), phase)


def scattering(weight: ir.IRNode, groups: int, steps: Sequence[int]) -> Weights:
    """Those of a window that spreads each element over its places, `steps` apart: `weight`, in memory, is
    [groups * inner, outer, *taps], its taps multiples of the steps. At a place in a phase, the element before it has
    the tap that is its distance: taps count from the farthest.
    """
    layout = weight.get_layout()
    inner, outer, *along = layout.stride
    each, _, *taps = weight.get_size()
    start = layout.offset
    for length, step, stride in zip(taps, steps, along, strict=True):
        start = start + (length // step - 1) * step * stride
    tap = tuple(-step * stride for step, stride in zip(steps, along, strict=True))
    return Weights(weight.get_name(), start, inner * (sympy.sympify(each) // groups), outer, inner, tap, tuple(along))


def packed(weight: ir.IRNode, taps: Sequence[int], channels_last: bool) -> ir.IRNode:
    """Copies `weight`, [first, second, *spatial], with zeros up to `taps` elements along each spatial dimension, to
    memory in which its second dimension is innermost, and the spatial ones outermost, or its last one is innermost.
    """
    first, second, *sizes = V.graph.sizevars.guard_int_seq(weight.get_size())
    load = weight.make_loader()

    def element(index: Sequence[sympy.Expr]) -> Any:
        (*at, row, channel) = index if channels_last else (*index[2:], *index[:2])
        beyond = [
            lowering.range_mask_high(place, length)
            for place, length, wanted in zip(at, sizes, taps, strict=True)
            if wanted > length
        ]
        return zero_unless(beyond, lambda: load([row, channel, *at]))

    copy = computed(weight, element, [*taps, first, second] if channels_last else [first, second, *taps])
    count = len(taps)
    return lowering.permute(copy, [count, count + 1, *range(count)]) if channels_last else copy
