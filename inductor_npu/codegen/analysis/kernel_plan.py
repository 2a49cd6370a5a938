"""The plan of a kernel: from the loops that Inductor fused to axes, a tile, and the form of each access."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import sympy
import torch
from torch._inductor.codegen.simd import SIMDScheduling
from torch._inductor.codegen.simd_kernel_features import SIMDKernelFeatures
from torch._inductor.runtime.runtime_utils import next_power_of_2
from torch._inductor.virtualized import V

from inductor_npu import config, providers
from inductor_npu.codegen.analysis import predicates
from inductor_npu.codegen.analysis.access_forms import AccessForms, Form
from inductor_npu.codegen.analysis.axes import Axes, Axis
from inductor_npu.codegen.analysis.contraction import Contraction, plan_contraction
from inductor_npu.codegen.analysis.kernel_summary import summary_of
from inductor_npu.codegen.analysis.predicates import PredicateFolding
from inductor_npu.codegen.analysis.subdomains import SubdomainLoop, subdomain_loops, trace_of_subdomain
from inductor_npu.codegen.analysis.tiled_axes import TiledAxes
from inductor_npu.codegen.analysis.trace import Access, Symbols, Trace, trace
from inductor_npu.diagnostics.compile_time.phases import Phase, timed
from inductor_npu.support.optional_steps import Kind, optional_step
from inductor_npu.tiling import cube
from inductor_npu.tiling.candidates import candidates
from inductor_npu.tiling.cost import cost
from inductor_npu.tiling.plan import KernelSummary, TilePlan, footprint, plan_tile


@dataclass(frozen=True)
class TileGroups:
    """Tiles are numbered in groups of `size` along one axis of a product, whose index runs fastest inside a group,
    then along another: tiling/tile_order.py. Both are prefixes of axes.
    """

    along: str
    then: str
    size: int


@dataclass(frozen=True)
class KernelPlan:
    """All decisions about a kernel, made before its text is written.

    `axes` are its loop variables, `work` is what the planner knows of its loops, `tile` how the axes are tiled. `calls`
    are its loads and stores in the order of its loops; their addresses are int32 if `is_int32`. `overwritten` maps a
    buffer that gets several values at one address to the axes along which these differ. A kernel of the cube cores has
    a `contraction`.
    """

    axes: Axes
    work: KernelSummary
    tile: TilePlan
    calls: tuple[Access, ...]
    is_int32: bool
    overwritten: Mapping[str, Symbols] = field(default_factory=dict)
    contraction: Contraction | None = None

    @property
    def cores(self) -> int:
        """Most programs of a launch: on a chip that does not schedule them, the cores that can run them."""
        chip = providers.current_target()
        return chip.cube_cores if self.contraction else chip.most_programs

    @property
    def cycles(self) -> float:
        """Estimated cycles of a launch, of the core that takes longest."""
        chip = providers.current_target()
        if self.contraction is not None:
            return cube.cost(self.contraction.work, self.contraction.tile, chip).cycles
        return cost(self.work, self.tile, chip).cycles

    def with_tile(self, tile: TilePlan) -> KernelPlan:
        """The same kernel with another tile of the same dimensions."""
        product = self.contraction and self.contraction.with_blocks(tile.blocks)
        return replace(self, tile=tile, contraction=product)

    def candidates(self, share: float, most: int) -> list[KernelPlan]:
        """Returns this plan and up to `most - 1` others, the cheapest first, whose tiles fill at most `share` (0 to 1)
        of the Unified Buffer.
        """
        chip = providers.current_target()
        if self.contraction is None:
            tiles = candidates(self.work, self.tile, chip, share, most)
        else:
            products = cube.candidates(self.contraction.work, chip, share)[:most]
            tiles = [replace(self.tile, blocks=self.contraction.blocks(product)) for product in products]
        return [self, *(self.with_tile(tile) for tile in tiles if tile != self.tile)][:most]

    @property
    def tile_groups(self) -> TileGroups | None:
        """The groups in which tiles are numbered; None where the last axis' index runs fastest, as in most kernels."""
        if self.contraction is None:
            return None
        row, column = self.contraction.roles.rows[-1].prefix, self.contraction.roles.columns[-1].prefix
        first, second = (axis.prefix for axis in self.axes.pointwise[-2:])
        if {first, second} != {row, column}:
            return None
        work, tile = self.contraction.work, self.contraction.tile
        order = cube.order_of(work, tile, providers.current_target(), is_turned=first == column)
        if order.is_usual:
            return None
        return TileGroups(*((first, second) if order.is_along_first else (second, first)), order.group)

    @property
    def lengths(self) -> dict[str, sympy.Expr]:
        """The lengths of all axes, by their prefixes: what Inductor calls a tiling."""
        return {axis.prefix: axis.length for axis in self.axes.all}

    @property
    def filled(self) -> int:
        """Bytes of the Unified Buffer that a tile is estimated to fill."""
        if self.contraction is not None:
            return cube.vector_bytes(self.contraction.work, self.contraction.tile, providers.current_target())
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
    def passing(self) -> frozenset[str]:
        """Buffers that only pass through the kernel: it reads each element at most once, does not write them, and
        writes nothing with as many elements.
        """
        axes = {axis.symbol for axis in self.axes.all if axis.length != 1}
        if any(call.is_store and axes <= call.axes for call in self.calls):
            return frozenset()
        accesses = Counter(call.buffer for call in self.calls)
        once = (call for call in self.calls if accesses[call.buffer] == 1 and not call.indirect)
        return frozenset(call.buffer for call in once if not call.is_store and axes <= call.axes)

    @cached_property
    def access_forms(self) -> AccessForms:
        """The object that decides the forms."""
        summed = frozenset(axis.symbol for axis in self.axes.reduction) if self.contraction else frozenset()
        return AccessForms(self.tiled, self.is_int32, self.overwritten, summed)


