"""Matrix products: tiles of two operands, multiplied by the cube cores and summed in an accumulator.

    _acc = tl.full([YBLOCK, XBLOCK], 0, tl.float32)
    for r0_offset in range(0, r0_numel, R0_BLOCK):
        r0 = r0_offset + tl.arange(0, R0_BLOCK)
        left = tl.load(in_ptr0 + (r0[None, :] + 768 * y[:, None]), ymask[:, None] & r0mask[None, :], other=0)
        right = tl.load(in_ptr1 + (x[None, :] + 768 * r0[:, None]), ...)
        _acc = tl.dot(left, right, _acc)
    ... what is computed from the product

Each operand is loaded as it lies in memory, the contiguous axis last, and turned where the product wants it so:
Ascend's compiler makes both a part of the transfer. A right operand of fewer bits is converted in between, by the
vector cores.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch._inductor.codegen.common import CSEVariable
from torch._inductor.codegen.triton import triton_type

from inductor_npu.codegen.emit.loads import Loader
from inductor_npu.codegen.emit.tile_kernel import TileKernel


@dataclass(frozen=True)
class Product:
    """The products of all pairs of elements of two tiles, which a reduction sums along their common axes."""

    left: CSEVariable
    right: CSEVariable


class Contractor:
    """Writes the contractions of `kernel`."""

    def __init__(self, kernel: TileKernel, loader: Loader) -> None:
        self.kernel, self.loader = kernel, loader

    def contraction(self, dtype: torch.dtype, product: Product) -> CSEVariable:
        """Writes the sum of `product` along all reduced axes; returns it in the dtype in which it is summed: int32, or
        float32 for floats. `dtype` is that of the result.
        """
        kernel = self.kernel
        key = (dtype, "dot", (product.left, product.right))
        if key in kernel.cse.reduction_cache:
            return kernel.cse.reduction_cache[key]
        left = self._operand(product.left)
        right = self._operand(product.right, left.dtype)
        first, inner, last = kernel.tile.order
        if first in kernel.axes_of(right.shape):
            left, right = right, left
        assert kernel.axes_of(left.shape) == (first, inner) and kernel.axes_of(right.shape) == (inner, last)
        summed_in = torch.int32 if dtype == torch.int32 else torch.float32
        name = "tl.int32" if summed_in == torch.int32 else "tl.float32"
        total = kernel.accumulator(kernel.shape_of((first, last)), summed_in, 0, name)
        # float32 is multiplied as such: Triton's own default is of fewer bits.
        precision = ', input_precision="ieee"' if left.dtype == torch.float32 else ""
        summed = f", out_dtype={name}" if summed_in == torch.int32 else ""
        kernel.compute.writeline(f"{total} = tl.dot({left}, {right}, {total}{precision}{summed})")
        with kernel.after_loops():
            result = kernel.generate(str(total), summed_in, total.shape)
        kernel.cse.reduction_cache[key] = result
        kernel.outside_loop_vars.add(result)
        return result

    def _operand(self, value: CSEVariable, dtype: torch.dtype | None = None) -> CSEVariable:
        """`value` as it was loaded, in the buffer's own dtype or in `dtype`, with zeros beyond the end of the sum."""
        kernel = self.kernel
        value = kernel.without_added(value)
        is_filled = kernel.masked_lanes.fill(value, 0)
        assert value.in_memory is not None and (is_filled or not self._has_masked_lanes(value)), "operands are loads"
        loaded, axes = value.in_memory
        if dtype not in (None, loaded.dtype):
            text = f"{loaded}.to({triton_type(dtype)})"
            loaded = kernel.cse.generate(kernel.loads, text, dtype=dtype, shape=loaded.shape)
        return self.loader.in_tile_order(loaded, axes, kernel.loads)

    def _has_masked_lanes(self, value: CSEVariable) -> bool:
        return any(
            axis in self.kernel.tile.loops and self.kernel.needs_mask(axis) for axis in self.kernel.axes_of(value.shape)
        )
