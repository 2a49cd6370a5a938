"""Tiles that extend beyond the end of a row: masks of the lanes that exist, and values of the masked lanes."""

from __future__ import annotations

from typing import Any

from torch._inductor.codegen.common import CSEVariable
from torch._inductor.codegen.simd import constant_repr

from inductor_npu.codegen.emit.addresses import Address, Addresses
from inductor_npu.codegen.emit.tile_kernel import TileKernel
from inductor_npu.providers import current_target


class Rows:
    """The lanes of a tile of `kernel` inside and beyond its reduced axes."""

    def __init__(self, kernel: TileKernel, addresses: Addresses) -> None:
        self.kernel, self.addresses = kernel, addresses

    def reduced_axes(self, value: CSEVariable) -> tuple[str, ...]:
        """The axes of `value`, and all reduced axes of the tile."""
        reduced = {axis for axis in self.kernel.tile.order if self.kernel.axis_of[axis].is_reduction}
        return self.kernel.in_tile_order({*self.kernel.axes_of(value.shape), *reduced})

    def reduced_mask(self, value: CSEVariable) -> str:
        """The mask of the lanes inside the reduced axes, as text; empty if these are all lanes."""
        axes = [
            axis
            for axis in self.kernel.axes_of(value.shape)
            if self.kernel.axis_of[axis].is_reduction and self.kernel.needs_mask(axis)
        ]
        return " & ".join(self._mask_of_reduced(axis, value) for axis in axes)

    def _mask_of_reduced(self, axis: str, value: CSEVariable) -> str:
        """The lanes along `axis` that exist, as a mask for selections in a tile with the shape of `value`.

        A short axis has fewer indices than a vector comparison, and Ascend's compiler compares before it broadcasts:
        then the positions of the whole tile are compared.
        """
        axes = self.kernel.axes_of(value.shape)
        if len(axes) == 1 or self.kernel.max_block(axis) >= current_target().compared_at_once(4):
            return self.addresses.mask_text_of(axis, axes)
        inner = " * ".join(self.kernel.shape_of(axes[axes.index(axis) + 1 :])) or "1"
        count = f"{axis}numel - {axis}offset" if axis in self.kernel.tile.loops else f"{axis}numel"
        return f"device_functions.first_along({value}, {count}, {self.kernel.block(axis)}, {inner})"

    def with_masked_value(self, value: CSEVariable, identity: float) -> CSEVariable:
        """`value`, with `identity` in the lanes beyond the end of the reduced axes."""
        mask = self.reduced_mask(value)
        if not mask or self.kernel.masked_lanes.fill(value, identity):
            return value
        return self.kernel.generate(f"tl.where({mask}, {value}, {constant_repr(identity)})", value.dtype, value.shape)

    def padded_later(self, line: str, address: Address, has_other: bool) -> Any:
        """A load whose masked-lane value is chosen by the first reduction that asks for one.

        A load that depends on only some of the reduced axes has its own values beyond the end of the others, and no
        masked-lane value.
        """
        reduced = {
            axis
            for axis in self.kernel.tile.order
            if self.kernel.axis_of[axis].is_reduction and self.kernel.needs_mask(axis)
        }
        fillable = reduced and reduced <= set(address.axes) and not has_other
        return self.kernel.masked_lanes.load(line) if fillable else line

    def within(self, updated: Any, old: Any, value: CSEVariable) -> str:
        """`updated` inside the reduced axes, `old` beyond their end."""
        mask = self.reduced_mask(value)
        return f"tl.where({mask}, {updated}, {old})" if mask else str(updated)
