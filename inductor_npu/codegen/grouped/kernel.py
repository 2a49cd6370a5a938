"""The kernel of a grouped product. Programs share out the tiles of all groups, whose ends they read from memory:

    first, low = tl.program_id(0), 0
    for group in range(0, groups):
        high = tl.load(offsets + group)
        tiles = tl.cdiv(high - low, ROWS) * column_blocks
        for tile in range(first, tiles, tl.num_programs(0)):
            ...
        first, low = ..., high

Where the sum is along the groups' axis, the number of tiles does not depend on data, and one loop goes over all.

Bounds are scalars and indices a scalar plus `tl.arange`: Ascend's compiler makes transfers of whole tiles of the loads,
and of the whole a kernel that needs no vector core.
"""

from __future__ import annotations

from collections.abc import Mapping

import sympy
import torch
from torch._inductor.virtualized import V

from inductor_npu import providers
from inductor_npu.codegen.emit.emitted import Tiled, next_first
from inductor_npu.codegen.fallback.eager_kernel import EagerWriter
from inductor_npu.codegen.grouped.problem import Along, GroupedProduct
from inductor_npu.codegen.templates.kernel import TemplateKernel, eager_view
from inductor_npu.codegen.templates.tensor import Tensor
from inductor_npu.tiling import cube
from inductor_npu.tiling.cube import ProductSummary, ProductTile

_KIB = 1024


