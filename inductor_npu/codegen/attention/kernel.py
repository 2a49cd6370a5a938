"""What the three kernels of attention have in common: arguments, tiles, loads, masks.

    for tile in range(tl.program_id(0), row_blocks * heads, tl.num_programs(0)):
        row0 = tile % row_blocks * ROWS
        ...
        for column0 in range(0, column_count, COLUMNS):
            ...

Indices are a scalar plus `tl.arange`, bounds are scalars, and the last axis of each tensor is contiguous: what Ascend's
compiler makes transfers of whole tiles of.
"""

from __future__ import annotations

from collections.abc import Sequence

import sympy
import torch
from torch._inductor.runtime.runtime_utils import next_power_of_2
from torch._inductor.virtualized import V
from torch.utils._ordered_set import OrderedSet

from inductor_npu import providers
from inductor_npu.codegen.annotations import arithmetic
from inductor_npu.codegen.attention.operators import ScoreOverrides
from inductor_npu.codegen.attention.problem import BATCH, HEAD, SHARED_HEAD, Attention, BlockLists
from inductor_npu.codegen.attention.scores import Scores
from inductor_npu.codegen.attention.stand_in import StandIn
from inductor_npu.codegen.emit.emitted import Tiled
from inductor_npu.codegen.fallback.eager_kernel import EagerWriter
from inductor_npu.codegen.templates.kernel import TemplateKernel
from inductor_npu.codegen.templates.tensor import Tensor
from inductor_npu.tiling import attention as tiling
from inductor_npu.tiling.attention import AttentionSummary, AttentionTile, Pass

_KIB = 1024


