"""The plan of a kernel: from the loops that Inductor fused to axes, a tile, and the form of each access."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import sympy
import torch
from torch._inductor.codegen.simd_kernel_features import SIMDKernelFeatures
from torch._inductor.runtime.runtime_utils import next_power_of_2
from torch._inductor.virtualized import V

from inductor_npu import config, providers
from inductor_npu.codegen.analysis import predicates as conditions
from inductor_npu.codegen.analysis import short_row_ends as edges
from inductor_npu.codegen.analysis.access_forms import AccessForms, Form
from inductor_npu.codegen.analysis.axes import Axes, Axis
from inductor_npu.codegen.analysis.indexed_ranges import IndexedSpan, indexed_span
from inductor_npu.codegen.analysis.predicates import Conditions
from inductor_npu.codegen.analysis.strided_ranges import Span, load_span, load_span_of_part, part_of, store_span
from inductor_npu.codegen.analysis.subdomains import Section, sections_of, trace_of_section
from inductor_npu.codegen.analysis.tiled_axes import TiledAxes
from inductor_npu.codegen.analysis.trace import Access, Symbols, Trace, trace
from inductor_npu.codegen.index.inside import stays_inside
from inductor_npu.codegen.index.size_terms import hint
from inductor_npu.diagnostics.compile_time.phases import Phase, timed
from inductor_npu.tiling.plan import PlannedAccess, PlannedAxis, TilePlan, Work, footprint, plan_tile

# Inductor's own limit for rows that are sorted in a kernel (torch._inductor.ir.Sort.create).
_LONGEST_SORTED = 512


@dataclass(frozen=True)
class KernelPlan:
    """All that is decided of a kernel before a line of it is written.

    `axes` are its loop variables, `work` what it does along them, `tile` how they are tiled, `calls` its loads and
    stores in the order of its loops, with addresses of 32 bits where `is_int32`. `overwritten` has the axes along which
    values differ that are stored at one address, by buffers.
    """

    axes: Axes
    work: Work
    tile: TilePlan
    calls: tuple[Access, ...]
    is_int32: bool
    overwritten: Mapping[str, Symbols] = field(default_factory=dict)

    @property
    def filled(self) -> int:
        """How many bytes of the Unified Buffer a tile is estimated to fill."""
        return footprint(self.tile.blocks, self.work)

    @cached_property
    def tiled(self) -> TiledAxes:
        """The axes in the tile."""
        return TiledAxes(self.axes, self.tile)

    @cached_property
    def forms(self) -> tuple[Form, ...]:
        """The form of each of `calls`."""
        return tuple(map(self.access_forms.of, self.calls))

    @cached_property
    def access_forms(self) -> AccessForms:
        """What decides the forms."""
        return AccessForms(self.tiled, self.is_int32, self.overwritten)


@dataclass(frozen=True)
class Loop:
    """A loop over the tiles of one section of a kernel. `follows`: each of its tiles is to be written after that tile
    of the loop before, whose tiles have the same rows, and so by the same program.
    """

    section: Section
    plan: KernelPlan
    follows: bool


def plan_kernel(features: SIMDKernelFeatures, share: float, part: int | None = None) -> KernelPlan:
    """The plan of the kernel, or of this part of one, of `features` for the current target; the estimated tile may fill
    `share` of the Unified Buffer.
    """
    with timed(Phase.TILING):
        nodes = features.scheduler_nodes()
        axes = Axes(nodes, features.numel, features.reduction_numel, features.contains_op("sort"), part)
        has_conditions = conditions.are_in(features)
        traced = trace(nodes, axes, lambda tracer: Conditions(tracer, axes) if has_conditions else tracer)
        work, tile = _plan(traced, axes, share)
        return KernelPlan(axes, work, tile, tuple(traced.calls), _is_int32(features), traced.overwritten)


def loops_of(features: SIMDKernelFeatures, plan: KernelPlan, share: float) -> list[Loop]:
    """The loops over tiles of the kernel of `features` where it is cut into pieces; none if it is not."""
    if plan.axes.reduction or plan.overwritten:
        return []
    nodes = features.scheduler_nodes()
    loops = []
    for section in sections_of(nodes, plan.axes):
        traced = trace_of_section(nodes, section)
        work, tile = _plan(traced, section.axes, share)
        if section.along is None or not _holds_rows(tile, section.along):
            loops.append(Loop(section, KernelPlan(section.axes, work, tile, tuple(traced.calls), plan.is_int32), False))
            continue
        for number, part in enumerate(section.parts):
            (length,) = (axis.length for axis in part.axes.pointwise if axis.symbol == section.along.symbol)
            blocks = {**tile.blocks, section.along.prefix: next_power_of_2(int(length))}
            inside = trace_of_section(nodes, part)
            choices = (work_of(inside, part.axes, walked) for walked in _choices_of_walked(inside, part.axes))
            work = next(work for work in choices if work is not None)
            of_part = KernelPlan(part.axes, work, replace(tile, blocks=blocks), tuple(inside.calls), plan.is_int32)
            loops.append(Loop(part, of_part, number > 0))
    return loops if len(loops) > 1 else []


def _is_int32(features: SIMDKernelFeatures) -> bool:
    return features.select_index_dtype() == torch.int32


def _holds_rows(tile: TilePlan, axis: Axis) -> bool:
    return tile.order[-1:] == (axis.prefix,) and tile.blocks[axis.prefix] >= int(axis.length)


def _plan(traced: Trace, axes: Axes, share: float) -> tuple[Work, TilePlan]:
    """What the loops do, with gathers on chip where the tile has what they need and fits, and the tile."""
    largest = config.reduction_tile if axes.reduction else config.pointwise_tile
    chip = providers.current_target()
    for walked in _choices_of_walked(traced, axes):
        work = work_of(traced, axes, walked)
        if work is None:
            continue
        planned = plan_tile(work, chip, largest, share)
        if not _has_whole(work, planned):
            continue
        # A row that is sorted is in the tile whether it fits or not; what a gather needs is there besides.
        if walked is None or not work.whole or footprint(planned.blocks, work) <= chip.unified_buffer * share:
            return work, planned
    raise AssertionError("a kernel whose axes are walked needs none of them whole")


def _choices_of_walked(traced: Trace, axes: Axes) -> Iterator[Symbols | None]:
    """Sets of axes to be walked, the best first. What is no linear function of an axis is a gather on chip if that axis
    fits the tile as a whole; else the axis is walked. None: no gathers at all.
    """
    order = [axis.symbol for axis in axes.all]
    walked = frozenset(traced.nonlinear)
    gathered = frozenset().union(*(access.address.nonlinear for access in traced.accesses)) - walked
    if gathered:
        yield walked
    if len(gathered) > 1:
        yield walked | (gathered - {max(gathered, key=order.index)})
    yield walked | gathered
    yield None


def _has_whole(work: Work, planned: TilePlan) -> bool:
    lengths = {axis.name: axis.length for axis in work.axes}
    return all(planned.blocks.get(axis, 1) >= lengths[axis] and axis not in planned.loops for axis in work.whole)


def work_of(traced: Trace, axes: Axes, walked: Symbols | None = None) -> Work | None:
    """What the planner needs to know of a kernel's loops, if the axes `walked` are walked and gathers on chip do what
    they can; None if that leaves something undone. `walked` None: without gathers on chip.
    """
    every = axes.all
    name_of = {axis.symbol: axis.prefix for axis in every}

    def names(symbols: Iterable[sympy.Symbol]) -> frozenset[str]:
        return frozenset(name_of[symbol] for symbol in symbols)

    nonlinear = frozenset(traced.nonlinear).union(*(access.address.nonlinear for access in traced.accesses))
    lengths = {axis.symbol: axis.length for axis in every if walked is not None and axis.symbol not in walked}
    whole: set[str] = set()
    limited: set[str] = set()
    accesses = []
    for access in traced.accesses:
        unit = access.unit_axis()
        span = _span(access, every, lengths)
        if span is not None:
            unit = span.main_axis
            whole |= names(span.minor)
            is_limited = access.bounds is not None and span.major in access.bounds.symbols
            if is_limited or (span.major is not None and access.address.nonlinear):
                limited |= names([span.major])
        elif access.address.nonlinear & lengths.keys():
            return None
        indexed = _span_by_index(access, every) if walked is not None else None
        if indexed is not None:
            span_length, rows = indexed.length(access.item_size), names(indexed.rows)
            accesses.append(
                PlannedAccess(
                    access.item_size,
                    names(access.axes),
                    None,
                    frozenset(),
                    False,
                    access.passes,
                    span=span_length,
                    rows=rows,
                )
            )
            continue
        contiguous = name_of[unit] if unit is not None else None
        stretch = 0 if span is None else span.stretch if span.major is not None and not span.minor else 1
        accesses.append(
            PlannedAccess(
                access.item_size,
                names(access.axes),
                contiguous,
                names(access.indirect),
                access.is_store,
                access.passes,
                stretch,
            )
        )
    live = [
        Counter({(names(symbols), size): count for (symbols, size), count in moment.items()}) for moment in traced.live
    ]
    planned = [_most_of(axis) if traced.sorts and axis.is_reduction else _planned(axis) for axis in every]
    walked = nonlinear if walked is None else walked
    operations = Counter({(names(symbols), size): count for (symbols, size), count in traced.operations.items()})
    compared = frozenset(map(names, traced.compared))
    return Work(
        planned,
        accesses,
        live,
        names(walked),
        traced.scans,
        traced.sorts,
        operations,
        whole=frozenset(whole),
        compared=compared,
        limited=frozenset(limited),
    )


def _planned(axis: Axis) -> PlannedAxis:
    is_static = isinstance(axis.length, (int, sympy.Integer))
    return PlannedAxis(axis.prefix, max(1, hint(axis.length)), axis.is_reduction, is_static)


def _most_of(axis: Axis) -> PlannedAxis:
    """A row that is sorted, as long as it can be: a kernel sorts only rows whose length has a known limit."""
    if isinstance(axis.length, (int, sympy.Integer)):
        return _planned(axis)
    lengths = (1 << bits for bits in range(_LONGEST_SORTED.bit_length()))
    most = next((length for length in lengths if V.graph.sizevars.statically_known_leq(axis.length, length)), None)
    return PlannedAxis(axis.prefix, most, axis.is_reduction) if most else _planned(axis)


def _span(access: Access, every: Sequence[Axis], lengths: dict[sympy.Symbol, sympy.Expr]) -> Span | None:
    """The span by which an access along `every` axis goes in a tile with axes of these lengths; see
    `on_chip_gather.py`.
    """
    if access.indirect:
        return None
    own = {symbol: length for symbol, length in lengths.items() if symbol in access.axes}
    if access.is_store or not access.masked & access.axes:
        return (store_span if access.is_store else load_span)(access.index, own, access.item_size)
    part = None if access.bounds is None else part_of(own, access.bounds)
    span = None if part is None else load_span_of_part(access.index, part, access.item_size)
    if (span is None or span.minor) and edges.stay_inside([access], every):
        return load_span(access.index, own, access.item_size)
    return span


def _span_by_index(access: Access, every: Sequence[Axis]) -> IndexedSpan | None:
    """The span that a load along `every` axis by loaded indices reads; see `gather_by_index.py`."""
    lengths = {axis.symbol: axis.length for axis in every}
    if access.is_store or not access.indirect:
        return None
    if access.masked:
        size = V.graph.get_buffer(access.buffer).get_layout().storage_size()
        if not stays_inside(access.index, {**lengths, **access.loaded}, size):
            return None
    return indexed_span(access.index, lengths, access.loaded, access.indirect, access.item_size)