class GroupedKernel(TemplateKernel):
    """A kernel of `product`, which stores `result`, with tiles of `tile`."""

    def __init__(self, product: GroupedProduct, result: Tensor, work: ProductSummary, tile: ProductTile) -> None:
        super().__init__([product.left, product.right, product.offsets], [result])
        self.product, self.result, self.work, self.tile = product, result, work, tile
        # The name of an index, the length of its axis, and its block.
        self._axes = {
            Along.ROWS: ("row", product.rows, tile.rows),
            Along.COLUMNS: ("column", product.columns, tile.columns),
            Along.INNER: ("inner", product.inner, tile.inner),
        }

    def tiled(self) -> list[Tiled]:
        """The greatest number of tiles: each group may end inside one."""
        product = self.product
        axes: Tiled = []
        for along in (Along.ROWS, Along.COLUMNS):
            _, length, block = self._axes[along]
            ends = product.groups * block if along is product.along else 0
            axes.append((self.text(length + ends), block))
        if product.along is Along.INNER:
            axes.append((self.text(product.groups), None))
        return [axes]

    def header(self) -> list[str]:
        chip, work, tile = providers.current_target(), self.work, self.tile
        blocks = (f"{along.value} {block} of {length}" for along, (_, length, block) in self._axes.items())
        l0c, l1 = cube.l0c_bytes(work, tile, chip), cube.l1_bytes(work, tile, chip)
        return [
            f"grouped product: {self.product.groups} groups along {self.product.along.value}",
            ", ".join(blocks),
            f"{l0c // _KIB} of {chip.l0c // _KIB} KiB of L0C, twice {l1 // _KIB} of {chip.l1 // _KIB} KiB of L1",
        ]

    # -- statements ---------------------------------------------------------------------------------------------------

    def write_body(self) -> None:
        for name, _, block in self._axes.values():
            self.line(f"{name.upper()}S: tl.constexpr = {block}")
        self.line(f"groups = {self._length(self.product.groups)}")
        for along, (name, length, _) in self._axes.items():
            if along is not self.product.along:
                self.line(f"{name}_end = {self._length(length)}")
        if self.product.along is Along.INNER:
            self._write_tiles_of_all_groups()
        else:
            self._write_tiles_of_each_group()

    def _write_tiles_of_all_groups(self) -> None:
        self.line("row_blocks, column_blocks = tl.cdiv(row_end, ROWS), tl.cdiv(column_end, COLUMNS)")
        tiles = "groups * row_blocks * column_blocks"
        self.line(f"for tile in range(tl.program_id(0), {tiles}, tl.num_programs(0)):")
        with self.body.indent():
            self.line("group = tile // (row_blocks * column_blocks)")
            # A masked load of a number would be vector code.
            self.line(f"low = {self._offset('tl.maximum(group - 1, 0)')} * tl.minimum(group, 1)")
            self.line(f"inner_end = {self._offset('group')}")
            self._write_tile("tile // column_blocks % row_blocks * ROWS", "tile % column_blocks * COLUMNS", "low")

    def _write_tiles_of_each_group(self) -> None:
        (own, _, _), (other, _, _) = self._axes[self.product.along], self._axes[self._other]
        self.line(f"other_blocks = tl.cdiv({other}_end, {other.upper()}S)")
        self.line(f"first = tl.program_id(0){self.index_cast}")
        self.line("low = 0")
        self.line("for group in range(0, groups):")
        with self.body.indent():
            self.line(f"{own}_end = {self._offset('group')}")
            self.line(f"tiles = tl.cdiv({own}_end - low, {own.upper()}S) * other_blocks")
            self.line("for tile in range(first, tiles, tl.num_programs(0)):")
            with self.body.indent():
                starts = {
                    own: f"low + tile // other_blocks * {own.upper()}S",
                    other: f"tile % other_blocks * {other.upper()}S",
                }
                self._write_tile(starts["row"], starts["column"], "0")
            self.line(next_first("first", "tiles"))
            self.line(f"low = {own}_end")

    def _length(self, size: sympy.Expr) -> str:
        """A size as text, of the kernel's index type: an argument may be wider, and loops keep the types of values."""
        text = self.text(size)
        return text if isinstance(size, sympy.Integer) else f"tl.cast({text}, {self.index_dtype})"

    @property
    def _other(self) -> Along:
        return Along.COLUMNS if self.product.along is Along.ROWS else Along.ROWS

    def _offset(self, group: str) -> str:
        offsets = self.product.offsets
        return f"tl.load({self._address(offsets, self.args.input(offsets.buffer), {group: offsets.strides[0]})})"

    def _address(self, tensor: Tensor, pointer: str, steps: Mapping[str, sympy.Expr]) -> str:
        """The address in `tensor` at indices, by text, with their strides."""
        terms = [pointer, *([self.factor(tensor.offset)] if tensor.offset != 0 else [])]
        terms += [index if stride == 1 else f"{index} * {self.factor(stride)}" for index, stride in steps.items()]
        return " + ".join(terms)

    def _write_tile(self, row0: str, column0: str, inner_start: str) -> None:
        self._write_index("row", row0)
        self._write_index("column", column0)
        self.line("total = tl.full([ROWS, COLUMNS], 0, tl.float32)")
        self.line(f"for inner0 in range({inner_start}, inner_end, INNERS):")
        product = self.product
        with self.body.indent():
            self._write_index("inner", "inner0")
            self.line(f"left = {self._load(product.left, Along.ROWS, Along.INNER)}")
            self.line(f"right = {self._load(product.right, Along.INNER, Along.COLUMNS)}")
            precision = ', input_precision="ieee"' if product.left.dtype == torch.float32 else ""
            self.line(f"total = tl.dot(left, right, total{precision})")
        result = self.result
        address, mask = self._place(result, Along.ROWS, Along.COLUMNS, True, self.args.output(result.buffer))
        self.line(f"tl.store({address}, {self.narrowed('total', result.dtype)}, {mask})")

    def _write_index(self, name: str, start: str) -> None:
        self.line(f"{name} = {start} + tl.arange(0, {name.upper()}S){self.index_cast}")

    def _load(self, tensor: Tensor, first: Along, last: Along) -> str:
        """The load of a tile of a matrix with the axes `first` and `last`: as it lies in memory, and turned then."""
        lies_along_rows = V.graph.sizevars.statically_known_equals(tensor.strides[-1], 1)
        address, mask = self._place(tensor, first, last, lies_along_rows, self.args.input(tensor.buffer))
        text = f"tl.load({address}, {mask}{', other=0.0' if mask != 'None' else ''})"
        return text if lies_along_rows else f"tl.trans({text})"

    def _place(self, tensor: Tensor, first: Along, last: Along, lies_along_rows: bool, pointer: str) -> tuple[str, str]:
        """The address of a tile of `tensor` with the axes `first` and `last`, the contiguous one last, and the mask of
        what exists of it.
        """
        *batch, step, last_step = tensor.strides
        if not lies_along_rows:
            first, last, step = last, first, last_step
        outer, inside = f"{self._axes[first][0]}[:, None]", f"{self._axes[last][0]}[None, :]"
        steps = {f"group{self.index_cast}": batch[0]} if batch else {}
        address = self._address(tensor, pointer, {**steps, outer: step, inside: sympy.S.One})
        exists = {outer: first, inside: last}
        conditions = [
            f"({name} < {self._axes[along][0]}_end)" for name, along in exists.items() if self._needs_mask(along)
        ]
        return address, " & ".join(conditions) or "None"

    def _needs_mask(self, along: Along) -> bool:
        _, length, block = self._axes[along]
        return along is self.product.along or not V.graph.sizevars.statically_known_multiple_of(length, block)

    # -- in eager -----------------------------------------------------------------------------------------------------

    def write_eager(self, writer: EagerWriter) -> str:
        product = self.product
        views = (eager_view(writer, tensor) for tensor in (product.left, product.right, product.offsets, self.result))
        writer.lines.append("from inductor_npu.runtime import eager_grouped")
        writer.lines.append(f"eager_grouped.multiply({', '.join(views)}, {product.along.value!r})")
        return writer.finished()
