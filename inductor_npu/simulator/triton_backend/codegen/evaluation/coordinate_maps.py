"""Maps of coordinates: how reshape, trans, broadcast, ... lead from a tile to the one that it shows."""

from __future__ import annotations

from collections.abc import Sequence

from ..emit.integers import Integers
from ..forms.coordinate import Coordinate, Coordinates, Digit, Pinned
from ..forms.lane import Index, Lane, Uniform, Vector
from ..forms.value import Val


class CoordinateMaps:
    """Maps of coordinates; `width` is the number of lanes of the chunk that they describe."""

    def __init__(self, integers: Integers, width: int) -> None:
        self.integers = integers
        self.lanes = integers.lanes
        self.b = integers.b
        self.width = width
        self.zero = Index(self.b.constant("i64", 0), 0, "i64")
        self._values: dict[Coordinate, Lane] = {}
        self._reshapes: dict[tuple[Coordinates, tuple[int, ...]], Coordinates] = {}
        self._constants: dict[int, Index] = {0: self.zero}
        self._shared: dict[tuple[str, int], Index] = {}
        self._origins: dict[Coordinate, tuple[Coordinates, tuple[int, ...]]] = {}

    def constant(self, position: int) -> Index:
        if position not in self._constants:
            self._constants[position] = Index(self.b.constant("i64", position), 0, "i64")
        return self._constants[position]

    def shared(self, first: Val, step: int) -> Index:
        """The coordinate that counts up from `first`: the same object for the same numbers."""
        return self._shared.setdefault((first.text, step), Index(first, step, "i64"))

    def value(self, coordinate: Coordinate) -> Lane:
        """The positions themselves, as i64."""
        if isinstance(coordinate, Pinned):
            return self._pinned_value(coordinate)
        if not isinstance(coordinate, Digit):
            return coordinate
        known = self._values.get(coordinate)
        if known is None:
            known = self._repeating(coordinate)
        if known is None:
            known = self.value(coordinate.whole)
            if coordinate.stride > 1:
                known = self._operate("udiv", known, coordinate.stride)
            if coordinate.stride * coordinate.extent < coordinate.size:
                known = self._operate("urem", known, coordinate.extent)
        self._values[coordinate] = known
        return known

    def _repeating(self, digit: Digit) -> Vector | None:
        """The digit where it takes the same values in every chunk."""
        whole, block = digit.whole, digit.stride * digit.extent
        if not isinstance(whole, Index) or whole.step != 1 or block > self.width or whole.first.divisor % block:
            return None
        return Vector(self.b.lane_numbers("i64", [lane // digit.stride % digit.extent for lane in range(self.width)]))

    def _pinned_value(self, pinned: Pinned) -> Lane:
        known = self._values.get(pinned)
        if known is None:
            whole = self.value(pinned.whole)
            digit = self._operate("urem", self._operate("udiv", whole, pinned.stride), pinned.extent)
            away = self._operate("mul", self._combine("sub", self.constant(pinned.digit), digit), pinned.stride)
            known = self._combine("add", whole, away)
            self._values[pinned] = known
        return known

    def _combine(self, opcode: str, a: Lane, b: Lane) -> Lane:
        result = self.integers.binary(opcode, a, b, "i64", self.width)
        return self.lanes.index(result) or result if isinstance(result, Uniform) else result

    def lane_order(self, coordinate: Coordinate) -> tuple[Index, list[int]] | None:
        """For a pinned coordinate whose digit changes within the chunk: its `whole`, and the lane of that which each
        lane takes.
        """
        if not isinstance(coordinate, Pinned) or not isinstance(coordinate.whole, Index):
            return None
        block = coordinate.stride * coordinate.extent
        whole = coordinate.whole
        if whole.step != 1 or block > self.width or self.width % block or whole.first.divisor % block:
            return None
        stride, extent, digit = coordinate.stride, coordinate.extent, coordinate.digit
        return whole, [lane + (digit - lane // stride % extent) * stride for lane in range(self.width)]

    def _operate(self, opcode: str, lane: Lane, number: int) -> Lane:
        result = self.integers.binary(opcode, lane, self.constant(number), "i64", self.width)
        return self.lanes.index(result) or result if isinstance(result, Uniform) else result

    def reshape(self, coordinates: Coordinates, shape: Sequence[int], source_shape: Sequence[int]) -> Coordinates:
        """Coordinates in a tile of `source_shape` of the element at `coordinates` in its reshape to `shape`."""
        key = (coordinates, tuple(source_shape))
        known = self._reshapes.get(key)
        if known is None:
            known = self._reshape(coordinates, tuple(shape), tuple(source_shape))
            self._reshapes[key] = known
        return known

    def _reshape(self, coordinates: Coordinates, shape: tuple[int, ...], source_shape: tuple[int, ...]) -> Coordinates:
        result: list[Coordinate] = []
        i = j = 0
        while i < len(shape) or j < len(source_shape):
            first_i, first_j = i, j
            here = there = 1
            while i < len(shape) and (i == first_i or here < there):
                here *= shape[i]
                i += 1
            while j < len(source_shape) and (there < here or j == first_j):
                there *= source_shape[j]
                j += 1
            while here != there:
                if here < there:
                    here *= shape[i]
                    i += 1
                else:
                    there *= source_shape[j]
                    j += 1
            while i < len(shape) and shape[i] == 1:
                i += 1
            while j < len(source_shape) and source_shape[j] == 1:
                j += 1
            merged = self._merge(coordinates[first_i:i], shape[first_i:i])
            wanted = tuple(d for d in source_shape[first_j:j])
            origin = self._origins.get(merged)
            result += origin[0] if origin is not None and origin[1] == wanted else self._split(merged, here, wanted)
        return tuple(result)

    def _merge(self, coordinates: Coordinates, shape: tuple[int, ...]) -> Coordinate:
        """The position in the flattened group of axes."""
        parts = [(c, d) for c, d in zip(coordinates, shape) if d > 1]
        if not parts:
            return self.zero
        pinned = self._pin(parts)
        if pinned is not None:
            return pinned
        merged, size = parts[0]
        for coordinate, extent in parts[1:]:
            joined = _join_digits(merged, coordinate)
            if joined is None:
                high = self.integers.binary("mul", self.value(merged), self.constant(extent), "i64", self.width)
                total = self.integers.binary("add", high, self.value(coordinate), "i64", self.width)
                joined = self.lanes.index(total) or Vector(self.lanes.vector(total, self.width))
            merged, size = joined, size * extent
        if len(parts) > 1:
            self._origins[merged] = (tuple(coordinates), tuple(shape))
        return merged

    def _pin(self, parts: list[tuple[Coordinate, int]]) -> Pinned | None:
        """The merged coordinate where all parts but one are digits of one whole, and that one is a constant."""
        fixed = {
            i: int(c.first.constant)
            for i, (c, _) in enumerate(parts)
            if isinstance(c, Index) and c.step == 0 and c.first.constant is not None
        }
        if len(fixed) != 1 or len(parts) < 2:
            return None
        ((place, digit),) = fixed.items()
        other = parts[1 if place == 0 else 0][0]
        if not isinstance(other, Digit):
            return None
        stride = 1
        for _, extent in parts[place + 1 :]:
            stride *= extent
        extent = parts[place][1]
        free = [c for c, _ in parts]
        free[place] = Digit(other.whole, stride, extent, other.size)
        whole: Coordinate | None = free[0]
        for part in free[1:]:
            whole = None if whole is None else _join_digits(whole, part)
        if whole is not other.whole:
            return None
        return Pinned(whole, stride, extent, digit)

    def _split(self, whole: Coordinate, size: int, shape: tuple[int, ...]) -> list[Coordinate]:
        result: list[Coordinate] = []
        stride = size
        for extent in shape:
            stride //= extent
            if extent == 1:
                result.append(self.zero)
            elif extent == size:
                result.append(whole)
            elif isinstance(whole, Index) and whole.first.constant is not None and whole.step == 0:
                result.append(self.constant(whole.first.constant // stride % extent))
            elif isinstance(whole, Digit):
                result.append(Digit(whole.whole, whole.stride * stride, extent, whole.size))
            else:
                result.append(Digit(whole, stride, extent, size))
        return result


def _join_digits(high: Coordinate, low: Coordinate) -> Coordinate | None:
    """The digit that two neighbours form; the whole coordinate where they are all of it."""
    if not (isinstance(high, Digit) and isinstance(low, Digit) and high.whole is low.whole):
        return None
    if high.stride != low.stride * low.extent:
        return None
    if low.stride == 1 and high.stride * high.extent == high.size:
        return high.whole
    return Digit(high.whole, low.stride, low.extent * high.extent, high.size)
