"""In which form each load and store of a kernel is made, once its tile is known. `emit` prints what is decided here.

| Form | What is moved | Elements of the tile |
|---|---|---|
| `Direct` | the elements themselves, the contiguous axis last | as they come |
| `Strided` | the range of memory that contains them (strided_ranges.py) | gathered on chip by a table of positions |
| `Indexed` | all that loaded indices may point to (indexed_ranges.py) | gathered on chip by these indices |
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace

import sympy
import torch
from torch._inductor import config as inductor_config
from torch._inductor.virtualized import V

from inductor_npu.codegen.analysis.access_ranges import indexed_load, size_of, strided_load
from inductor_npu.codegen.analysis.indexed_ranges import IndexedRange
from inductor_npu.codegen.analysis.strided_ranges import (
    Part,
    StridedRange,
    begins_in_a_block,
    fills_bursts,
    shortest_row,
    store_range,
)
from inductor_npu.codegen.analysis.tiled_axes import AxisNames, TiledAxes
from inductor_npu.codegen.analysis.trace import Access
from inductor_npu.codegen.index.affine import affine
from inductor_npu.codegen.index.bounds import Bounds
from inductor_npu.codegen.index.conditions import Condition, implied_bounds
from inductor_npu.codegen.index.inside import stays_inside
from inductor_npu.codegen.index.vector_text import is_vector_text
from inductor_npu.codegen.index.wide_indices import index_fits_int32
from inductor_npu.providers import current_target


@dataclass(frozen=True)
class Direct:
    """An access of the elements themselves.

    `index` is the address, in elements, in the symbols of axes and of loaded indices. `axes` are the dimensions of the
    access, the contiguous one last. The access is made where `predicate` holds; None if there is no predicate, or
    nothing is known of it but its value. `guarded`: the address is 0 where the predicate does not hold.
    """

    index: sympy.Expr
    axes: AxisNames
    predicate: Bounds | None
    guarded: bool


@dataclass(frozen=True)
class Strided:
    """An access at `index` through the strided range `range`, of the `part` of the axes that `predicate` leaves.

    `index` is the address, in elements, in the axes' symbols. `axes` are those of the tile, in its order. `is_limited`:
    the mask leaves out the elements for which the predicate does not hold. `is_wide`: elements are gathered in 32 bits,
    because a row of the tile then fills whole blocks of the Unified Buffer, which it does not in its own type.
    """

    index: sympy.Expr
    axes: AxisNames
    range: StridedRange
    part: Part
    predicate: Bounds | None
    is_limited: bool
    is_wide: bool


@dataclass(frozen=True)
class Indexed:
    """A load of the indexed range `range`: `length` elements for each index along `rows`. `axes` are those of the tile,
    in its order.
    """

    range: IndexedRange
    axes: AxisNames
    rows: AxisNames
    length: int


Form = Direct | Strided | Indexed


class AccessForms:
    """Decides the forms of a kernel's accesses in the tile of `tiled`.

    `is_int32`: the kernel's index type is int32. `overwritten`: buffers that get several values at one address, of
    which the last one stays; their stores have predicates. `multiplied_along`: the axes along which a product is
    summed; what is loaded along them is an operand of it, which the cube cores load themselves.
    """

    def __init__(
        self,
        tiled: TiledAxes,
        is_int32: bool,
        overwritten: Container[str] = (),
        multiplied_along: frozenset[sympy.Symbol] = frozenset(),
    ) -> None:
        self._tiled = tiled
        self._is_int32 = is_int32
        self._overwritten = overwritten
        self._multiplied_along = multiplied_along

    def of(self, access: Access) -> Form:
        """Returns the form of `access`."""
        predicate = self.bounds(access.condition)
        index = access.raw_index
        if predicate is not None:
            index = predicate.without_divisions(index, self._tiled.axes.lengths)
        found: Form | None
        if access.is_store:
            found = self._strided_store(access, index)
        elif access.loaded:
            found = self._indexed(access, index)
        elif access.axes & self._multiplied_along:
            found = None
        else:
            found = self._strided_load(access, index, predicate)
        if found is not None:
            return found
        form = self.direct(
            index, self._prefixes(access.indirect), self._prefixes(access.masked), predicate, size_of(access)
        )
        return form if access.is_store else replace(form, predicate=self._from_row_start(access, form))

    def bounds(self, condition: Condition | None) -> Bounds | None:
        """Returns the bounds of the tile's axes that `condition` equals or implies; None if there are none."""
        lengths = self._tiled.axes.lengths

        def holds(end: sympy.Expr) -> bool:
            return not self._is_int32 or end.is_Integer or index_fits_int32(end, lengths)

        return implied_bounds(condition, list(self._tiled.lengths), lengths, holds)

    # -- the elements themselves --------------------------------------------------------------------------------------

    def direct(
        self,
        index: sympy.Expr,
        depends: AxisNames,
        masked: AxisNames,
        predicate: Bounds | None,
        size: sympy.Expr,
    ) -> Direct:
        """Returns the form of an access of the elements themselves at `index` of a buffer with `size` elements.

        `index` is in the symbols of axes and of loaded indices. Loaded indices in it vary along the axes `depends`, the
        predicate of the access varies along `masked`.
        """
        tiled = self._tiled
        own = {axis.prefix for axis in tiled.axes.all if axis.symbol in index.free_symbols}
        axes = tiled.in_order({*own, *depends})
        strides = affine(index, list(tiled.lengths)).strides
        for axis in axes:
            if strides.get(tiled.axis_of[axis].symbol) == 1:
                axes = (*(other for other in axes if other != axis), axis)
                break
        is_exact = predicate is not None and predicate.exact
        guarded = bool(masked) and not is_exact and not stays_inside(index, tiled.axes.lengths, size, predicate)
        if guarded:
            axes = (*tiled.in_order({*masked} - {*axes}), *axes)
        return Direct(index, axes, predicate, guarded)

    def _prefixes(self, symbols: Iterable[sympy.Symbol]) -> AxisNames:
        """Those of the axes `symbols` that are dimensions of the tile."""
        return self._tiled.in_order(set(map(self._prefix, symbols)))

    def _from_row_start(self, access: Access, form: Direct) -> Bounds | None:
        """The predicate of a load, without a lower bound inside a block of the Unified Buffer if the load can begin
        with the row instead.
        """
        index, predicate = form.index, form.predicate
        if predicate is None or not form.axes:
            return predicate
        row = self._tiled.axis_of[form.axes[-1]].symbol
        start = predicate.low.get(row)
        if not isinstance(start, sympy.Integer) or affine(index, [row]).strides.get(row) != 1:
            return predicate
        rest = replace(predicate, low={symbol: low for symbol, low in predicate.low.items() if symbol != row})
        from_row_start = begins_in_a_block(int(start), access.item_size)
        return rest if from_row_start and self._stays_inside(access, index, rest) else predicate

    # -- ranges of memory ---------------------------------------------------------------------------------------------

    def _strided_load(self, access: Access, index: sympy.Expr, predicate: Bounds | None) -> Strided | None:
        tiled, item_size = self._tiled, access.item_size
        lengths = tiled.lengths
        found = strided_load(
            access, index, predicate, lengths, tiled.axes.lengths, lambda axis: tiled.is_whole(self._prefix(axis))
        )
        if found is None:
            return None
        strided, part = found.range, found.part
        is_wide = not self._is_in_tile(strided, item_size)
        if is_wide and affine(index, lengths).nonlinear:  # then each row by itself
            strided = replace(strided, major=None, step=0)
            is_wide = not self._is_in_tile(strided, item_size)
        if is_wide and (not self._is_in_tile(strided, _computed_size(access)) or self._lies_in_memory(strided, index)):
            return None
        if strided.major is None:
            is_part = bool(part.starts or part.ends)
            strided = self._widened(access, part.moved(index, strided.axes), strided, predicate if is_part else None)
            is_short = strided.rest < shortest_row(item_size) and len(self._tiled.axes_in(index)) > len(strided.minor)
            if is_short and not is_part and not affine(index, strided.minor).nonlinear:
                return None  # rows that are too short, and cannot be read longer
        index, strided = self._aligned(access, index, strided)
        blocks = {symbol: self._tiled.tile.blocks[self._prefix(symbol)] for symbol in strided.minor}
        if strided.minor and not is_vector_text(strided.position, blocks):
            return None
        return Strided(index, tiled.axes_in(index), strided, part, predicate, found.is_limited, is_wide)

    def _strided_store(self, access: Access, index: sympy.Expr) -> Strided | None:
        if access.loaded or access.is_conditional or access.buffer in self._overwritten:
            return None
        strided = store_range(index, self._tiled.lengths, access.item_size)
        if strided is None:
            return None
        is_wide = not self._is_in_tile(strided, access.item_size)
        if is_wide:
            assert strided.major is not None
            # A predicate on an index keeps rows apart on chip.
            is_predicated = any(self.bounds(condition) is not None for condition in access.conditions_before)
            is_masked = is_predicated or self._tiled.needs_mask(self._prefix(strided.major))
            is_plain = self._lies_in_memory(strided, index) and not is_masked
            if is_plain or not self._is_in_tile(strided, max(access.item_size, 4)):
                return None
        axes, whole = self._tiled.axes_in(index), Part(self._tiled.lengths)
        return Strided(index, axes, strided, whole, None, False, is_wide)

    def _prefix(self, symbol: sympy.Symbol) -> str:
        return self._tiled.axis_with[symbol].prefix

    def _stays_inside(self, access: Access, index: sympy.Expr, within: Bounds | None = None) -> bool:
        return stays_inside(index, self._tiled.axes.lengths, size_of(access), within)

    def _is_in_tile(self, strided: StridedRange, item_size: int) -> bool:
        """Whether the tile has what the range needs: its minor axes from end to end, and an innermost axis whose block
        has whole bursts of elements of `item_size` bytes, if that axis is a minor one.
        """
        tiled = self._tiled
        if not all(tiled.is_whole(self._prefix(symbol)) for symbol in strided.minor):
            return False
        inner = tiled.tile.order[-1]
        is_main = inner == self._prefix(strided.main_axis)
        return is_main or strided.major is None or not strided.minor or fills_bursts(tiled.block(inner), item_size)

    def _lies_in_memory(self, strided: StridedRange, index: sympy.Expr) -> bool:
        """Whether the tile's elements are in memory in the same order as on chip, row after row."""
        tiled = self._tiled
        steps = affine(index, strided.axes).strides
        if not strided.axes <= steps.keys():
            return False
        inwards = [self._prefix(s) for s in sorted(strided.axes, key=lambda s: -abs(int(steps[s])))]
        is_filled = all(tiled.block(self._prefix(s)) == tiled.axis_with[s].length for s in strided.minor)
        return is_filled and tiled.axes_in(index)[-len(inwards) :] == tuple(inwards)

    def _aligned(self, access: Access, index: sympy.Expr, strided: StridedRange) -> tuple[sympy.Expr, StridedRange]:
        """The load, beginning at a multiple of its step, where the buffer extends so far. Loads of interleaved
        elements, such as the even and the odd ones, then become one.
        """
        offset = affine(index, self._tiled.axis_with).offset
        if strided.minor or strided.step < 2 or access.is_conditional or not isinstance(offset, sympy.Integer):
            return index, strided
        behind = int(offset) % strided.step
        if offset < 0 or not self._stays_inside(access, index - behind + strided.step - 1):
            return index, strided
        return index - behind, replace(strided, position=sympy.Integer(behind), rest=strided.step)

    def _widened(self, access: Access, index: sympy.Expr, strided: StridedRange, within: Bounds | None) -> StridedRange:
        """`strided`, extended to the length of a burst where the buffer extends so far `within` these bounds."""
        missing = shortest_row(access.item_size) - strided.rest
        taken = affine(index, self._tiled.axis_with)
        rows = [symbol for symbol in taken.strides if symbol not in strided.minor]
        first = taken.offset + sympy.Add(*(symbol * taken.strides[symbol] for symbol in rows)) + strided.lowest
        for before in (0, missing) if missing > 0 else ():
            start = first - before
            ends = start, start + strided.rest + missing - 1
            if all(self._stays_inside(access, end, within) for end in ends):
                position, lowest = strided.position + before, strided.lowest - before
                return replace(strided, position=position, lowest=lowest, rest=strided.rest + missing)
        return strided

    # -- loaded indices -----------------------------------------------------------------------------------------------

    def _indexed(self, access: Access, index: sympy.Expr) -> Indexed | None:
        """The load of all that the loaded indices in `index` may point to; None if elements are loaded one by one."""
        tiled = self._tiled
        depends = self._prefixes(access.indirect)
        symbols = frozenset(tiled.axis_of[axis].symbol for axis in depends)
        indexed = indexed_load(access, index, symbols, tiled.axes.lengths)
        if indexed is None:
            return None
        own = {axis.prefix for axis in tiled.axes.all if axis.symbol in index.free_symbols}
        axes = tiled.in_order({*own, *depends})
        rows = tuple(axis for axis in axes if tiled.axis_of[axis].symbol in indexed.rows)
        length = indexed.length(access.item_size)
        items = length * math.prod(tiled.tile.blocks[axis] for axis in rows)
        is_too_large = items * access.item_size > current_target().largest_range
        return None if is_too_large else Indexed(indexed, axes, rows, length)


def _computed_size(access: Access) -> int:
    """Bytes of a loaded element in the dtype in which it is computed."""
    dtype = V.graph.get_dtype(access.buffer)
    is_widened = dtype in (torch.float16, torch.bfloat16) and inductor_config.triton.codegen_upcast_to_fp32
    return 4 if is_widened or dtype == torch.bool else dtype.itemsize


def renamed(form: Form, names: Mapping[sympy.Symbol, sympy.Expr]) -> Form:
    """Returns `form` with other names for loaded indices."""
    if isinstance(form, Indexed):
        return replace(form, range=replace(form.range, position=form.range.position.xreplace(names)))
    return replace(form, index=form.index.xreplace(names)) if isinstance(form, Direct) else form
