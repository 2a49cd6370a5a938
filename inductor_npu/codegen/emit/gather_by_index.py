"""Loads of a kernel by loaded indices that gather elements on chip (`indexed_ranges.py` decides which).

tmp0 = tl.load(in_ptr0 + (x[None, :] + 50 * y[:, None]), ...)  # the indices
tmp1 = tl.load(in_ptr1 + (200 * y[:, None] + span0[None, :]), span0[None, :] < 200)  # all that they may point to
tmp2 = device_functions.gather(tmp1, ...)  # row by row
"""

from __future__ import annotations

import torch
from torch._inductor.codegen.common import CSEVariable
from torch.utils._sympy.symbol import SymT, symbol_is_type

from inductor_npu.codegen.analysis.access_forms import Indexed
from inductor_npu.codegen.emit.addresses import Addresses
from inductor_npu.codegen.emit.on_chip_gather import RangeAccess
from inductor_npu.codegen.emit.positions import Positions
from inductor_npu.codegen.emit.tile_kernel import TileKernel, subscript
from inductor_npu.codegen.index.affine import affine


class IndexedGatherer:
    """Writes the loads of `kernel` that read all that loaded indices may point to."""

    def __init__(self, kernel: TileKernel, addresses: Addresses, positions: Positions) -> None:
        self.kernel, self.addresses, self.positions = kernel, addresses, positions

    def indexed_load(self, form: Indexed) -> RangeAccess:
        """The load of all that the loaded indices may point to."""
        indexed, rows, length = form.range, form.rows, form.length
        dims, shape = (*rows, "span"), (*self.kernel.shape_of(rows), str(length))
        positions = self.positions.hoisted("span", f"tl.arange(0, {length})")
        masks = [self.addresses.mask_text_of(axis, dims) for axis in rows if self.kernel.needs_mask(axis)]
        if length != indexed.rest:
            masks.append(f"({positions}{subscript(('span',), dims)} < {indexed.rest})")
        return RangeAccess(
            self.addresses.row_address(self.kernel.prepare_indexing(indexed.start), rows, dims, positions),
            " & ".join(masks) or "None",
            rows,
            shape,
            self._positions_by_index(form),
            form.axes,
            fills=False,
            indirect=True,
        )

    def _positions_by_index(self, form: Indexed) -> str:
        """The positions of the elements: within the row's range, whatever the indices are, also in masked lanes."""
        indexed, axes, rows, length = form.range, form.axes, form.rows, form.length
        loaded = {
            s: self.kernel.cse.varname_map[str(s)] for s in indexed.position.free_symbols if symbol_is_type(s, SymT.TMP)
        }
        taken = affine(indexed.position, indexed.position.free_symbols)
        terms = [str(taken.offset)] if taken.offset != 0 else []
        for symbol, step in sorted(taken.strides.items(), key=str):
            if symbol in loaded:
                value = self._limited(loaded[symbol], int(self.kernel.limit_of_loaded[symbol]))
                text = f"{value}{subscript(self.kernel.axes_of(value.shape), axes)}"
            else:
                axis = self.kernel.axis_with(symbol)
                text = str(symbol)
                if axis.prefix in axes:
                    last = int(axis.length) - 1
                    text = f"tl.minimum({text}, {last})" if self.kernel.needs_mask(axis.prefix) else text
                    text = f"{text}{subscript((axis.prefix,), axes)}"
            terms.append(text if step == 1 else f"{step} * {text}")
        for position, row in enumerate(rows):
            inner = " * ".join((*self.kernel.shape_of(rows[position + 1 :]), str(length)))
            inner = f"({inner})" if "*" in inner else inner
            terms.append(f"tl.arange(0, {self.kernel.block(row)}){subscript((row,), axes)} * {inner}")
        text = " + ".join(terms)
        return f"tl.reshape({text}, [{' * '.join(self.kernel.shape_of(axes))}])" if len(axes) > 1 else text

    def _limited(self, index: CSEVariable, size: int) -> CSEVariable:
        """`index`, clamped to 0 ... `size` - 1: in masked lanes it is any number, and the gather uses it."""
        whole = f"{index}" if index.dtype == torch.int32 else f"{index}.to(tl.int32)"
        text = f"tl.minimum(tl.maximum({whole}, 0), {size - 1})"
        return self.kernel.cse.generate(self.kernel.compute, text, dtype=torch.int32, shape=index.shape)
