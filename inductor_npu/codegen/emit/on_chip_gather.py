"""Loads and stores of a kernel through a range of memory and a gather on chip (`strided_ranges.py` decides which).

    place0 = tl.reshape(99 - tl.arange(0, XBLOCK)[None, :] + ..., [YBLOCK * XBLOCK])      # before the loop over tiles
    ...
    tmp0 = tl.load(in_ptr0 + (span0[None, :] + 100 * y[:, None]), ...)
    tmp1 = tl.reshape(device_functions.gather(tmp0, place0), [YBLOCK, XBLOCK])

The position of each element does not depend on the tile: the table of positions is hoisted. Positions count the
elements of a load row by row, so that a single gather over one axis suffices, which is the form that Ascend's compiler
has an instruction for. Where a chip splits tiles (`NpuTarget.splits_tiles`), elements at a distance of two, four, ...
need no table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import sympy

from inductor_npu.codegen.analysis.access_forms import Strided
from inductor_npu.codegen.analysis.strided_ranges import (
    Part,
    StridedRange,
)
from inductor_npu.codegen.emit.addresses import Addresses
from inductor_npu.codegen.emit.positions import Positions
from inductor_npu.codegen.emit.tile_kernel import AxisNames, TileKernel, subscript
from inductor_npu.codegen.index.affine import affine
from inductor_npu.codegen.index.value_range import value_range
from inductor_npu.codegen.index.vector_text import vector_text
from inductor_npu.providers import current_target


@dataclass(frozen=True)
class RangeAccess:
    """A load or store of a range of memory.

    `address` and `mask` are Triton expressions with a dimension for each of `rows` and a last one for the range;
    `shape` has the sizes of these dimensions. `positions` is the name of the table for the gather; or, of a load,
    `every` is the distance of the elements that it picks and the first one of them. `axes` are those of the tile, in
    its order.

    `fills`: lanes beyond the end of an axis are lanes that the mask leaves out. `is_limited`: so are elements for which
    the predicate of the load does not hold. `indirect`: positions depend on loaded indices. `is_wide`: elements are
    gathered in 32 bits, because a row of the tile then fills whole blocks of the Unified Buffer, which it does not in
    its own type.
    """

    address: str
    mask: str
    rows: AxisNames
    shape: tuple[str, ...]
    positions: str
    axes: AxisNames
    fills: bool
    is_limited: bool = False
    indirect: bool = False
    is_wide: bool = False
    every: tuple[int, int] | None = None

    def picked_text(self, tile: str) -> str:
        """The elements of the loaded `tile` for the kernel's, with one axis."""
        if self.every is None:
            return f"device_functions.gather({tile}, {self.positions})"
        step, first = self.every
        return f"device_functions.every({tile}, {step}, {first})"


