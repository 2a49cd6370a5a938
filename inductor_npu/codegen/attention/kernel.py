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

from collections.abc import Callable, Sequence
from typing import Any

import sympy
import torch
from torch._inductor.codegen.common import CSEVariable, IndentedBuffer
from torch._inductor.codegen.simd_kernel_features import SIMDKernelFeatures
from torch._inductor.codegen.triton import triton_type
from torch._inductor.runtime.runtime_utils import next_power_of_2
from torch._inductor.virtualized import OpsWrapper, V
from torch.utils._ordered_set import OrderedSet
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

from inductor_npu import providers
from inductor_npu.codegen.annotations.launch_comments import write_traffic
from inductor_npu.codegen.attention.operators import ScoreIndices, ScoreOps, ScoreOverrides
from inductor_npu.codegen.attention.problem import AXES, BATCH, HEAD, SHARED_HEAD, Attention, BlockLists, Tensor
from inductor_npu.codegen.emit.emitted import EmittedKernel, Tiled
from inductor_npu.codegen.emit.tile_kernel import subscript
from inductor_npu.codegen.index.size_terms import hint
from inductor_npu.tiling import attention as tiling
from inductor_npu.tiling.attention import AttentionSummary, AttentionTile

_KIB = 1024
_LONGEST_INT32 = torch.iinfo(torch.int32).max


