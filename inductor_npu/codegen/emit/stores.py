"""Stores of a tile, in the forms of the plan."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import sympy
import torch
from torch._inductor.codegen.common import CSEVariable, DeferredLine
from torch._inductor.codegen.triton import triton_type
from torch._inductor.utils import IndentedBuffer

from inductor_npu.codegen.analysis.access_forms import Direct, Strided
from inductor_npu.codegen.analysis.tiled_axes import AxisNames
from inductor_npu.codegen.emit.addresses import Addresses
from inductor_npu.codegen.emit.on_chip_gather import Gatherer
from inductor_npu.codegen.emit.reductions import Reducer
from inductor_npu.codegen.emit.tile_kernel import TileKernel
from inductor_npu.codegen.index.vector_text import CannotEmit
from inductor_npu.providers import current_target


class Storer:
    """Writes the stores of `kernel`."""

    def __init__(self, kernel: TileKernel, reducer: Reducer, addresses: Addresses, gatherer: Gatherer) -> None:
        self.kernel, self.reducer, self.addresses, self.gatherer = kernel, reducer, addresses, gatherer

    def store(self, name: str, index: sympy.Expr, value: CSEVariable, mode: Any = None) -> None:
        """Writes a store of `value` to the buffer `name` in the form that the plan has for it.

        `index` is the address, in elements, in Inductor's index variables. The access has its contiguous axis last; the
        value is transposed on chip. Raises CannotEmit for an unknown `mode`, and for a value that varies along an axis
        on which the address does not depend.
        """
        axes = self.kernel.form.axes
        if mode == "atomic_add":  # once for each element of the loops, also along axes on which neither depends
            value = self.kernel.broadcast(
                value, self._looped_axes({*self.kernel.axes_of(value.shape), *axes}), self.kernel.compute
            )
        for axis in reversed([axis for axis in self.kernel.axes_of(value.shape) if axis not in axes]):
            if mode != "atomic_add":
                raise CannotEmit(f"a store to {name} at {index} of a value that differs along {axis}")
            value = self.reducer.sum_along(value, axis)  # one sum instead of many additions to one address
        value = self.kernel.broadcast(value, self.kernel.in_tile_order(axes), self.kernel.compute)
        arguments = self._store_arguments(name, value, self.addresses.is_last_text(name))
        if mode is None:
            line = f"tl.store({arguments})"
        elif mode == "atomic_add":
            self.kernel.atomic_add_found = True
            line = f"tl.atomic_add({arguments}, sem='relaxed')"
        else:
            raise CannotEmit(f"store mode {mode}")
        self._wait_for_loads(name, self.kernel.stores)
        self.kernel.stores.writeline(DeferredLine(name, line))
        if not self.kernel.inside_reduction:
            self.kernel.outside_loop_vars.add(value)

    def _looped_axes(self, own: Collection[str]) -> AxisNames:
        """`own`, and the other axes of the loops around the statement, as far as tiles have several elements along
        them.
        """
        axes = {
            axis.prefix
            for axis in self.kernel.axis_of.values()
            if self.kernel.inside_reduction or not axis.is_reduction
        }
        return self.kernel.in_tile_order({*own, *(axis for axis in axes if self.kernel.max_block(axis) > 1)})

    def store_reduction(self, name: str, index: sympy.Expr, value: CSEVariable) -> None:
        """Writes a store of the result of a reduction, behind the loops over reduced axes."""
        buffer = self.kernel.post_loop_combine if self.kernel.tile.loops else self.kernel.compute
        value = self.kernel.broadcast(value, self.kernel.in_tile_order(self.kernel.form.axes), buffer)
        line = f"tl.store({self._store_arguments(name, value)})"
        self._wait_for_loads(name, self.kernel.post_loop_store)
        self.kernel.post_loop_store.writeline(DeferredLine(name, line))

    def _wait_for_loads(self, name: str, buffer: IndentedBuffer) -> None:
        """Has all threads of a program wait for each other before it overwrites what it has loaded, where several of
        them load one element: one thread may store it before another one loads it
        (https://github.com/triton-lang/triton/issues/1615). Inductor's own kernels do the same.
        """
        shared = {axis.prefix for axis in self.kernel.axis_of.values() if self.kernel.max_block(axis.prefix) > 1}
        is_loaded_by_several = not shared.issubset(self.kernel.form.axes)
        if current_target().threads_by_tile and name in self.kernel.args.inplace_buffers and is_loaded_by_several:
            buffer.writeline(DeferredLine(name, "tl.debug_barrier()"))

    def _store_arguments(self, name: str, value: CSEVariable, conditions: Sequence[str] = ()) -> str:
        """Pointer, value and mask of a store under the scalar predicates `conditions`; the value has all axes of the
        address, in the tile's order.
        """
        pointer = self.kernel.args.output(name)
        if isinstance(self.kernel.form, Strided):
            ranged = self.gatherer.strided_store(self.kernel.form)
            text = f"device_functions.gather({self._wide(value) if ranged.is_wide else value}, {ranged.positions})"
            text = f"tl.reshape({text}, [{', '.join(ranged.shape)}])" if len(ranged.shape) > 1 else text
            text = _narrowed(text, value.dtype) if ranged.is_wide else text
            return f"{pointer} + ({ranged.address}), {text}, {ranged.mask}"
        assert isinstance(self.kernel.form, Direct), "a store by loaded indices is one of elements"
        address = self.addresses.address_of(self.kernel.form)
        text = self.addresses.in_order(value, address.axes)
        mask = " & ".join(
            [part for part in (self.addresses.mask_text(address.axes),) if part != "None"] + [*conditions]
        )
        return f"{pointer} + ({address.text}), {text}, {mask or 'None'}"

    def _wide(self, value: CSEVariable) -> str:
        """`value` in 32 bits, if its own dtype or that of the buffer has fewer."""
        value = value.wide or value
        if value.dtype == torch.int64:
            return f"{value}.to(tl.int32)"
        return f"{value}" if value.dtype in (torch.float32, torch.int32) else f"{value}.to(tl.float32)"


def _narrowed(wide: str, dtype: torch.dtype | None) -> str:
    """Text of a value of type `dtype`, from the text of the same value in 32 bits."""
    if dtype == torch.bool:
        return f"({wide} != 0.0)"
    if dtype in (torch.int8, torch.uint8):
        return f"device_functions.to_byte({wide}, {triton_type(dtype)})"
    return f"{wide}.to(tl.int32).to(tl.int16)" if dtype == torch.int16 else wide