@dataclass(frozen=True)
class TileLoop:
    """A loop over the tiles of one section (subdomain) of a kernel.

    `follows`: the same program writes each tile of this loop right after the tile of the loop before that has the same
    rows. `is_joined`: this loop is one with the loop before, whose tiles are as many and as large.
    """

    section: SubdomainLoop
    plan: KernelPlan
    follows: bool = False
    is_joined: bool = False

    def can_join(self, before: TileLoop) -> bool:
        """Whether both loops may be one, and it would find what it reads where the loop `before` has just read it."""
        if self.follows or before.follows or self.plan.tile != before.plan.tile:
            return False
        lengths = [{axis.prefix: axis.length for axis in loop.section.axes.pointwise} for loop in (self, before)]
        loaded = [{call.buffer for call in loop.plan.calls if not call.is_store} for loop in (self, before)]
        return lengths[0] == lengths[1] and not loaded[0].isdisjoint(loaded[1])


@optional_step(Kind.PLAN, "tile")
def plan_kernel(features: SIMDKernelFeatures, share: float, part: int | None = None) -> KernelPlan:
    """Plans the kernel of `features`, or this `part` of a combo kernel, for the current target.

    The tile is estimated to fill at most `share` (0 to 1) of the Unified Buffer. Raises NoTileError for loops that are
    a matrix product and more than a tile of the cube cores covers.
    """
    with timed(Phase.TILING):
        nodes = features.scheduler_nodes()
        axes = Axes(nodes, features.numel, features.reduction_numel, features.contains_op("sort"), part)
        has_predicates = predicates.are_in(features)
        traced = trace(nodes, axes, lambda tracer: PredicateFolding(tracer, axes) if has_predicates else tracer)
        if traced.products:
            return _plan_of_product(traced, axes, _is_int32_of_product(features), share)
        work, tile = _plan(traced, axes, share)
        return KernelPlan(axes, work, tile, tuple(traced.calls), _is_int32(features), traced.overwritten)


def _plan_of_product(traced: Trace, axes: Axes, is_int32: bool, share: float) -> KernelPlan:
    contraction, tile = plan_contraction(traced, axes, providers.current_target(), share)
    work = summary_of(traced, axes)
    assert work is not None, "every access of a product is affine"
    return KernelPlan(axes, work, tile, tuple(traced.calls), is_int32, traced.overwritten, contraction)


