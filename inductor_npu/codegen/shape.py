"""The shape of a kernel: from the loops that Inductor fused to axes and tiles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import sympy
from torch._inductor.codegen.simd_kernel_features import SIMDKernelFeatures

from inductor_npu import config, providers
from inductor_npu.codegen.axes import Axes, hint
from inductor_npu.codegen.pieces import Piece, pieces_of, trace_of_piece
from inductor_npu.codegen.trace import Symbols, Trace, trace
from inductor_npu.tiling.plan import PlannedAccess, PlannedAxis, TilePlan, Work, plan


@dataclass(frozen=True)
class Shape:
    """The axes of a kernel, what it does along them, and how they are tiled; the axes along which values differ that
    are stored at one address, by buffers.
    """

    axes: Axes
    work: Work
    plan: TilePlan
    overwritten: Mapping[str, Symbols]


def shape_of(features: SIMDKernelFeatures, share: float, part: int | None = None) -> Shape:
    """The shape of the kernel, or of this part of one, of `features` for the current target; the estimated tile may
    fill `share` of the Unified Buffer.
    """
    nodes = features.scheduler_nodes()
    axes = Axes(nodes, features.numel, features.reduction_numel, features.contains_op("sort"), part)
    traced = trace(nodes, axes)
    work = work_of(traced, axes)
    return Shape(axes, work, _plan(work, axes, share), traced.overwritten)


def pieces_with_plans(features: SIMDKernelFeatures, shape: Shape, share: float) -> list[tuple[Piece, TilePlan]]:
    """The pieces of the kernel of `features`, each with its tile; none if it is not cut."""
    if shape.axes.reduction or shape.overwritten:
        return []
    nodes = features.scheduler_nodes()
    pieces = pieces_of(nodes, shape.axes)
    return [(piece, _plan(work_of(trace_of_piece(nodes, piece), piece), piece, share)) for piece in pieces]


def _plan(work: Work, axes: Axes, share: float) -> TilePlan:
    largest = config.reduction_tile if axes.reduction else config.pointwise_tile
    return plan(work, providers.current_target(), largest, share)


def work_of(traced: Trace, axes: Axes) -> Work:
    """What the planner needs to know of a kernel's loops."""
    every = [*axes.pointwise, *axes.reduction]
    name_of = {axis.symbol: axis.prefix for axis in every}

    def names(symbols: Iterable[sympy.Symbol]) -> frozenset[str]:
        return frozenset(name_of[symbol] for symbol in symbols)

    accesses = []
    for access in traced.accesses:
        unit = access.unit_axis()
        contiguous = name_of[unit] if unit is not None else None
        accesses.append(
            PlannedAccess(
                access.item_size,
                names(access.axes),
                contiguous,
                names(access.indirect),
                access.is_store,
                access.passes,
            )
        )
    live = [
        Counter({(names(symbols), size): count for (symbols, size), count in moment.items()}) for moment in traced.live
    ]
    planned = [
        PlannedAxis(
            axis.prefix, max(1, hint(axis.length)), axis.is_reduction, isinstance(axis.length, (int, sympy.Integer))
        )
        for axis in every
    ]
    operations = Counter({(names(symbols), size): count for (symbols, size), count in traced.operations.items()})
    return Work(planned, accesses, live, names(traced.nonlinear), traced.scans, traced.sorts, operations)
