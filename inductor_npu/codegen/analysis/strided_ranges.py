"""Which loads and stores go through a contiguous range of memory, with an on-chip gather between the range and the
tile.

A transfer moves contiguous memory. Neighbours of the tile need not be neighbours in memory: every third element, a row
from its end, a row with a rolled or mirrored index, a last axis of two or three. Then a load reads the whole range that
contains its elements, and a store writes a whole range; `tl.gather` brings them into position inside the Unified
Buffer.

This file only looks at addresses. `on_chip_gather.py` writes the kernels' text.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import sympy
from torch._inductor.utils import sympy_subs

from inductor_npu.codegen.index.affine import Affine, affine
from inductor_npu.codegen.index.bounds import Bounds
from inductor_npu.codegen.index.value_range import value_range
from inductor_npu.providers import current_target

Lengths = Mapping[sympy.Symbol, sympy.Expr]

# The largest step at which reading all elements in between costs no more than reading single ones, in bursts. With 4
# one kernel less of the corpus is vector code; with 16 none more (`python -m corpus.thresholds`, as below).
LARGEST_STEP = 8

# The most elements that a range may have for each element of the tile; 2 and 8 make the same kernels of the corpus.
_MOST_WASTE = 4


@dataclass(frozen=True)
class StridedRange:
    """Axes whose elements lie in one range of memory. Addresses and lengths are in elements.

    The tile contains the `minor` axes from end to end. Their addresses reach over `rest` elements, the least of which
    is `lowest`, counted from the address where all indices are 0. `position` is that of an element in the range, in the
    symbols of the minor axes. Along the `major` axis, if there is one, addresses advance by `step`. `main_axis` is the
    best innermost axis of the tile.
    """

    minor: frozenset[sympy.Symbol]
    position: sympy.Expr
    lowest: int
    rest: int
    major: sympy.Symbol | None
    step: int
    main_axis: sympy.Symbol

    @property
    def axes(self) -> frozenset[sympy.Symbol]:
        """The minor axes and the major one."""
        return self.minor | ({self.major} if self.major is not None else frozenset())

    @property
    def stretch(self) -> int:
        """How many times as long as the block of the major axis the range is, rounded up to a power of two."""
        return _power_of_two(max(abs(self.step), self.rest))


@dataclass(frozen=True)
class Part:
    """What a predicate on indices leaves of some axes.

    `lengths` are the remaining lengths of all axes, `starts` the first indices of axes that do not begin with 0, `ends`
    the exclusive ends of axes that end early.
    """

    lengths: Lengths
    starts: Mapping[sympy.Symbol, int] = field(default_factory=dict)
    ends: Mapping[sympy.Symbol, int] = field(default_factory=dict)

    def limits(self, symbol: sympy.Symbol) -> bool:
        """Whether the part is less than the whole axis."""
        return symbol in self.starts or symbol in self.ends

    def end_of(self, symbol: sympy.Symbol) -> int:
        """The exclusive end of an axis of static length."""
        return self.starts.get(symbol, 0) + int(self.lengths[symbol])

    def moved(self, address: sympy.Expr, axes: Iterable[sympy.Symbol]) -> sympy.Expr:
        """`address` with the indices of `axes` counted from the start of the part."""
        moved = {symbol: symbol + self.starts[symbol] for symbol in axes if symbol in self.starts}
        return sympy.expand(sympy_subs(address, moved)) if moved else address


def part_of(lengths: Lengths, bounds: Bounds) -> Part | None:
    """Returns the part of axes with these `lengths` that is within `bounds`; None if it is empty, or known only at run
    time.
    """
    left, starts, ends = dict(lengths), dict[sympy.Symbol, int](), dict[sympy.Symbol, int]()
    for symbol in (symbol for symbol in bounds.symbols if symbol in lengths):
        length = _known(lengths[symbol])
        low, high = _known(bounds.low.get(symbol, sympy.S.Zero)), _known(bounds.high.get(symbol, lengths[symbol]))
        if length is None or low is None or high is None:
            return None
        low, high = max(low, 0), min(high, length)
        if low >= high:
            return None
        left[symbol] = sympy.Integer(high - low)
        if low > 0:
            starts[symbol] = low
        if high < length:
            ends[symbol] = high
    return Part(left, starts, ends)


def _burst() -> int:
    """Bytes of the shortest burst."""
    return current_target().burst_bytes


def fills_bursts(block: int, item_size: int) -> bool:
    """Whether rows of `block` elements of `item_size` bytes are contiguous in the Unified Buffer, where each row begins
    with a block of it.
    """
    return block * item_size % _burst() == 0


def shortest_row(item_size: int) -> int:
    """Elements of `item_size` bytes in the shortest burst."""
    return _burst() // item_size


def _power_of_two(number: int) -> int:
    return 1 << (number - 1).bit_length()


def _known(length: Any) -> int | None:
    return int(length) if isinstance(length, (int, sympy.Integer)) else None


def begins_in_a_block(start: int, item_size: int) -> bool:
    """Whether an access along a row from element `start` of the tile on begins within a block of the Unified Buffer,
    where Ascend's compiler copies element by element. `item_size` is in bytes.
    """
    return start * item_size % _burst() != 0


def load_range_of_part(address: sympy.Expr, part: Part, item_size: int) -> StridedRange | None:
    """As `load_range`, for the `part` of the axes; in the positions of the range, indices count from the start of the
    part.
    """
    moved = part.moved(address, part.starts)
    strided = load_range(moved, part.lengths, item_size)
    if affine(moved, part.lengths).nonlinear:
        return strided
    steps = _steps(affine(moved, part.lengths), part.lengths)
    if strided is not None or not steps or steps[0][1] != 1:
        return strided
    row = steps[0][0]
    if not begins_in_a_block(part.starts.get(row, 0), item_size):
        return None
    return StridedRange(frozenset(), sympy.S.Zero, 0, 1, row, 1, row)


def load_range(address: sympy.Expr, lengths: Lengths, item_size: int) -> StridedRange | None:
    """Returns the strided range of a load from `address`, along some of the axes with these `lengths`; None if it needs
    none, or has none.

    `address` is in elements, in the axes' symbols; `item_size` is in bytes. All other axes are rows.
    """
    taken = affine(address, lengths)
    if taken.nonlinear:
        return _range_of_nonlinear(address, taken, lengths, item_size)
    steps = _steps(taken, lengths)
    if not steps:
        return None
    short = _range_of_short_rows(steps, lengths, item_size, gaps=True)
    first, step = steps[0]
    if short is not None or step == 1 or abs(step) > LARGEST_STEP:
        return short
    return StridedRange(frozenset(), sympy.S.Zero, 0, 1, first, step, first)


def store_range(address: sympy.Expr, lengths: Lengths, item_size: int) -> StridedRange | None:
    """As `load_range`, for a store: a range without gaps, whose last axes are shorter than a burst."""
    taken = affine(address, lengths)
    steps = _steps(taken, lengths)
    if taken.nonlinear or not steps or steps[0][1] != 1:
        return None
    return _range_of_short_rows(steps, lengths, item_size, gaps=False)


def _steps(taken: Affine, lengths: Lengths) -> list[tuple[sympy.Symbol, int]]:
    """The axes with a static step in memory, in elements, the shortest step first."""
    steps = [(symbol, int(step)) for symbol, step in taken.strides.items() if isinstance(step, sympy.Integer)]
    order = list(lengths)
    return sorted(steps, key=lambda item: (abs(item[1]), -order.index(item[0])))


def _range_of_short_rows(
    steps: list[tuple[sympy.Symbol, int]], lengths: Lengths, item_size: int, gaps: bool
) -> StridedRange | None:
    """The range of the innermost axes as far as they are shorter than a burst, with the next axis as the major one: the
    outermost axis where all of them are that short.
    """
    minor: dict[sympy.Symbol, int] = {}
    lowest, rest = 0, 1
    for symbol, step in steps:
        size = abs(step)
        if minor and not rest <= size <= (_MOST_WASTE * rest if gaps else rest):
            return _rows_apart(minor, lowest, rest) if gaps and size > rest else None
        length = _known(lengths[symbol])
        if length is None or length * size * item_size >= _burst() or symbol == steps[-1][0]:
            break
        minor[symbol] = step
        lowest += min(0, step * (length - 1))
        rest += size * (length - 1)
    if not minor or rest * item_size >= _burst():
        return None
    return replace(_rows_apart(minor, lowest, rest), major=symbol, step=step, main_axis=symbol)


def _rows_apart(minor: Mapping[sympy.Symbol, int], lowest: int, rest: int) -> StridedRange:
    """Short rows along `minor` axes with these steps, each read by itself and as long as a burst."""
    position = sympy.Add(*(symbol * own for symbol, own in minor.items())) - lowest
    return StridedRange(frozenset(minor), position, lowest, rest, None, 0, next(iter(minor)))


def _range_of_nonlinear(address: sympy.Expr, taken: Affine, lengths: Lengths, item_size: int) -> StridedRange | None:
    """The range of all axes in which the address is not affine, and of those between them, with the next axis as the
    major one where all these are shorter than a burst.
    """
    affine_part = sympy.Add(taken.offset, *(symbol * step for symbol, step in taken.strides.items()))
    position = sympy.expand(address) - affine_part
    own = {symbol: _known(lengths[symbol]) for symbol in taken.nonlinear}
    minor = {symbol: length for symbol, length in own.items() if length is not None}
    if position.free_symbols - minor.keys():
        return None
    found = value_range(position, minor)
    if found is None:
        return None
    lowest, highest = found
    outer: list[tuple[sympy.Symbol, int]] = []
    for symbol, step in _steps(taken, lengths):
        length = _known(lengths[symbol])
        if outer or abs(step) > highest - lowest:
            outer.append((symbol, step))
            continue
        if length is None or (step == 1 and length >= current_target().shortest_row):
            return None  # rows that are read one by one
        minor[symbol] = length
        position += symbol * step
        lowest, highest = lowest + min(0, step * (length - 1)), highest + max(0, step * (length - 1))
    rest = highest - lowest + 1
    if rest > _MOST_WASTE * math.prod(minor.values()):
        return None
    long = [symbol for symbol, length in minor.items() if length >= current_target().shortest_row] or minor
    inner = max(long, key=list(lengths).index)
    strided = StridedRange(frozenset(minor), position - lowest, lowest, rest, None, 0, inner)
    if not outer or rest * item_size >= _burst() or outer[0][1] < 0 or outer[0][1] > _MOST_WASTE * rest:
        return strided
    return replace(strided, major=outer[0][0], step=outer[0][1], main_axis=outer[0][0])
