"""Into how many parts the sum of a matrix product is split, so that all cube cores take part where it has few tiles.

Each part is a product of its own, of which a kernel of the vector cores adds up the results. It costs a second launch,
and the parts in memory, as float32.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from inductor_npu.target import NpuTarget
from inductor_npu.tiling.cube import ABOUT, ProductSummary, cost, plan_product

_PART_BYTES = 4  # float32, or int32


@dataclass(frozen=True)
class _Estimate:
    cycles: float
    bytes_moved: float


def parts_of_sum(work: ProductSummary, chip: NpuTarget, share: float) -> int:
    """Returns the number of equal parts into which the sum of `work`, a product alone, is split. Of the numbers that
    take about the least estimated cycles, second kernel and its launch included, and no more than 1 does, it is the one
    that moves the fewest bytes. Tiles fill up to `share` (0 to 1) of the Unified Buffer.

    It divides `work.inner`: a shorter last part would end at a bound that depends on two axes, by which Ascend's
    compiler does not cut a transfer.
    """
    whole = _alone(work, chip, share)
    if whole.cycles <= chip.launch_cycles:
        return 1
    divisors = (parts for parts in range(2, chip.cube_cores + 1) if work.inner % parts == 0)
    estimates = {1: whole, **{parts: _in_parts(work, parts, chip, share) for parts in divisors}}
    least = min(estimate.cycles for estimate in estimates.values())
    limit = min(ABOUT * least, whole.cycles)
    about = [parts for parts, estimate in estimates.items() if estimate.cycles <= limit]
    return min(about, key=lambda parts: estimates[parts].bytes_moved)


def _alone(work: ProductSummary, chip: NpuTarget, share: float) -> _Estimate:
    estimate = cost(work, plan_product(work, chip, share), chip)
    return _Estimate(estimate.cycles, estimate.bytes_moved)


def _in_parts(work: ProductSummary, parts: int, chip: NpuTarget, share: float) -> _Estimate:
    each = replace(work, inner=work.inner // parts, batch=work.batch * parts, result_bytes=_PART_BYTES)
    products = _alone(each, chip, share)
    elements = work.batch * work.rows * work.columns
    moved = elements * (parts * _PART_BYTES + work.result_bytes)
    cores = min(chip.vector_cores, -(-elements // chip.smallest_tile))
    summed = moved / cores / chip.device_bytes_per_cycle + (parts + 1) * chip.transfer_cycles
    return _Estimate(products.cycles + summed + chip.launch_cycles, products.bytes_moved + moved)
