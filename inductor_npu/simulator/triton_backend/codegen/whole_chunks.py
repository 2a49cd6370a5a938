"""Loops whose chunks no edge crosses: a mask `position < n` costs nothing up to the last whole chunk before n.

Masked loads and stores are slower than plain ones, on processors without AVX-512 many times so, and a mask is computed
for each chunk. So a loop over a masked axis is written twice: over the chunks that lie before the edges of all masks,
as if there were none, and over the rest, which is short because it ends where all masks are off, if nothing is done
there that counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..ttir.ir import Op, Value, splat_number
from .builder import Loop, Val
from .combine import Combiner
from .lanes import Lane, Uniform
from .plan import Root
from .types import element_of, is_float
from .views import VIEWS

if TYPE_CHECKING:
    from .kernel import CodegenOptions, KernelGenerator
    from .lanes import Lanes

FEWEST_CHUNKS = 4  # in a loop that is worth writing twice
Number = int | float | bool


class WholeChunks:
    """What is learnt about masks while the loop over whole chunks of `width` is written. `counter` is its induction
    variable; the chunk that is being written is `ahead` elements further on.
    """

    def __init__(self, lanes: Lanes, counter: Val, width: int) -> None:
        self.lanes, self.counter, self.width, self.ahead = lanes, counter, width, 0
        self.ends: dict[str, Val] = {}  # positions where masks end
        self._conditions: set[Value] = set()
        self._others: set[Value] = set()

    def ends_at(self, rest: Val, inner: Val, width: int) -> bool:
        """Notes the end of a mask that holds where `inner` and the lanes after it, `width` in all, are before `rest`.
        False where `inner` does not count with this loop.
        """
        base, distance = inner.moved or (inner, 0)
        if base is not self.counter or rest.level >= self.counter.level or width > self.width:
            return False
        end = self.lanes.difference(rest, self.lanes.b.constant("i64", distance - self.ahead))
        self.ends[end.text] = end
        return True

    def saw(self, op: Op, lane: Lane, width: int) -> None:
        """Notes what a comparison is in this loop."""
        (self._conditions if self.lanes.is_whole(lane, width) else self._others).add(op.result)

    @property
    def off(self) -> set[Value]:
        """Comparisons that are false at all positions behind the last end."""
        return self._conditions - self._others

    def bounds(self, start: int, stop: int, step: int, width: int) -> tuple[Val, Val]:
        """Where the last `step` elements before all ends end, and the last chunk of `width` before some end, counted
        from `start`; neither is beyond `stop`.
        """
        b, constant = self.lanes.b, self.lanes.b.constant
        ends = list(self.ends.values())
        first, last = ends[0], ends[0]
        for end in ends[1:]:
            first = b.intrinsic("smin", ("i64", 0), (first, end))
            last = b.intrinsic("smax", ("i64", 0), (last, end))

        def within(end: Val, most: int) -> Val:
            """From `start`, clamped to 0 ... `most`."""
            least = b.intrinsic("smax", ("i64", 0), (end, constant("i64", start)))
            clamped = b.intrinsic("smin", ("i64", 0), (least, constant("i64", start + most)))
            return b.binary("sub", clamped, constant("i64", start))

        extent = stop - start
        whole = b.binary("and", within(first, extent // step * step), constant("i64", -step))
        rounded = b.binary("add", within(last, extent), constant("i64", width - 1))
        some = b.binary("and", rounded, constant("i64", -width))
        return b.binary("add", whole, constant("i64", start)), b.binary("add", some, constant("i64", start))


@contextmanager
def whole_chunks(lanes: Lanes, loop: Loop, width: int) -> Iterator[WholeChunks]:
    """While the body of `loop` is written for chunks of `width` that no mask's edge crosses."""
    lanes.whole = WholeChunks(lanes, loop.iv, width)
    try:
        yield lanes.whole
    finally:
        lanes.whole = None