class Gatherer:
    """Writes the loads and stores of `kernel` that go through ranges of memory."""

    def __init__(self, kernel: TileKernel, addresses: Addresses, positions: Positions) -> None:
        self.kernel, self.addresses, self.positions = kernel, addresses, positions

    def strided_load(self, form: Strided) -> RangeAccess:
        """The load of `form`. Elements of the tile outside of its part get arbitrary elements of the range, or the
        load's masked-lane value where the load is limited.
        """
        index = self.kernel.prepare_indexing(form.index)
        return replace(self._load(index, form), is_wide=form.is_wide)

    def strided_store(self, form: Strided) -> RangeAccess:
        """The store of `form`, of a value that has all axes of the address in the tile's order."""
        return replace(self._store(self.kernel.prepare_indexing(form.index), form.range), is_wide=form.is_wide)

    def _load(self, index: sympy.Expr, form: Strided) -> RangeAccess:
        strided, part = form.range, form.part
        axes = self.kernel.plan.tiled.axes_in(index)
        gathered = {self.kernel.axis_with(symbol).prefix for symbol in strided.axes}
        rows = tuple(axis for axis in axes if axis not in gathered)
        dims = (*rows, "span")
        extent, conditions, start = self._extent(part.moved(index, strided.axes), strided, part)
        shape = (*self.kernel.shape_of(rows), extent)
        positions = self.positions.hoisted("span", f"tl.arange(0, {extent})")
        across = subscript(("span",), dims)
        masks = [self.addresses.mask_text_of(axis, dims) for axis in rows if self.kernel.needs_mask(axis)]
        masks += [f"({positions}{across} {condition})" for condition in conditions]
        if self.kernel._load_mask is not None and not self.kernel.axes_of(self.kernel._load_mask.shape):
            masks.append(str(self.kernel._load_mask))
        elif (part.starts or part.ends) and form.predicate is not None:
            masks += self.addresses.bounds_text(form.predicate, dims)
        address, mask = self.addresses.row_address(start, rows, dims, positions), " & ".join(masks) or "None"
        fills = not strided.minor and strided.step > 0 and not (part.starts or part.ends)
        access = RangeAccess(address, mask, rows, shape, "", axes, fills, is_limited=form.is_limited)
        if fills and self._is_split(strided, rows, axes):
            return replace(access, every=(strided.step, int(strided.position)))
        is_turned = form.is_limited and strided.major is not None and part.limits(strided.major)
        terms = [
            self._positions_of_minor(strided, axes, part),
            self._positions_of_part(strided, axes, part, extent)
            if is_turned
            else self._positions_of_major(strided, axes),
        ]
        size = f"{extent}" if extent.isdecimal() or "*" not in extent else f"({extent})"
        for position, axis in enumerate(rows):
            inner = " * ".join((*self.kernel.shape_of(rows[position + 1 :]), size))
            terms.append(
                f"{self.positions.local(axis, axes)} * ({inner})"
                if "*" in inner
                else f"{self.positions.local(axis, axes)} * {inner}"
            )
        text = self.positions.flat(" + ".join(term for term in terms if term), axes)
        return replace(
            access,
            positions=self.positions.hoisted("place", text)
            if is_turned
            else self._positions_in_tile(text, strided, part),
        )

    def _is_split(self, strided: StridedRange, rows: AxisNames, axes: AxisNames) -> bool:
        """Whether splitting the range in halves, again and again, leaves the tile's elements in their order."""
        return (
            current_target().splits_tiles
            and strided.major is not None
            and strided.step == strided.stretch > 1
            and axes == (*rows, self.kernel.axis_with(strided.major).prefix)
        )

    def _extent(self, index: sympy.Expr, strided: StridedRange, part: Part) -> tuple[str, list[str], sympy.Expr]:
        """Elements of the range, the predicates of those that exist, and the address of the first one. In `index`, axes
        of the range count from the start of the part.
        """
        zero = dict.fromkeys(strided.axes, sympy.S.Zero)
        affine_part = affine(index, self.kernel.plan.tiled.lengths)
        rows = [s for s in affine_part.strides if s not in strided.axes]
        start = (
            affine_part.offset + sympy.Add(*(symbol * affine_part.strides[symbol] for symbol in rows)) + strided.lowest
        )
        assert not start.free_symbols & zero.keys()
        if strided.major is None:
            length = 1 << (strided.rest - 1).bit_length()
            return str(length), [f"< {strided.rest}"] if length != strided.rest else [], start
        axis = self.kernel.axis_with(strided.major).prefix
        block, offset, step = self.kernel.block(axis), self.positions.offset(axis), abs(strided.step)
        extent = _times(strided.stretch, block)
        # Elements that the last index of the major axis covers beyond the address of the next index.
        beyond = strided.rest - step
        if part.limits(strided.major):
            first, count = self._start_and_count(axis, strided, part)
            start += strided.step * first
            end = str(step * int(count) + beyond) if count.isdecimal() else _plus(_times(step, count), beyond)
            return extent, [f"< {end}"], start
        end = _plus(_times(step, block), beyond)
        left = _times(step, f"{axis}numel" if offset == 0 else f"({axis}numel - {offset})")
        conditions = []
        if strided.step < 0:  # the last element is the first one in memory
            there = self._existing(axis)
            start += strided.step * (offset + sympy.Symbol(there, integer=True, positive=True) - 1)
            end = _plus(_times(step, there), beyond)
            return extent, [f"< {end}"] if end != extent else [], start
        start += strided.step * offset
        if self.kernel.needs_mask(axis):
            conditions.append(f"< {_plus(left, beyond)}")
            end = _plus(_times(step, block), max(beyond, 0))
        if end != extent:
            conditions.append(f"< {end}")
        return extent, conditions, start

    def _start_and_count(self, axis: str, strided: StridedRange, part: Part) -> tuple[sympy.Expr, str]:
        """The index of the `part` along the major `axis` at which the range begins, and how many indices it has."""
        assert strided.major is not None
        start, there = part.starts.get(strided.major, 0), self._existing(axis, part.end_of(strided.major))
        if self.kernel.is_whole(axis):
            length = int(there) - start
            return sympy.Integer(0 if strided.step > 0 else length - 1), str(length)
        offset, before = self.positions.offset(axis), self._before(axis, start)
        count = f"tl.maximum({there if before == '0' else f'{there} - {before}'}, 0)"
        if strided.step > 0:
            first = sympy.Symbol(f"tl.maximum({offset}, {start})", integer=True) if start else offset
            return first - start, count
        return offset + sympy.Symbol(there, integer=True) - 1 - start, count

    def _before(self, axis: str, start: int) -> str:
        """How many of a tile's elements along `axis` come before index `start`."""
        return (
            str(start)
            if self.kernel.is_whole(axis) or start == 0
            else f"tl.maximum({start} - {self.positions.offset(axis)}, 0)"
        )

    def _existing(self, axis: str, end: int | None = None) -> str:
        """How many of a tile's elements along `axis` exist, up to index `end` if there is one."""
        if end is not None:
            return (
                str(end)
                if self.kernel.is_whole(axis)
                else f"tl.minimum({self.kernel.block(axis)}, {end} - {self.positions.offset(axis)})"
            )
        if not self.kernel.needs_mask(axis):
            return self.kernel.block(axis)
        left = f"{axis}numel" if self.kernel.is_whole(axis) else f"({axis}numel - {self.positions.offset(axis)})"
        return f"tl.minimum({self.kernel.block(axis)}, {left})"

    def _positions_in_tile(self, place: str, strided: StridedRange, part: Part) -> str:
        """The name of the table of positions `place`, of a whole tile; for a partial tile its text."""
        if strided.major is None:
            return self.positions.hoisted("place", place)
        axis = self.kernel.axis_with(strided.major).prefix
        is_part = part.limits(strided.major)
        if strided.step > 0:
            missing = self._before(axis, part.starts.get(strided.major, 0))
        elif is_part or self.kernel.needs_mask(axis):
            missing = (
                f"({self.kernel.block(axis)} - {self._existing(axis, part.end_of(strided.major) if is_part else None)})"
            )
        else:
            missing = "0"
        if missing == "0":
            return self.positions.hoisted("place", place)
        missing = _times(abs(strided.step), missing)
        if is_part and self.kernel.is_whole(axis):
            return self.positions.hoisted("place", f"tl.maximum({place} - {missing}, 0)")
        return f"tl.maximum({self.positions.hoisted('place', place)} - {missing}, 0)"

    def _positions_of_part(self, strided: StridedRange, axes: Sequence[str], part: Part, extent: str) -> str:
        """Positions of the `part` of the major axis, which is whole in the tile. Before the part they point to the end
        of the range, where no element is, as right behind the part.
        """
        assert strided.major is not None
        axis, step = self.kernel.axis_with(strided.major).prefix, abs(strided.step)
        start, end = part.starts.get(strided.major, 0), part.end_of(strided.major)
        local = _times(step, self.positions.local(axis, axes if self.positions.is_counted(axes) else (axis,)))
        text = _plus(local, -step * start) if strided.step > 0 else f"{step * (end - 1)} - {local}"
        if start if strided.step > 0 else end < self.kernel.tile.blocks[axis]:  # negative in some places
            place = self.positions.hoisted("at", text)
            text = f"{place} + (({place} >> 31) & ({extent}))"
        if self.positions.is_counted(axes):
            return self.positions.hoisted("at", text)
        return f"{self.positions.hoisted('at', text)}{subscript((axis,), axes)}"

    def _positions_of_major(self, strided: StridedRange, axes: Sequence[str]) -> str:
        if strided.major is None:
            return ""
        axis = self.kernel.axis_with(strided.major).prefix
        local = self.positions.local(axis, axes)
        if strided.step < 0:
            local = f"({self.kernel.block(axis)} - 1 - {local})"  # of a whole tile
        return local if abs(strided.step) == 1 else f"{abs(strided.step)} * {local}"

    def _positions_of_minor(self, strided: StridedRange, axes: Sequence[str], part: Part) -> str:
        """Positions of the minor axes; lanes outside of the part are at some position of the range."""
        if not strided.minor:
            return str(strided.position) if strided.position != 0 else ""
        lengths = {symbol: self.kernel.tile.blocks[self.kernel.axis_with(symbol).prefix] for symbol in strided.minor}
        names = {symbol: self.positions.local(self.kernel.axis_with(symbol).prefix, axes) for symbol in strided.minor}
        names |= {
            symbol: f"({names[symbol]} - {part.starts[symbol]})" for symbol in strided.minor if symbol in part.starts
        }
        text = vector_text(strided.position, names, lengths)
        if any(symbol in part.starts for symbol in strided.minor):
            return f"tl.minimum(tl.maximum({text}, 0), {strided.rest - 1})"
        found = value_range(strided.position, lengths)
        lowest, highest = found if found is not None else (-1, strided.rest)
        if highest >= strided.rest:
            text = f"tl.minimum({text}, {strided.rest - 1})"
        return f"tl.maximum({text}, 0)" if lowest < 0 else text

    def _store(self, index: sympy.Expr, strided: StridedRange) -> RangeAccess:
        axes = self.kernel.plan.tiled.axes_in(index)
        assert strided.major is not None
        major = self.kernel.axis_with(strided.major).prefix
        gathered = {self.kernel.axis_with(symbol).prefix for symbol in strided.axes}
        rows = tuple(axis for axis in axes if axis not in gathered)
        dims = (*rows, "span")
        extent, conditions, start = self._extent(index, strided, Part(self.kernel.plan.tiled.lengths))
        positions = self.positions.hoisted("span", f"tl.arange(0, {extent})")
        masks = [self.addresses.mask_text_of(axis, dims) for axis in rows if self.kernel.needs_mask(axis)]
        masks += [f"({positions}{subscript(('span',), dims)} {condition})" for condition in conditions]
        shape = (*self.kernel.shape_of(rows), extent)
        # The position in the tile of the element that belongs at each position of the range.
        steps = affine(index, strided.axes).strides
        inner = sorted(strided.minor, key=lambda symbol: int(steps[symbol]))
        sizes = dict(zip(dims, shape, strict=True))
        is_counted = self.positions.is_counted(dims)
        indices, remaining = [], self.positions.counted("span", sizes) if is_counted else positions
        for symbol in inner:
            length = int(self.kernel.axis_with(symbol).length)
            quotient = self.positions.hoisted("part", f"device_functions.small_quotient({remaining}, {length})")
            indices.append((self.kernel.axis_with(symbol).prefix, f"({remaining} - {length} * {quotient})"))
            remaining = quotient
        indices.append((major, f"tl.minimum({remaining}, {self.kernel.block(major)} - 1)"))
        across = "" if is_counted else subscript(("span",), dims)
        terms = [f"{text}{across}{self._stride_in_tile(axis, axes)}" for axis, text in indices]
        for axis in rows:
            local = self.positions.counted(axis, sizes) if is_counted else self.positions.local(axis, dims)
            terms.append(f"{local}{self._stride_in_tile(axis, axes)}")
        text = " + ".join(terms)
        if rows and not is_counted:
            text = f"tl.reshape({text}, [{' * '.join(shape)}])"
        address = self.addresses.row_address(start, rows, dims, positions)
        mask = " & ".join(masks) or "None"
        return RangeAccess(address, mask, rows, shape, self.positions.hoisted("place", text), axes, fills=False)

    def _stride_in_tile(self, axis: str, axes: AxisNames) -> str:
        inner = self.kernel.shape_of(axes[axes.index(axis) + 1 :])
        return f" * ({' * '.join(inner)})" if len(inner) > 1 else f" * {inner[0]}" if inner else ""


def _times(factor: int, text: str) -> str:
    return text if factor == 1 else f"{factor} * {text}"


def _plus(text: str, number: int) -> str:
    return text if number == 0 else f"{text} + {number}" if number > 0 else f"{text} - {-number}"
