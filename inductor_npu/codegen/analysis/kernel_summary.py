"""Summarises a kernel's loops for the planner of tiles: bytes moved, values alive, axes that have to be whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

import sympy
from torch._inductor.virtualized import V

from inductor_npu.codegen.analysis.access_ranges import indexed_load, strided_load
from inductor_npu.codegen.analysis.axes import Axes, Axis
from inductor_npu.codegen.analysis.indexed_ranges import IndexedRange
from inductor_npu.codegen.analysis.strided_ranges import StridedRange, store_range
from inductor_npu.codegen.analysis.trace import Access, Symbols, Trace
from inductor_npu.codegen.index.size_terms import hint
from inductor_npu.tiling.plan import AccessSummary, AxisSummary, KernelSummary

# Inductor's own limit for rows that are sorted in a kernel (torch._inductor.ir.Sort.create).
_LONGEST_SORTED = 512


def summary_of(traced: Trace, axes: Axes, scalar_axes: Symbols | None = None) -> KernelSummary | None:
    """Returns what the planner needs to know of a kernel's loops; None if an address stays that neither form covers.

    A tile has one index of each of `scalar_axes`; other axes in which an address is not affine need gathers on chip.
    With `scalar_axes` None there are no such gathers.
    """
    every = axes.all
    name_of = {axis.symbol: axis.prefix for axis in every}

    def names(symbols: Iterable[sympy.Symbol]) -> frozenset[str]:
        return frozenset(name_of[symbol] for symbol in symbols)

    def named(counts: Counter[tuple[Symbols, int]]) -> Counter[tuple[frozenset[str], int]]:
        return Counter({(names(symbols), size): count for (symbols, size), count in counts.items()})

    lengths = {axis.symbol: axis.length for axis in every if scalar_axes is not None and axis.symbol not in scalar_axes}
    whole: set[str] = set()
    limited: set[str] = set()
    accesses = []
    for access in traced.accesses:
        strided = _strided_range(access, axes, lengths)
        if strided is None and access.address.nonlinear & lengths.keys():
            return None
        if strided is not None:
            whole |= names(strided.minor)
            limited |= names(_limited_by(access, strided))
        is_gathered = scalar_axes is not None and not access.is_store
        indexed = indexed_load(access, access.index, access.indirect, axes.lengths) if is_gathered else None
        accesses.append(_planned_access(access, strided, indexed, names))
    nonlinear = frozenset(traced.nonlinear).union(*(access.address.nonlinear for access in traced.accesses))
    return KernelSummary(
        [_most_of(axis) if traced.sorts and axis.is_reduction else _planned(axis) for axis in every],
        accesses,
        [*map(named, traced.live)],
        names(nonlinear if scalar_axes is None else scalar_axes),
        traced.scans,
        traced.sorts,
        named(traced.operations),
        whole=frozenset(whole),
        compared=frozenset(map(names, traced.compared)),
        limited=frozenset(limited),
    )


def _limited_by(access: Access, strided: StridedRange) -> Symbols:
    """The axis that is best whole in the tile, because the access begins or ends within it, or gathers along it."""
    is_limited = access.bounds is not None and strided.major in access.bounds.symbols
    is_picked = strided.major is not None and bool(access.address.nonlinear)
    return frozenset([strided.major]) if strided.major is not None and (is_limited or is_picked) else frozenset()


def _planned_access(
    access: Access,
    strided: StridedRange | None,
    indexed: IndexedRange | None,
    names: Callable[[Iterable[sympy.Symbol]], frozenset[str]],
) -> AccessSummary:
    size, axes = access.item_size, names(access.axes)
    if indexed is not None:
        length, rows = indexed.length(size), names(indexed.rows)
        return AccessSummary(size, axes, None, frozenset(), False, access.passes, range_length=length, rows=rows)
    unit = access.unit_axis() if strided is None else strided.main_axis
    contiguous = None if unit is None else next(iter(names([unit])))
    stretch = 0 if strided is None else strided.stretch if strided.major is not None and not strided.minor else 1
    return AccessSummary(size, axes, contiguous, names(access.indirect), access.is_store, access.passes, stretch)


def _planned(axis: Axis) -> AxisSummary:
    is_static = isinstance(axis.length, (int, sympy.Integer))
    return AxisSummary(axis.prefix, max(1, hint(axis.length)), axis.is_reduction, is_static)


def _most_of(axis: Axis) -> AxisSummary:
    """A sorted row at its largest length: a kernel sorts only rows whose length has a known limit."""
    if isinstance(axis.length, (int, sympy.Integer)):
        return _planned(axis)
    lengths = (1 << bits for bits in range(_LONGEST_SORTED.bit_length()))
    most = next((length for length in lengths if V.graph.sizevars.statically_known_leq(axis.length, length)), None)
    return AxisSummary(axis.prefix, most, axis.is_reduction) if most else _planned(axis)


def _strided_range(access: Access, axes: Axes, tile: Mapping[sympy.Symbol, sympy.Expr]) -> StridedRange | None:
    """The strided range of an access in a tile with axes of these lengths, each as long as the access needs it; None
    without.
    """
    if access.indirect:
        return None
    own = {symbol: length for symbol, length in tile.items() if symbol in access.axes}
    if access.is_store:
        return store_range(access.index, own, access.item_size)
    found = strided_load(access, access.index, access.bounds, own, axes.lengths, lambda axis: True)
    return None if found is None else found.range
