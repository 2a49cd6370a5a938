"""A kernel whose loops are a matrix product, and what is computed from it: the roles of its axes, and its tile.

An axis that the left operand and the result have is one of *rows*; one that the right operand and the result have, of
*columns*; one that all three have, of the *batch*; and one that only the operands have is *inner*: the product sums
along it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from inductor_npu.codegen.analysis.axes import Axes, Axis
from inductor_npu.codegen.analysis.trace import Symbols, Trace
from inductor_npu.codegen.index.size_terms import hint
from inductor_npu.target import NpuTarget
from inductor_npu.tiling.cube import NoTileError, ProductSummary, ProductTile, plan_product
from inductor_npu.tiling.plan import TilePlan


@dataclass(frozen=True)
class Roles:
    """The axes of a product by their roles. The tile has several indices along one axis of `rows`, of `columns` and of
    `inner`, the last of each: one in which every address is affine, and along which elements of an operand are
    neighbours, or else the longest.
    """

    rows: tuple[Axis, ...]
    columns: tuple[Axis, ...]
    inner: tuple[Axis, ...]
    batch: tuple[Axis, ...]


@dataclass(frozen=True)
class Contraction:
    """A product, with the roles of its axes and its `tile`.

    `shared`: prefixes of the axes along which the two vector cores share what they finish and what they convert.
    Ascend's compiler lets both do all of it where a store, or a load, has no mask along the axis.
    """

    roles: Roles
    work: ProductSummary
    tile: ProductTile
    shared: frozenset[str] = frozenset()

    def blocks(self, tile: ProductTile) -> dict[str, int]:
        """The blocks of `tile` by the prefixes of axes."""
        rows, columns, inner = self.roles.rows[-1], self.roles.columns[-1], self.roles.inner[-1]
        return {rows.prefix: tile.rows, inner.prefix: tile.inner, columns.prefix: tile.columns}

    def with_blocks(self, blocks: Mapping[str, int]) -> Contraction:
        """The same product with other blocks, by the prefixes of axes."""
        rows, inner, columns = (blocks[axis] for axis in self.blocks(self.tile))
        return replace(self, tile=ProductTile(rows, columns, inner))


def _roles(traced: Trace, axes: Axes) -> Roles:
    """The roles of the axes of a kernel that is a product."""
    (product, *others) = traced.products
    if any((other.left, other.right) != (product.left, product.right) for other in others):
        raise NoTileError("products along different axes")
    if any((other.item_size, other.converted) != (product.item_size, product.converted) for other in others):
        raise NoTileError("products of different operands")

    summed = frozenset(axis.symbol for axis in axes.reduction)
    units = {access.unit_axis() for access in traced.accesses if access.axes & summed}
    nonlinear = frozenset().union(*(access.address.nonlinear | access.indirect for access in traced.accesses))

    def among(symbols: Symbols, every: Sequence[Axis]) -> tuple[Axis, ...]:
        found = (axis for axis in every if axis.symbol in symbols)
        order = {axis: (axis.symbol not in nonlinear, axis.symbol in units, hint(axis.length)) for axis in found}
        return tuple(sorted(order, key=order.__getitem__))

    rows = among(product.left - product.right, axes.pointwise)
    columns = among(product.right - product.left, axes.pointwise)
    inner = among(product.left & product.right, axes.reduction)
    if not (rows and columns and inner) or len(inner) < len(axes.reduction):
        raise NoTileError("an operand without rows or columns of its own")
    if any(axes_of_role[-1].symbol in nonlinear for axes_of_role in (rows, columns, inner)):
        raise NoTileError("an access that is not affine along an axis of the tile")
    batch = tuple(axis for axis in axes.pointwise if axis not in (*rows, *columns))
    return Roles(rows, columns, inner, batch)


def plan_contraction(traced: Trace, axes: Axes, chip: NpuTarget, share: float) -> tuple[Contraction, TilePlan]:
    """Plans the tile of a product for `chip`; its vector values fill at most `share` of the Unified Buffer.

    Raises NoTileError for loops that no tile of the cube cores covers, and for those from which the vector cores
    compute too much: they are not fused (contraction_fusion.py).
    """
    roles = _roles(traced, axes)
    row, column, inner = roles.rows[-1], roles.columns[-1], roles.inner[-1]
    single = (*roles.rows[:-1], *roles.columns[:-1], *roles.batch)
    vector = _vector_work(traced, axes)
    work = ProductSummary(
        rows=hint(row.length),
        columns=hint(column.length),
        inner=hint(inner.length),
        repeats=hint(math.prod(axis.length for axis in roles.inner[:-1])),
        batch=hint(math.prod(axis.length for axis in single)),
        item_size=traced.products[0].item_size,
        result_bytes=sum(access.item_size for access in traced.accesses if access.is_store),
        accumulators=len(traced.products),
        lefts=len({product.left_loads for product in traced.products}),
        rights=len({product.right_loads for product in traced.products}),
        vector_bytes=vector.bytes,
        vector_passes=vector.passes,
        vector_loads=vector.loads,
        converted=traced.products[0].converted,
    )
    shared = frozenset({row.prefix} if work.is_mixed else ())
    if work.converted:
        shared |= {_rows_of_converted(traced, column, inner).prefix}
    contraction = Contraction(roles, work, plan_product(work, chip, share), shared)
    first, last = (column, row) if _is_turned(traced, row, column) else (row, column)
    order = (first.prefix, inner.prefix, last.prefix)
    loops = tuple(axis.prefix for axis in axes.all if axis.is_reduction)
    return contraction, TilePlan(order, contraction.blocks(contraction.tile), loops)


def _rows_of_converted(traced: Trace, column: Axis, inner: Axis) -> Axis:
    """Along which of its axes the converted operand does not lie."""
    (product, *_) = traced.products
    loads = (each for each in traced.accesses if not each.is_store and each.axes == product.right)
    return column if any(load.unit_axis() == inner.symbol for load in loads) else inner


def _is_turned(traced: Trace, row: Axis, column: Axis) -> bool:
    """Whether the result is stored along its rows' axis: then its transpose is computed, since the accumulator is not
    turned for nothing.
    """
    loaded = {call.buffer for call in traced.calls if not call.is_store}
    stores = [access for access in traced.accesses if access.is_store]
    # What the kernel itself goes on with is mostly not stored in the end.
    results = [store for store in stores if store.buffer not in loaded] or stores
    units = [store.unit_axis() for store in results]
    return units.count(row.symbol) > units.count(column.symbol)


@dataclass(frozen=True)
class _VectorWork:
    """What the vector cores do for each element of the result: `bytes` that they hold at the worst moment, `passes`
    over them, and bytes of `loads`. All are 0 where the accumulator is stored as it is, at most in another dtype.
    """

    bytes: int = 0
    passes: int = 0
    loads: int = 0


def _vector_work(traced: Trace, axes: Axes) -> _VectorWork:
    reduced = frozenset(axis.symbol for axis in axes.reduction)
    every = frozenset(axis.symbol for axis in axes.pointwise)
    passes = {along: count for (along, _), count in traced.operations.items() if not along & reduced}
    if not passes:
        return _VectorWork()
    computed = max(
        sum(count * size for (along, size), count in moment.items() if along == every) for moment in traced.live
    )
    loads = [access.item_size for access in traced.accesses if not access.is_store and access.axes == every]
    # A loaded element of fewer bits is there beside the one that it is computed as.
    narrow = max((size for size in loads if size < 4), default=0)
    return _VectorWork(computed + narrow, passes.get(every, 0), sum(loads))