class AttentionKernel(ScoreIndices, EmittedKernel):
    """A kernel of `attention` with tiles of `tile`; `results` are the tensors that it stores."""

    overrides = ScoreOverrides
    # The axis over whose blocks programs go, and the one in the loop inside.
    outer, inner = "row", "column"
    # The axes of a tile of scores.
    order: tuple[str, str] = ("row", "column")

    def __init__(
        self, attention: Attention, results: Sequence[Tensor | None], work: AttentionSummary, tile: AttentionTile
    ) -> None:
        features = SIMDKernelFeatures([], sympy.S.One)
        super().__init__({}, features=features, override_persistent_reduction=False, override_cooperative_reduction=False)
        self.attention, self.work, self.tile = attention, work, tile
        self.results = tuple(results)
        self.mutations = OrderedSet([result.buffer for result in self.results[1:] if result is not None])
        self.body = IndentedBuffer()
        self._index_dtype = torch.int32 if self._fits_int32() else torch.int64

    # -- what Inductor's kernel asks ----------------------------------------------------------------------------------

    def construct_range_trees(self, *args: Any, **kwargs: Any) -> list[Any]:
        """None: the axes are written by hand."""
        return []

    @property
    def cores(self) -> int:
        return providers.current_target().cube_cores

    def tiled(self) -> list[Tiled]:
        length, block = self._count(self.outer)
        return [[(self.text(self.outer_heads), None), (self.text(length), block)]]

    def codegen_body(self) -> None:
        """Nothing: the body is written before the arguments are asked for."""

    def codegen_kernel(self, name: str | None = None) -> str:
        if self.source is None:
            with V.set_kernel_handler(self):
                for line in self.header():
                    self.body.writeline(f"# {line}")
                self.write_body()
        return super().codegen_kernel(name)

    def memory_traffic(self) -> str:
        """Each tensor is counted once; blocks of keys and values are loaded for each block of queries."""
        read = self.tensors_read()
        written = [result for result in self.results if result is not None]
        return write_traffic(_bytes_of(read), _bytes_of(written))

    # -- what each kernel says ----------------------------------------------------------------------------------------

    def write_body(self) -> None:
        """Writes the statements of the kernel."""
        raise NotImplementedError

    def tensors_read(self) -> list[Tensor]:
        """The tensors that the kernel reads, without those that only modify scores."""
        raise NotImplementedError

    @property
    def outer_heads(self) -> sympy.Expr:
        """How many heads, of all batches, have blocks of their own."""
        return self.attention.batch * self.attention.heads

    # -- sizes --------------------------------------------------------------------------------------------------------

    def text(self, size: Any) -> str:
        """An expression of sizes as text."""
        return self.index_to_str(sympy.sympify(size))

    def _count(self, axis: str) -> tuple[sympy.Expr, int]:
        """The length of an axis, and of its block."""
        if axis == "row":
            return self.attention.rows, self.tile.rows
        return self.attention.columns, self.tile.columns

    def needs_mask(self, axis: str) -> bool:
        """Whether the last block of an axis may be longer than what is left."""
        length, block = self._count(axis)
        return not V.graph.sizevars.statically_known_multiple_of(length, block)

    def _fits_int32(self) -> bool:
        tensors = [*self.tensors_read(), *(result for result in self.results if result is not None)]
        ends = [t.offset + sum((n - 1) * s for n, s in zip(t.sizes, t.strides, strict=True)) for t in tensors]
        if not all(hint(end) <= _LONGEST_INT32 for end in ends):
            return False
        for end in ends:
            V.graph.sizevars.check_leq(end, _LONGEST_INT32)
        return True

    # -- text ---------------------------------------------------------------------------------------------------------

    def header(self) -> list[str]:
        """The lines of the header, without `#`."""
        chip, work, tile = providers.current_target(), self.work, self.tile
        heads, (length, block) = self.outer_heads, self._count(self.outer)
        dynamic = sympy.sympify(heads * length).free_symbols
        tiles = int(heads) * -(-int(length) // block) if not dynamic else 0
        programs = f"{tiles} tiles, on {min(tiles, self.cores)} of {self.cores} programs"
        return [
            f"attention, {work.which.value}: rows {tile.rows} of {self.attention.rows}, "
            f"columns {tile.columns} of {self.attention.columns}, heads of {work.head} and {work.value_head}",
            f"{tiling.l0c_bytes(work, tile) // _KIB} of {chip.l0c // _KIB} KiB of L0C, "
            f"{tiling.l1_bytes(work, tile) // _KIB} of {chip.l1 // _KIB} KiB of L1, "
            f"about {tiling.vector_bytes(work, tile) // _KIB} of {chip.unified_buffer // _KIB} KiB of Unified Buffer",
            *([] if dynamic else [programs]),
        ]

    def line(self, text: str) -> None:
        """Writes a statement."""
        self.body.writeline(text)

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

    def place(self, tensor: Tensor, start: sympy.Expr, axis: str, dim: str, pointer: str) -> tuple[str, str]:
        """The address of the block of `tensor` along `axis` with all of its `dim`, and the mask of what exists."""
        address = f"{pointer} + ({self.text(start)}) + ({axis}[:, None] * {_factor(self.text(tensor.strides[2]))} + {dim}[None, :])"
        conditions = [f"({axis}[:, None] < {axis}_count)"] if self.needs_mask(axis) else []
        length = int(tensor.sizes[3])
        if length != next_power_of_2(length):
            conditions.append(f"({dim}[None, :] < {length})")
        return address, " & ".join(conditions) or "None"

    def load(self, target: str, tensor: Tensor, start: sympy.Expr, axis: str, dim: str = "dim") -> None:
        """Writes the load of a block of `tensor`, with zeros where it ends."""
        address, mask = self.place(tensor, start, axis, dim, self.args.input(tensor.buffer))
        self.line(f"{target} = tl.load({address}, {mask}{', other=0.0' if mask != 'None' else ''})")

    def store(self, tensor: Tensor, start: sympy.Expr, axis: str, dim: str, value: str) -> None:
        """Writes the store of a block."""
        address, mask = self.place(tensor, start, axis, dim, self.args.output(tensor.buffer))
        self.line(f"tl.store({address}, {self.narrowed(value, tensor.dtype)}, {mask})")

    def load_numbers(self, target: str, tensor: Tensor, other: str) -> None:
        """Writes the load of one number for each query of the block."""
        address = f"{self.args.input(tensor.buffer)} + ({self.text(self.of_queries(tensor))}) + row * {_factor(self.text(tensor.strides[2]))}"
        mask = f"row < row_count, other={other}" if self.needs_mask("row") else "None"
        self.line(f"{target} = tl.load({address}, {mask})")

    def narrowed(self, value: str, dtype: torch.dtype) -> str:
        """`value`, which is float32, in `dtype`."""
        return value if dtype == torch.float32 else f"{value}.to({triton_type(dtype)})"

    def dot(self, left: str, right: str, total: str = "") -> str:
        """The product of two tiles, added to `total`."""
        precision = ', input_precision="ieee"' if self.attention.query.dtype == torch.float32 else ""
        return f"tl.dot({left}, {right}{', ' + total if total else ''}{precision})"

    def scale(self, value: str) -> str:
        """`value` times the scale of products."""
        scale = self.attention.scale
        text = repr(float(scale)) if not getattr(scale, "free_symbols", ()) else self.text(scale)
        return value if text == "1.0" else f"{value} * {text}"

    # -- scores -------------------------------------------------------------------------------------------------------

    def computed(self, function: Callable[[CSEVariable], Any], score: str) -> CSEVariable:
        """Writes the operators of `function` on the tile `score`; returns their result."""
        self.cse.invalidate(OrderedSet())
        self.compute = IndentedBuffer()
        with V.set_ops_handler(ScoreOps(self, self.order)):
            tile = self.create_cse_var(score, ValueRanges.unknown(), torch.float32, self.shape_of(self.order))
            result = OpsWrapper._unwrap(function(tile))
        self.body.splice(self.compute)
        return result

    def as_tile(self, value: CSEVariable) -> str:
        """`value` as text that broadcasts to a tile of scores."""
        shape = tuple(map(str, value.shape or ()))
        own = tuple(axis for axis in self.order if self.block(axis) in shape)
        return f"{value}{subscript(own, self.order)}"

    def write_modified(self, score: str, into: str) -> None:
        """Writes what the tile `score` becomes as `into`."""
        if self.attention.score is None:
            if into != score:
                self.line(f"{into} = {score}")
            return
        value = self.computed(self.attention.score, score)
        text = self.as_tile(value)
        shape = tuple(map(str, value.shape or ()))
        if shape != self.shape_of(self.order):
            text = f"tl.broadcast_to({text}, [{', '.join(self.shape_of(self.order))}])"
        self.line(f"{into} = {text}{'' if value.dtype == torch.float32 else '.to(tl.float32)'}")

    def write_masks(self, score: str, is_partial: str, has_end: bool) -> None:
        """Writes the masks of `score`: only blocks that are not whole are compared. `is_partial` is the text of whether
        the mask of scores has to be asked; `has_end`: whether scores of keys behind the last one are excluded.
        """
        if self.attention.mask is not None:
            if is_partial:
                self.line(f"if {is_partial}:")
            with self.body.indent(offset=int(bool(is_partial))):
                holds = self.as_tile(self.computed(self.attention.mask, score))
                self.line(f'{score} = tl.where({holds}, {score}, float("-inf"))')
        conditions, ends = [], []
        if self.attention.is_causal:
            conditions.append(f"({self._expanded('row')} >= {self._expanded('column')})")
            ends.append("row0")
        # No query that exists sees a key behind the last one, where there are as many keys as queries.
        is_covered = self.attention.is_causal and V.graph.sizevars.statically_known_leq(
            self.attention.rows, self.attention.columns
        )
        if has_end and self.needs_mask("column") and not is_covered:
            conditions.append(f"({self._expanded('column')} < column_count)")
            ends.append("column_count")
        if conditions:
            first = ends[0] if len(ends) == 1 else f"tl.minimum({', '.join(ends)})"
            self.line(f"if column0 + COLUMNS > {first}:")
            with self.body.indent():
                self.line(f'{score} = tl.where({" & ".join(conditions)}, {score}, float("-inf"))')

    def _expanded(self, axis: str) -> str:
        return f"{axis}{subscript((axis,), self.order)}"

    def bounds_of_index(self, expr: sympy.Expr) -> ValueRanges[Any]:
        """The least and the greatest value of `expr`, for queries and keys that exist."""
        lengths = dict(zip(AXES, self.attention.sizes(), strict=True))
        last = {axis: int(n) - 1 if getattr(n, "is_Integer", False) else int_oo for axis, n in lengths.items()}
        return bound_sympy(expr, {axis: ValueRanges(0, max(0, end)) for axis, end in last.items()})

    def lanes(self, axes: Sequence[str], order: Sequence[str]) -> str:
        conditions = [
            f"({axis}{subscript((axis,), axes)} < {axis}_count)" for axis in axes if self.needs_mask(axis)
        ]
        if self._load_mask is not None:
            shape = tuple(map(str, self._load_mask.shape or ()))
            own = tuple(axis for axis in axes if self.block(axis) in shape)
            if len(own) == len(shape):
                text = str(self._load_mask) if self.shape_of(own) == shape else f"tl.trans({self._load_mask})"
                conditions.append(f"{text}{subscript(own, axes)}")
        return " & ".join(conditions) or "None"

    # -- blocks of scores that are computed -------------------------------------------------------------------------

    def begin_listed(self, blocks: BlockLists, outer_block: int, inner_block: int) -> tuple[str, str]:
        """Writes the head of the loop over the blocks that the lists name, for the present block of the outer axis.
        Returns the text of where the inner block begins, and of whether its mask has to be asked; write it inside.
        """
        inner, entries = self.inner, self.text(blocks.indices.sizes[3])
        self.line(f"listed_for = {self.outer}0 // {outer_block}")
        for name, tensor in (("partial", blocks.counts), ("full", blocks.full_counts)):
            self.line(f"{name}_count = {self._entry(tensor, 'listed_for') if tensor is not None else 0}")
        self.line(f"parts = tl.cdiv(tl.minimum({inner}_count, {inner_block}), {self.block(inner)})")
        self.line("for step in range(0, (partial_count + full_count) * parts):")
        with self.body.indent():
            self.line("entry = step // parts")
            self.line("is_partial = entry < partial_count")
            row = f"listed_for * {_factor(self.text(blocks.indices.strides[2]))}"
            self.line(f"listed = {self._entry(blocks.indices, f'{row} + tl.minimum(entry, {entries} - 1)', whole=True)}")
            if blocks.full_indices is not None:
                row = f"listed_for * {_factor(self.text(blocks.full_indices.strides[2]))}"
                place = f"{row} + tl.maximum(entry - partial_count, 0)"
                self.line(f"listed = tl.where(is_partial, listed, {self._entry(blocks.full_indices, place, whole=True)})")
        first = f"listed{self.index_cast} * {inner_block} + step % parts * {self.block(inner)}"
        return first, "is_partial" if blocks.full_indices is not None else ""

    def _entry(self, tensor: Tensor, place: str, whole: bool = False) -> str:
        step = "" if whole else f" * {_factor(self.text(tensor.strides[2]))}"
        return f"tl.load({self.args.input(tensor.buffer)} + ({self.text(tensor.start(BATCH, HEAD))}) + {place}{step})"


def _factor(text: str) -> str:
    """`text` as a factor."""
    return text if text.isidentifier() or text.isdigit() else f"({text})"


def _bytes_of(tensors: Sequence[Tensor]) -> int:
    return sum(hint(sympy.prod(tensor.sizes)) * tensor.dtype.itemsize for tensor in tensors)
