"""A kernel that reduces the rows of its tensors, and sums columns on the way.

    for part in range(tl.program_id(0), 1024, tl.num_programs(0)):
        _sum0 = tl.full([XBLOCK, R0_BLOCK], 0.0, tl.float32)
        for tile in range(part, x_tiles, 1024):
            ...
            _sum0 = _sum0 + tmp7
        tl.store(out_ptr1 + (tl.arange(0, R0_BLOCK) + 768*part), tl.sum(_sum0, 0), ...)

A part is every 1024th tile; another kernel sums the parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch._inductor.codegen.common import CSEVariable, IndentedBuffer

from inductor_npu.codegen.analysis.axes import Axis
from inductor_npu.codegen.analysis.kernel_plan import KernelPlan
from inductor_npu.codegen.emit import header
from inductor_npu.codegen.emit.emitted import Tiled
from inductor_npu.codegen.emit.npu_kernel import NpuKernel
from inductor_npu.codegen.emit.statements import Statements


@dataclass(frozen=True)
class ColumnSums:
    """In how many `parts` columns are summed, and for each buffer with such sums the distance, in elements, of columns
    and of parts.
    """

    parts: int
    strides: Mapping[str, tuple[int, int]]


@dataclass(frozen=True)
class _Sum:
    """A variable that sums the elements of tiles, the pointer to which the sums go, and the distances there."""

    name: str
    pointer: str
    strides: tuple[int, int]


class ColumnSumsKernel(NpuKernel):
    """A kernel of rows that are whole in the tile, with `sums` over columns."""

    def __init__(self, *args: Any, sums: ColumnSums, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._sums = sums
        self._summed: list[_Sum] = []

    @staticmethod
    def covers(plan: KernelPlan) -> bool:
        """Whether the tile of `plan` has whole rows along a single axis."""
        return not plan.tile.loops and len(plan.axes.reduction) == 1 and bool(plan.tile.order)

    def partial_accumulate(
        self, name: str, reduction_type: str, value: CSEVariable, extra_meta: dict[str, Any]
    ) -> None:
        """Adds `value` to what becomes a part of the buffer `name`; called for each element of the tile."""
        assert reduction_type == "sum", f"{reduction_type} over columns"
        axes = self.tile.order
        value = self.broadcast(value, axes, self.compute)
        rows = [axis for axis in axes if axis != self._columns.prefix and self.needs_mask(axis)]
        if mask := " & ".join(self.addresses.mask_text_of(axis, axes) for axis in rows):
            value = self.generate(f"tl.where({mask}, {value}, 0.0)", torch.float32, value.shape)
        found = _Sum(f"_sum{len(self._summed)}", self.args.output(name), self._sums.strides[name])
        self.store_buffer_names.add(name)
        self._summed.append(found)
        self.compute.writeline(f"{found.name} = {found.name} + {value}")

    @property
    def _columns(self) -> Axis:
        (axis,) = self.axes.reduction
        return axis

    def codegen_static_numels(self, code: IndentedBuffer) -> None:
        body, indices = Statements(), Statements()
        self.write_lengths(body)
        body.splice(self.positions.before_tiles)
        tiles = self._write_tile_indices(body, indices) or "1"
        parts = self._sums.parts
        body.writeline(f"for part in range(tl.program_id(0){self.index_cast}, {parts}, tl.num_programs(0)):")
        with body.indent():
            shape = ", ".join(self.shape_of(self.tile.order))
            for each in self._summed:
                body.writeline(f"{each.name} = tl.full([{shape}], 0.0, tl.float32)")
            body.writeline(f"for tile in range(part, {tiles}, {parts}):")
            with body.indent():
                body.splice(indices)
                body.splice(self.body)
            for each in self._summed:
                body.writeline(self._store_of(each))
        self.body = header.with_header(self.plan, body, parts)

    def _store_of(self, each: _Sum) -> str:
        value, prefix = each.name, self._columns.prefix
        for place in reversed([place for place, axis in enumerate(self.tile.order) if axis != prefix]):
            value = f"tl.sum({value}, {place})"
        columns = f"tl.arange(0, {self.block(prefix)})"
        mask = f"{columns} < {prefix}numel" if self.needs_mask(prefix) else "None"
        of_column, of_part = each.strides
        offset = columns if of_column == 1 else f"{of_column}*{columns}"
        return f"tl.store({each.pointer} + ({offset} + {of_part}*part), {value}, {mask})"

    def tiled(self) -> list[Tiled]:
        return [[(self._sums.parts, None)]]
