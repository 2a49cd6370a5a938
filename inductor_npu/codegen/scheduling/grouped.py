"""Plans the tiles of kernels of grouped products."""

from __future__ import annotations

import math

from inductor_npu import providers
from inductor_npu.codegen.grouped.buffer import GroupedBuffer
from inductor_npu.codegen.grouped.kernel import GroupedKernel
from inductor_npu.codegen.grouped.problem import Along, GroupedProduct
from inductor_npu.codegen.index.size_terms import hint
from inductor_npu.tiling.cube import ProductSummary, plan_product


def kernel_of(buffer: GroupedBuffer, share: float) -> GroupedKernel:
    """Returns the kernel of `buffer`; `share` is of the Unified Buffer, of which it needs nothing."""
    work = summary_of(buffer.product, buffer.result.dtype.itemsize)
    tile = plan_product(work, providers.current_target(), share)
    return GroupedKernel(buffer.product, buffer.result, work, tile)


def summary_of(product: GroupedProduct, result_bytes: int) -> ProductSummary:
    """Returns `product` as the planner sees it: a batch of groups as long as they are on average."""
    groups = max(1, hint(product.groups))
    lengths = {Along.ROWS: product.rows, Along.COLUMNS: product.columns, Along.INNER: product.inner}
    each = {along: max(1, hint(length)) for along, length in lengths.items()}
    each[product.along] = math.ceil(each[product.along] / groups)
    return ProductSummary(
        rows=each[Along.ROWS],
        columns=each[Along.COLUMNS],
        inner=each[Along.INNER],
        batch=groups,
        item_size=product.left.dtype.itemsize,
        result_bytes=result_bytes,
    )
