"""Whether the kernel of a product converts its right operand, or a kernel of its own does before.

In the product's kernel the vector cores hand each part of the operand to their cube core through a workspace, which
stays in L2. Where the operand is read once, its conversion is done once either way; a kernel of its own writes all of
it to memory, and takes a launch.
"""

from __future__ import annotations

import math
from dataclasses import replace

from inductor_npu.target import NpuTarget
from inductor_npu.tiling.cube import NoTileError, ProductSummary, cost, plan_product


def is_converted_inside(work: ProductSummary, chip: NpuTarget, share: float) -> bool:
    """Whether `work`, a product with a `converted` operand, takes fewer estimated cycles than a conversion and a
    product of its result. Tiles fill up to `share` (0 to 1) of the Unified Buffer. Never where there are more rows than
    the cube core multiplies at once: then the operand might be read, and converted, for several tiles.
    """
    if work.rows > chip.fractal_rows:
        return False
    return _cycles(work, chip, share) < cycles_apart(work, chip, share)


def cycles_apart(work: ProductSummary, chip: NpuTarget, share: float) -> float:
    """Returns the estimated cycles of the conversion in a kernel of its own, of its launch, and of the product `work`
    of its result, whose tile fills up to `share` (0 to 1) of the Unified Buffer.
    """
    elements = work.inner * work.columns * work.batch * work.rights
    moved = elements * (work.converted + work.item_size)
    conversion = moved / (chip.vector_cores * chip.device_bytes_per_cycle) + chip.launch_cycles
    return conversion + _cycles(replace(work, converted=0), chip, share)


def _cycles(work: ProductSummary, chip: NpuTarget, share: float) -> float:
    try:
        return cost(work, plan_product(work, chip, share), chip).cycles
    except NoTileError:
        return math.inf
