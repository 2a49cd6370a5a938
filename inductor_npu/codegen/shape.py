"""The shape of a kernel: from the loops that Inductor fused to axes and tiles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import sympy
from torch._inductor.codegen.simd_kernel_features import SIMDKernelFeatures

from inductor_npu import config, providers
from inductor_npu.codegen.axes import Axes, hint
from inductor_npu.codegen.pieces import Piece, pieces_of, trace_of_piece
from inductor_npu.codegen.trace import Trace, trace
from inductor_npu.tiling.plan import PlannedAccess, PlannedAxis, TilePlan, Work, plan


def shape_of(nodes: Sequence[Any], features: SIMDKernelFeatures, share: float) -> tuple[Axes, Work, TilePlan]:
    """The axes of a kernel made of `nodes`, what it does along them, and how they are tiled for the current target.

    The estimated tile may fill `share` of the Unified Buffer.

    Raises axes.CannotSplit if the loops share no shape.
    """
    axes = Axes(nodes, features.numel, features.reduction_numel, whole_rows=features.contains_op("sort"))
    work = work_of(trace(nodes, axes), axes)
    return axes, work, _plan(work, axes, share)


def pieces_with_plans(nodes: Sequence[Any], axes: Axes, share: float) -> list[tuple[Piece, TilePlan]]:
    """The pieces of a kernel made of `nodes` with these axes, each with its tile; none if it is not cut."""
    if axes.reduction:
        return []
    pieces = pieces_of(nodes, axes)
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
