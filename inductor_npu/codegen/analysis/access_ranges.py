"""The range of memory that a load goes through under its predicate: for the planner of tiles, before there is a tile,
and for the form of the access in the tile.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import sympy
from torch._inductor.virtualized import V

from inductor_npu.codegen.analysis.indexed_ranges import IndexedRange, indexed_range
from inductor_npu.codegen.analysis.strided_ranges import (
    Lengths,
    Part,
    StridedRange,
    load_range,
    load_range_of_part,
    part_of,
)
from inductor_npu.codegen.analysis.trace import Access, Symbols
from inductor_npu.codegen.index.affine import affine
from inductor_npu.codegen.index.bounds import Bounds
from inductor_npu.codegen.index.inside import stays_inside


@dataclass(frozen=True)
class LoadedRange:
    """A load of the `part` of the axes through the strided range `range`. `is_limited`: the load gives the masked-lane
    value everywhere else.
    """

    range: StridedRange
    part: Part
    is_limited: bool


def size_of(access: Access) -> sympy.Expr:
    """Elements of the storage of the buffer that is accessed."""
    return V.graph.get_buffer(access.buffer).get_layout().storage_size()


def strided_load(
    access: Access,
    index: sympy.Expr,
    predicate: Bounds | None,
    tile: Lengths,
    lengths: Lengths,
    is_whole: Callable[[sympy.Symbol], bool],
) -> LoadedRange | None:
    """Returns the range of the load `access` at `index` where `predicate` holds; None if it loads the elements
    themselves.

    `index` is in elements, in the axes' symbols. `tile` has the lengths of the axes that are dimensions of the tile,
    `lengths` those of all axes; `is_whole` says whether a tile has an axis from end to end.
    """
    is_kept = predicate is not None and (predicate.exact or bool(affine(index, tile).nonlinear))
    part = part_of(tile, predicate) if predicate is not None and is_kept else None
    strided = None if part is None else load_range_of_part(index, part, access.item_size)
    if predicate and part and strided and _may_be_limited(index, predicate, part, strided, is_whole):
        return LoadedRange(strided, part, True)
    if _is_free_of_mask(access, index, predicate, tile, lengths):
        part, strided = Part(tile), load_range(index, tile, access.item_size)
    return None if part is None or strided is None else LoadedRange(strided, part, False)


def _may_be_limited(
    index: sympy.Expr, predicate: Bounds, part: Part, strided: StridedRange, is_whole: Callable[[sympy.Symbol], bool]
) -> bool:
    """Whether a load of the `part` can give the masked-lane value everywhere else. A range that is read as a whole has
    room for that value behind the last element, and the gather takes it from there.
    """
    if strided.minor or strided.major is None or not index.free_symbols.issuperset(predicate.symbols):
        return False
    assert predicate.exact, "a range with a major axis has a linear address"
    return not part.limits(strided.major) or is_whole(strided.major)


def _is_free_of_mask(
    access: Access, index: sympy.Expr, predicate: Bounds | None, tile: Lengths, lengths: Lengths
) -> bool:
    """Whether the address is inside the buffer for every element of the tile, whatever predicate holds."""
    if access.masked.isdisjoint(tile):
        return True
    is_exact = predicate is not None and predicate.exact
    if is_exact and index.free_symbols.isdisjoint(predicate.symbols if predicate else ()):
        return True
    return stays_inside(index, lengths, size_of(access))


def indexed_load(access: Access, index: sympy.Expr, indirect: Symbols, lengths: Lengths) -> IndexedRange | None:
    """Returns the range of the load `access` at `index`, which depends on loaded indices along the axes `indirect`;
    None if it loads the elements themselves.
    """
    if not indirect:
        return None
    if access.is_conditional and not stays_inside(index, {**lengths, **access.loaded}, size_of(access)):
        return None
    return indexed_range(index, lengths, access.loaded, indirect, access.item_size)