def is_worth_two_loops(options: CodegenOptions, extent: int, width: int) -> bool:
    """Whether to write a loop over `extent` in chunks of `width` twice. Counts of what a kernel does, and checks, are
    of each access as it stands in the kernel.
    """
    few = extent < FEWEST_CHUNKS * width
    return not (few or width < 2 or width & (width - 1) or options.record or options.checked)


def never_holds(kernel: KernelGenerator, conditions: Sequence[Value], off: set[Value]) -> bool:
    """Whether one of `conditions` is false where all comparisons in `off` are."""
    behind = _Behind(kernel, off)
    return any(behind.number(condition) is False for condition in conditions)


def adds_nothing(kernel: KernelGenerator, roots: Sequence[Root], off: set[Value] | None) -> bool:
    """Whether `roots` write nothing, and reduce what changes no result, where all comparisons in `off` are false; None:
    all integer comparisons.
    """
    behind = _Behind(kernel, off)
    return all(_adds_nothing(kernel, behind, root) for root in roots)


def _adds_nothing(kernel: KernelGenerator, behind: _Behind, root: Root) -> bool:
    if root.op is None:
        return False
    if root.op.name == "tt.store":
        return len(root.op.operands) > 2 and behind.number(root.op.operands[2]) is False
    if root.op.name != "tt.reduce":
        return False
    identity, found = Combiner(kernel, root.op).identity(), behind.number(root.op.operands[0])
    if identity is None or found is None:
        return False
    return found == identity[0] or (math.isnan(found) and math.isnan(identity[0]))


class _Behind:
    """Elements where some comparisons are known to be false, as numbers where they do not depend on more than that."""

    def __init__(self, kernel: KernelGenerator, off: set[Value] | None) -> None:
        self.env, self.off = kernel.env, off
        self._known: dict[Value, Number | None] = {}

    def number(self, value: Value) -> Number | None:
        if value not in self._known:
            self._known[value] = self._of(value)
        return self._known[value]

    def _of(self, value: Value) -> Number | None:
        place, op = self.env.get(value), value.owner
        if place is not None:
            return place.val.constant if isinstance(place, Uniform) else None
        if op is None:
            return None
        if op.name == "arith.constant":
            number = splat_number(value)
            return number if number is None or element_of(value.type) != "i1" else bool(number)
        if op.name == "arith.cmpi":
            return False if self.off is None or op.result in self.off else None
        if op.name == "tt.splat" or (op.name in VIEWS and len(op.operands) == 1):
            return self.number(op.operands[0])
        if op.name == "tt.load":
            if len(op.operands) < 2 or self.number(op.operands[1]) is not False:
                return None
            return self.number(op.operands[2]) if len(op.operands) > 2 else 0
        return self._computed(op)

    def _computed(self, op: Op) -> Number | None:
        numbers = [self.number(operand) for operand in op.operands]
        if op.name in ("arith.andi", "arith.ori") and element_of(op.result.type) == "i1":
            deciding = op.name == "arith.ori"
            return deciding if any(number is deciding for number in numbers) else None
        if op.name == "arith.xori" and element_of(op.result.type) == "i1":
            return None if None in numbers else numbers[0] != numbers[1]
        if op.name == "arith.select":
            chosen = numbers[0]
            return None if not isinstance(chosen, bool) else numbers[1 if chosen else 2]
        known = [number for number in numbers if number is not None]
        if len(known) < len(numbers) or not is_float(element_of(op.result.type)):
            return None
        if op.name == "arith.mulf":
            return known[0] * known[1]
        if op.name == "arith.addf":
            return known[0] + known[1]
        if op.name in ("arith.maximumf", "arith.minimumf") and not any(map(math.isnan, known)):
            return max(known) if op.name == "arith.maximumf" else min(known)
        if op.name == "math.absf":
            return abs(known[0])
        if op.name in ("arith.extf", "arith.truncf", "tt.fp_to_fp") and known[0] in (0, math.inf, -math.inf):
            return known[0]
        return None


__all__ = ["WholeChunks", "adds_nothing", "is_worth_two_loops", "never_holds", "whole_chunks"]