@optional_step(Kind.PLAN, "subdomains")
def tile_loops(features: SIMDKernelFeatures, plan: KernelPlan, share: float) -> list[TileLoop]:
    """Returns the loops over tiles of the kernel of `features` if it is split into subdomains, else an empty list.

    `plan` is the kernel's plan without split points; `share` is as for `plan_kernel`.
    """
    if plan.axes.reduction or plan.overwritten:
        return []
    nodes = features.scheduler_nodes()
    loops: list[TileLoop] = []
    for section in subdomain_loops(nodes, plan.axes):
        traced = trace_of_subdomain(nodes, section)
        work, tile = _plan(traced, section.axes, share)
        if section.along is None or not _holds_rows(tile, section.along):
            loop = TileLoop(section, KernelPlan(section.axes, work, tile, tuple(traced.calls), plan.is_int32))
            joins = providers.current_target().caches_loads and bool(loops) and loop.can_join(loops[-1])
            loops.append(replace(loop, is_joined=joins))
            continue
        for number, part in enumerate(section.parts):
            (length,) = (axis.length for axis in part.axes.pointwise if axis.symbol == section.along.symbol)
            blocks = {**tile.blocks, section.along.prefix: next_power_of_2(int(length))}
            inside = trace_of_subdomain(nodes, part)
            choices = (
                summary_of(inside, part.axes, scalar_axes) for scalar_axes in _choices_of_scalar_axes(inside, part.axes)
            )
            work = next(work for work in choices if work is not None)
            of_part = KernelPlan(part.axes, work, replace(tile, blocks=blocks), tuple(inside.calls), plan.is_int32)
            loops.append(TileLoop(part, of_part, number > 0))
    return loops if len(loops) > 1 else []


def _is_int32(features: SIMDKernelFeatures) -> bool:
    return features.select_index_dtype() == torch.int32


def _is_int32_of_product(features: SIMDKernelFeatures) -> bool:
    """As Inductor decides, but by the elements of tensors only: no index counts the terms of all sums."""
    names = {
        name for node in features.scheduler_nodes() for name in (*node.get_buffer_names(), *node.used_buffer_names())
    }
    buffers = [V.graph.get_buffer(name) for name in sorted(names)]
    return SIMDScheduling.can_use_32bit_indexing(features.numel, buffers)


def _holds_rows(tile: TilePlan, axis: Axis) -> bool:
    return tile.order[-1:] == (axis.prefix,) and tile.blocks[axis.prefix] >= int(axis.length)


def _plan(traced: Trace, axes: Axes, share: float) -> tuple[KernelSummary, TilePlan]:
    """Summary and tile of the loops, with gathers on chip where the tile has what they need and fits."""
    largest = config.reduction_tile if axes.reduction else config.pointwise_tile
    chip = providers.current_target()
    for scalar_axes in _choices_of_scalar_axes(traced, axes):
        work = summary_of(traced, axes, scalar_axes)
        if work is None:
            continue
        planned = plan_tile(work, chip, largest, share)
        if not _has_whole(work, planned):
            continue
        # A sorted row is in the tile whether it fits or not; what a gather needs comes on top.
        if scalar_axes is None or not work.whole or footprint(planned.blocks, work) <= chip.unified_buffer * share:
            return work, planned
    raise AssertionError("a kernel without gathers on chip needs no axis whole")


def _choices_of_scalar_axes(traced: Trace, axes: Axes) -> Iterator[Symbols | None]:
    """Yields sets of scalar-loop axes, the best first; None stands for no gathers at all.

    An index that is not affine in an axis becomes a gather on chip if that axis fits the tile as a whole; else the axis
    becomes a scalar-loop axis.
    """
    order = [axis.symbol for axis in axes.all]
    scalar_axes = frozenset(traced.nonlinear)
    gathered = frozenset().union(*(access.address.nonlinear for access in traced.accesses)) - scalar_axes
    if gathered:
        yield scalar_axes
    if len(gathered) > 1:
        yield scalar_axes | (gathered - {max(gathered, key=order.index)})
    yield scalar_axes | gathered
    yield None


def _has_whole(work: KernelSummary, planned: TilePlan) -> bool:
    lengths = {axis.name: axis.length for axis in work.axes}
    return all(planned.blocks.get(axis, 1) >= lengths[axis] and axis not in planned.loops for axis in work.whole)
