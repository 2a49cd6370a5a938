"""The backward kernels of attention: FlashAttention-2 (Dao, 2023), algorithm 2, as two kernels.

One goes over blocks of keys and sums gradients of keys and values over the queries; the other goes over blocks of
queries and sums their gradients over the keys. Both compute scores again, turned: [COLUMNS, ROWS], with the statistics
of queries loaded in the loop. So the two vector cores of a cube core share the keys of a tile, as Ascend's compiler
splits it by its first axis.

    weight = exp(score - log);  d_score = weight * (value @ d_out^T - delta);  delta = sum(out * d_out)
    d_value = weight @ d_out;   d_key = d_score @ query;   d_query = d_score^T @ key

The vector cores scale and add what one round of the loop gives of a gradient. Where all sums stay in the cube core, the
workspace between the cores has room for one tile, and they take turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy
import torch
from torch.utils._sympy.value_ranges import ValueRanges

from inductor_npu.codegen.attention.kernel import AttentionKernel
from inductor_npu.codegen.attention.problem import LEAST, SHARED_HEAD, GradientOfScore
from inductor_npu.codegen.templates.tensor import Tensor


class GradientKernel(AttentionKernel):
    """What both backward kernels have in common. `operands`: the gradient of the result [batch, heads, rows, E], the
    logarithms of the forward kernel and delta [batch, heads, rows], both float32.
    """

    order = ("column", "row")

    def __init__(
        self, attention: Any, results: Sequence[Tensor | None], operands: Sequence[Tensor], work: Any, tile: Any
    ) -> None:
        self.operands = tuple(operands)
        self.gradient, self.log, self.delta = operands
        super().__init__(attention, results, work, tile)

    def tensors_read(self) -> list[Tensor]:
        attention = self.attention
        return [attention.query, attention.key, attention.value, self.gradient, self.log, self.delta]

    def load_queries(self) -> None:
        """Writes the loads of a block of queries and of the gradient of its results."""
        self.load_block("query", self.attention.query, self.of_queries(self.attention.query), "row")
        self.load_block("d_out", self.gradient, self.of_queries(self.gradient), "row", "value_dim")

    def load_keys(self) -> None:
        """Writes the loads of a block of keys and of values."""
        self.load_block("key", self.attention.key, self.of_keys(self.attention.key), "column")
        self.load_block("value", self.attention.value, self.of_keys(self.attention.value), "column", "value_dim")

    def write_weights(self, is_partial: str, has_end: bool) -> None:
        """Writes the weights of a tile of scores, and the gradient of its products. Where they are summed over queries,
        those behind the last one have no weight.
        """
        attention = self.attention
        self.load_numbers("log", self.log, 'float("inf")' if self.inner == "row" else "0.0")
        self.load_numbers("delta", self.delta, "0.0")
        if attention.log_unit != 1.0:
            self.line(f"log = log * {attention.log_unit!r}")
        if attention.masks_rows:
            self.line(f"log = device_functions.larger(log, {LEAST!r})")
        self.line(f"product = {self.scale(self.dot('key', 'tl.trans(query)'))}")
        self.write_modified("product", "score")
        self.write_masks("score", is_partial, has_end)
        self.line("weight = tl.exp(score - log[None, :])")
        self.line(f"d_weight = {self.dot('value', 'tl.trans(d_out)')}")
        self.line("d_score = weight * (d_weight - delta[None, :])")
        self.write_kept()
        if attention.gradient is not None:
            self.line(f"d_score = {self.of_score(attention.gradient)}")

    def write_kept(self) -> None:
        """Writes stores of what of the gradients of scores is kept: nothing, in most kernels."""

    def of_score(self, function: GradientOfScore) -> str:
        """`function` of a tile of products and the gradients of their scores, as text."""
        shape = self.shape_of(self.order)
        weighted = self.create_cse_var("d_score", ValueRanges.unknown(), torch.float32, shape)
        return self.whole_tile(self.computed(lambda product: function(product, weighted), "product"))

    def lesser(self, value: str) -> str:
        """`value`, an operand of a product, in the dtype of the other one."""
        return self.narrowed(value, self.attention.query.dtype)


class KeyGradientKernel(GradientKernel):
    """Stores the gradients of keys [batch, shared heads, columns, D] and values [batch, shared heads, columns, E]."""

    outer, inner = "column", "row"

    @property
    def outer_heads(self) -> sympy.Expr:
        return self.attention.key.sizes[0] * self.attention.shared_heads

    def write_body(self) -> None:
        attention = self.attention
        self.write_lengths()
        self.begin_tiles()
        with self.body.indent():
            self.write_index("column", "tile % blocks * COLUMNS")
            heads = self.text(attention.shared_heads)
            self.line(f"{SHARED_HEAD} = tile // blocks % ({heads})")
            self.line(f"batch = tile // blocks // ({heads})")
            self.load_keys()
            self.line("d_key = tl.full([COLUMNS, HEAD], 0.0, tl.float32)")
            self.line("d_value = tl.full([COLUMNS, VALUE], 0.0, tl.float32)")
            self._write_loops()
            d_key, d_value = self.results
            assert d_key is not None and d_value is not None, "keys and values have gradients"
            self.store_block(d_key, self.of_keys(d_key), "column", "dim", "d_key")
            self.store_block(d_value, self.of_keys(d_value), "column", "value_dim", "d_value")

    def _write_loops(self) -> None:
        attention, blocks = self.attention, self.attention.blocks
        shared = attention.key.sizes[0] != attention.batch  # one batch of keys for all queries
        if blocks is not None:
            batches = self.text(attention.batch) if shared else "1"
            self.line(f"for part in range(0, ({self.text(self.group)}) * {batches}):")
            with self.body.indent():
                self._write_head("part", shared)
                first, is_partial = self.begin_listed(blocks, blocks.columns, blocks.rows)
                with self.body.indent():
                    self.write_index("row", first)
                    self._write_block(is_partial)
            return
        self.line("first = " + ("column0 // ROWS * ROWS" if attention.is_causal else "0"))
        self.line("steps = tl.cdiv(row_count - first, ROWS)")
        count = f"steps * ({self.text(self.group)})" + (f" * {self.text(attention.batch)}" if shared else "")
        self.line(f"for step in range(0, {count}):")
        with self.body.indent():
            self._write_head("(step // steps)", shared)
            self.write_index("row", "first + step % steps * ROWS")
            self._write_block("")

    def _write_head(self, number: str, shared: bool) -> None:
        group = self.text(self.group)
        inside = f"{number} % ({group})" if shared else number
        self.line(f"head = {SHARED_HEAD} * ({group}) + {inside}")
        if shared:
            self.line(f"batch = {number} // ({group})")

    def _write_block(self, is_partial: str) -> None:
        self.load_queries()
        self.write_weights(is_partial, has_end=False)
        self.line(f"d_value = {self.dot(self.lesser('weight'), 'd_out', 'd_value')}")
        self.line(f"d_key = d_key + {self.scale(self.dot(self.lesser('d_score'), 'query'))}")


class QueryGradientKernel(GradientKernel):
    """Stores the gradients of queries [batch, heads, rows, D] and what is kept of the gradients of scores, [batch,
    heads, rows, columns], those of a key one after the other.
    """

    def write_body(self) -> None:
        attention = self.attention
        self.write_lengths()
        self.begin_tiles()
        with self.body.indent():
            self.write_index("row", "tile % blocks * ROWS")
            self.write_head("(tile // blocks)")
            self.load_queries()
            self.line("d_query = tl.full([ROWS, HEAD], 0.0, tl.float32)")
            blocks = attention.blocks
            if blocks is not None:
                first, is_partial = self.begin_listed(blocks, blocks.rows, blocks.columns)
                with self.body.indent():
                    self.write_index("column", first)
                    self._write_block(is_partial)
            else:
                end = "tl.minimum(column_count, row0 + ROWS)" if attention.is_causal else "column_count"
                self.line(f"for column0 in range(0, {end}, COLUMNS):")
                with self.body.indent():
                    self.line(f"column = column0 + tl.arange(0, COLUMNS){self.index_cast}")
                    self._write_block("")
            d_query = self.results[0]
            assert d_query is not None, "queries have gradients"
            self.store_block(d_query, self.of_queries(d_query), "row", "dim", "d_query")

    def _write_block(self, is_partial: str) -> None:
        self.load_keys()
        self.write_weights(is_partial, has_end=True)
        turned = f"tl.trans({self.lesser('d_score')})"
        self.line(f"d_query = d_query + {self.scale(self.dot(turned, 'key'))}")

    def write_kept(self) -> None:
        """Writes the stores of what is kept of a tile of scores. Memory of tiles that are not visited has zeros."""
        for function, tensor in zip(self.attention.kept, self.results[1:], strict=True):
            assert tensor is not None, "memory for all that is kept"
            start = self.text(self.of_queries(tensor))
            places = f"column[:, None] * {self.factor(tensor.strides[3])} + row[None, :]"
            address = f"{self.args.output(tensor.buffer)} + ({start}) + ({places})"
            value = self.narrowed(self.of_score(function), tensor.dtype)
            self.line(f"tl.store({address}, {value}, (column[:, None] < column_count) & (row[None, :] < row_count))")
