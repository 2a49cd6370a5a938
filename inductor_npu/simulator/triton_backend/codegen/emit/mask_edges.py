"""Where masks end in a loop, collected while the loop's chunks are written."""

from __future__ import annotations

from ...ttir.ir import Op, Value
from ..forms.lane import Lane, is_whole
from ..forms.value import Val
from .scalars import Scalars


class MaskEdges:
    """What is learnt about masks while the loop over whole chunks of `width` is written. `counter` is its induction
    variable; the chunk that is being written is `ahead` elements further on.
    """

    def __init__(self, scalars: Scalars, counter: Val, width: int) -> None:
        self.scalars, self.counter, self.width, self.ahead = scalars, counter, width, 0
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
        end = self.scalars.difference(rest, self.scalars.b.constant("i64", distance - self.ahead))
        self.ends[end.text] = end
        return True

    def saw(self, op: Op, lane: Lane, width: int) -> None:
        """Notes what a comparison is in this loop."""
        (self._conditions if is_whole(lane, width) else self._others).add(op.result)

    @property
    def off(self) -> set[Value]:
        """Comparisons that are false at all positions behind the last end."""
        return self._conditions - self._others

    def bounds(self, start: int, stop: int, step: int, width: int) -> tuple[Val, Val]:
        """Where the last `step` elements before all ends end, and the last chunk of `width` before some end, counted
        from `start`; neither is beyond `stop`.
        """
        b, constant = self.scalars.b, self.scalars.b.constant
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