class AttentionKernel(Scores, TemplateKernel):
    """A kernel of `attention` with tiles of `tile`; `results` are the tensors that it stores."""

    overrides = ScoreOverrides
    # The axis over whose blocks programs go, and the one in the loop inside.
    outer, inner = "row", "column"
    # The axes of a tile of scores.
    order: tuple[str, str] = ("row", "column")
    # Tensors that only a gradient has.
    operands: tuple[Tensor, ...] = ()

    def __init__(
        self, attention: Attention, results: Sequence[Tensor | None], work: AttentionSummary, tile: AttentionTile
    ) -> None:
        self.attention, self.work, self.tile = attention, work, tile
        self.results = tuple(results)
        super().__init__(self.tensors_read(), [result for result in results if result is not None])
        self.mutations = OrderedSet([result.buffer for result in self.results[1:] if result is not None])

    # -- what Inductor's kernel asks ----------------------------------------------------------------------------------

    def tiled(self) -> list[Tiled]:
        length, block = self._count(self.outer)
        return [[(self.text(self.outer_heads), None), (self.text(length), block)]]

    @property
    def filled(self) -> int:
        return tiling.vector_bytes(self.work, self.tile)

    def arithmetic(self) -> int:
        """What the graph has of it: the backward kernels compute scores twice, which count once."""
        attention = self.attention
        sizes = (attention.query.sizes, attention.key.sizes, attention.value.sizes)
        match self.work.which:
            case Pass.FORWARD:
                return arithmetic.of_attention(*sizes)
            case Pass.KEYS_AND_VALUES:
                return arithmetic.of_gradients(*sizes)[0]
            case Pass.QUERIES:
                return arithmetic.of_gradients(*sizes)[1]

    @property
    def rounds_inside(self) -> bool:
        """Whether weights are rounded to the dtype of the values before they are multiplied."""
        return self.attention.value.dtype != torch.float32

    def write_eager(self, writer: EagerWriter) -> str:
        """The source of the kernel's eager stand-in, which `writer` writes."""
        return StandIn(writer, self.attention, self.results, self.operands).write(self.work.which)

    # -- what each kernel says ----------------------------------------------------------------------------------------

    def tensors_read(self) -> list[Tensor]:
        """The tensors that the kernel reads, without those that only modify scores."""
        raise NotImplementedError

    @property
    def outer_heads(self) -> sympy.Expr:
        """How many heads, of all batches, have blocks of their own."""
        return self.attention.batch * self.attention.heads

    # -- sizes --------------------------------------------------------------------------------------------------------

    def _count(self, axis: str) -> tuple[sympy.Expr, int]:
        """The length of an axis, and of its block."""
        if axis == "row":
            return self.attention.rows, self.tile.rows
        return self.attention.columns, self.tile.columns

    def needs_mask(self, axis: str) -> bool:
        """Whether the last block of an axis may be longer than what is left."""
        length, block = self._count(axis)
        return not V.graph.sizevars.statically_known_multiple_of(length, block)

    # -- text ---------------------------------------------------------------------------------------------------------

    def header(self) -> list[str]:
        """The lines of the header, without `#`."""
        chip, work, tile = providers.current_target(), self.work, self.tile
        heads, (length, block) = self.outer_heads, self._count(self.outer)
        dynamic = sympy.sympify(heads * length).free_symbols
        tiles = int(heads) * -(-int(length) // block) if not dynamic else 0
        memories = (
            ("L0C", tiling.l0c_bytes(work, tile), chip.l0c),
            ("L1", tiling.l1_bytes(work, tile), chip.l1),
            ("Unified Buffer, as estimated", self.filled, chip.unified_buffer),
        )
        programs = f"{tiles} tiles, on {min(tiles, self.cores)} of {self.cores} programs"
        return [
            f"attention, {work.which.value}: heads of {work.head} and {work.value_head}",
            f"rows {tile.rows} of {self.attention.rows}, columns {tile.columns} of {self.attention.columns}",
            ", ".join(f"{used // _KIB} of {there // _KIB} KiB of {name}" for name, used, there in memories),
            *([] if dynamic else [programs]),
        ]

    def write_lengths(self) -> None:
        """Writes the lengths of blocks, of axes and of heads."""
        attention = self.attention
        self.line(f"ROWS: tl.constexpr = {self.tile.rows}")
        self.line(f"COLUMNS: tl.constexpr = {self.tile.columns}")
        for name, tensor in (("HEAD", attention.query), ("VALUE", attention.value)):
            self.line(f"{name}: tl.constexpr = {next_power_of_2(int(tensor.sizes[3]))}")
        self.line(f"row_count = {self.text(attention.rows)}")
        self.line(f"column_count = {self.text(attention.columns)}")
        self.line(f"dim = tl.arange(0, HEAD){self.index_cast}")
        self.line(f"value_dim = tl.arange(0, VALUE){self.index_cast}")

    def begin_tiles(self) -> None:
        """Writes the head of the loop over the blocks of the outer axis."""
        axis, block = self.outer, self.block(self.outer)
        self.line(f"blocks = tl.cdiv({axis}_count, {block})")
        tiles = f"blocks * ({self.text(self.outer_heads)})"
        self.line(f"for tile in range(tl.program_id(0){self.index_cast}, {tiles}, tl.num_programs(0)):")

    def write_index(self, axis: str, first: str) -> None:
        """Writes the indices of a block of `axis` that begins at `first`."""
        self.line(f"{axis}0 = {first}")
        self.line(f"{axis} = {axis}0 + tl.arange(0, {self.block(axis)}){self.index_cast}")

    def write_head(self, number: str) -> None:
        """Writes batch and head of queries, and the head of keys that belongs to it, by the number of both."""
        attention = self.attention
        self.line(f"head = {number} % ({self.text(attention.heads)})")
        self.line(f"batch = {number} // ({self.text(attention.heads)})")
        self.line(f"{SHARED_HEAD} = head // ({self.text(self.group)})")

    @property
    def group(self) -> sympy.Expr:
        """How many heads of queries share a head of keys."""
        attention = self.attention
        return V.graph.sizevars.simplify(sympy.sympify(attention.heads) / sympy.sympify(attention.shared_heads))

    def of_queries(self, tensor: Tensor) -> sympy.Expr:
        """Where the present head of `tensor` begins, which has heads of queries."""
        return tensor.start(BATCH, HEAD)

    def of_keys(self, tensor: Tensor) -> sympy.Expr:
        """Where the present head of `tensor` begins, which has heads of keys."""
        return tensor.start(BATCH, SHARED_HEAD)

    def place(self, tensor: Tensor, start: sympy.Expr, axis: str, dim: str, pointer: str) -> tuple[str, list[str]]:
        """The address of the block of `tensor` along `axis` with all of its `dim`, and conditions of what exists."""
        inside = f"{axis}[:, None] * {self.factor(tensor.strides[2])} + {dim}[None, :]"
        address = f"{pointer} + ({self.text(start)}) + ({inside})"
        conditions = [f"({axis}[:, None] < {axis}_count)"]
        length = int(tensor.sizes[3])
        if length != next_power_of_2(length):
            conditions.append(f"({dim}[None, :] < {length})")
        return address, conditions

    def load_block(self, target: str, tensor: Tensor, start: sympy.Expr, axis: str, dim: str = "dim") -> None:
        """Writes the load of a block of `tensor`, with zeros where it ends."""
        address, conditions = self.place(tensor, start, axis, dim, self.args.input(tensor.buffer))
        mask = " & ".join(conditions[not self.needs_mask(axis) :]) or "None"
        self.line(f"{target} = tl.load({address}, {mask}{', other=0.0' if mask != 'None' else ''})")

    def store_block(self, tensor: Tensor, start: sympy.Expr, axis: str, dim: str, value: str) -> None:
        """Writes the store of a block, unless nobody needs it. It is masked even where all rows exist: otherwise
        Ascend's compiler has both vector cores of a cube core store all of them.
        """
        if tensor.buffer in V.graph.removed_buffers:
            return
        address, conditions = self.place(tensor, start, axis, dim, self.args.output(tensor.buffer))
        self.line(f"tl.store({address}, {self.narrowed(value, tensor.dtype)}, {' & '.join(conditions)})")

    def load_numbers(self, target: str, tensor: Tensor, other: str) -> None:
        """Writes the load of one number for each query of the block. It is masked for the reason that stores are."""
        start = self.text(self.of_queries(tensor))
        address = f"{self.args.input(tensor.buffer)} + ({start}) + row * {self.factor(tensor.strides[2])}"
        mask = f"row < row_count, other={other}"
        self.line(f"{target} = tl.load({address}, {mask})")

    def dot(self, left: str, right: str, total: str = "") -> str:
        """The product of two tiles, added to `total`."""
        precision = ', input_precision="ieee"' if self.attention.query.dtype == torch.float32 else ""
        return f"tl.dot({left}, {right}{', ' + total if total else ''}{precision})"

    def scale(self, value: str) -> str:
        """`value` times the scale of products."""
        scale = self.attention.scale
        text = repr(float(scale)) if not getattr(scale, "free_symbols", ()) else self.text(scale)
        return value if text == "1.0" else f"{value} * {text}"

    # -- blocks of scores that are computed -------------------------------------------------------------------------

    def begin_listed(self, blocks: BlockLists, outer_block: int, inner_block: int) -> tuple[str, str]:
        """Writes the head of the loop over the blocks that the lists name, for the present block of the outer axis.
        Returns the text of where the inner block begins, and of whether its mask has to be asked; write it inside.
        """
        inner, last = self.inner, f"{self.text(blocks.indices.sizes[3])} - 1"
        self.line(f"listed_for = {self.outer}0 // {outer_block}")
        for name, counts in (("partial", blocks.counts), ("full", blocks.full_counts)):
            self.line(f"{name}_count = {self._number(counts) if counts is not None else 0}")
        self.line(f"parts = tl.cdiv(tl.minimum({inner}_count, {inner_block}), {self.block(inner)})")
        self.line("for step in range(0, (partial_count + full_count) * parts):")
        full = blocks.full_indices
        with self.body.indent():
            self.line("entry = step // parts")
            self.line(f"listed = {self._number(blocks.indices, f'tl.minimum(entry, {last})')}")
            if full is not None:
                self.line("is_partial = entry < partial_count")
                other = self._number(full, "tl.maximum(entry - partial_count, 0)")
                self.line(f"listed = tl.where(is_partial, listed, {other})")
        first = f"listed{self.index_cast} * {inner_block} + step % parts * {self.block(inner)}"
        return first, "" if full is None else "is_partial"

    def _number(self, table: Tensor, place: str = "") -> str:
        """The load of a number of a table of the lists, for the present block of the outer axis."""
        start = f"({self.text(table.start(BATCH, HEAD))}) + listed_for * {self.factor(table.strides[2])}"
        if place:
            start += f" + {place} * {self.factor(table.strides[3])}"
        return f"tl.load({self.args.input(table.buffer)} + {start})"
