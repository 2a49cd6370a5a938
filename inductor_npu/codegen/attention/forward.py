"""The forward kernel of attention: FlashAttention-2 (Dao, 2023), algorithm 1.

For a block of queries it goes over blocks of keys and values with the greatest score so far, the sum of the weights by
that, and the sum of weighted values: whatever the lengths, no tensor of scores is in memory.
"""

from __future__ import annotations

import math

import torch

from inductor_npu.codegen.attention.kernel import AttentionKernel
from inductor_npu.codegen.attention.problem import Tensor

# The greatest score so far before there is one. Not an infinity, of which differences would be NaN; scores that are
# masked with the least number of float32 have equal weights, as in eager.
_LEAST = torch.finfo(torch.float32).min


class ForwardKernel(AttentionKernel):
    """Stores the result [batch, heads, rows, E]; and, where wanted, for each query the logarithm of the sum of the
    exponentials of its scores, and its greatest score [batch, heads, rows].
    """

    def tensors_read(self) -> list[Tensor]:
        return [self.attention.query, self.attention.key, self.attention.value]

    def write_body(self) -> None:
        self.write_lengths()
        self.begin_tiles()
        with self.body.indent():
            self.write_index("row", "tile % blocks * ROWS")
            self.write_head("(tile // blocks)")
            self.load("query", self.attention.query, self.of_queries(self.attention.query), "row")
            self.line(f"greatest = tl.full([ROWS], {_LEAST!r}, tl.float32)")
            self.line("total = tl.full([ROWS], 0.0, tl.float32)")
            self.line("sum = tl.full([ROWS, VALUE], 0.0, tl.float32)")
            self._write_loop()
            self._write_results()

    def _write_loop(self) -> None:
        blocks = self.attention.blocks
        if blocks is not None:
            first, is_partial = self.begin_listed(blocks, blocks.rows, blocks.columns)
            with self.body.indent():
                self.write_index("column", first)
                self._write_block(is_partial)
            return
        end = "tl.minimum(column_count, row0 + ROWS)" if self.attention.is_causal else "column_count"
        self.line(f"for column0 in range(0, {end}, COLUMNS):")
        with self.body.indent():
            self.line(f"column = column0 + tl.arange(0, COLUMNS){self.index_cast}")
            self._write_block("")

    def _write_block(self, is_partial: str) -> None:
        attention = self.attention
        self.load("key", attention.key, self.of_keys(attention.key), "column")
        self.line(f"score = {self.scale(self.dot('query', 'tl.trans(key)'))}")
        self.write_modified("score", "score")
        self.write_masks("score", is_partial, has_end=True)
        self.line("largest = device_functions.larger(greatest, device_functions.largest(score, 1))")
        self.line("weight = tl.exp(score - largest[:, None])")
        self.line("faded = tl.exp(greatest - largest)")
        self.line("greatest = largest")
        self.line("total = total * faded + tl.sum(weight, 1)")
        self.load("value", attention.value, self.of_keys(attention.value), "column", "value_dim")
        weighted = self.dot(self.narrowed("weight", attention.value.dtype), "value")
        self.line(f"sum = sum * faded[:, None] + {weighted}")

    def _write_results(self) -> None:
        attention = self.attention
        out, *numbers = self.results
        may_be_nothing = attention.masks_rows or not _is_known_positive(attention.columns)
        divisor = "tl.where(total == 0.0, 1.0, total)" if may_be_nothing else "total"
        self.line(f"divisor = {divisor}")
        assert out is not None, "the forward kernel has a result"
        self.store(out, self.of_queries(out), "row", "value_dim", "(sum / divisor[:, None])")
        values = ("greatest + tl.log(divisor)", "greatest")
        for tensor, value in zip(numbers, values, strict=False):
            if tensor is None:
                continue
            if attention.log_unit != 1.0:
                value = f"({value}) * {1 / attention.log_unit!r}"
            if may_be_nothing:
                nothing = attention.log_of_nothing
                text = 'float("-inf")' if nothing == -math.inf else repr(nothing)
                value = f"tl.where(total == 0.0, {text}, {value})"
            address = f"{self.args.output(tensor.buffer)} + ({self.text(self.of_queries(tensor))}) + row"
            self.line(f"tl.store({address}, {value}, {'row < row_count' if self.needs_mask('row') else 'None'})")


def _is_known_positive(length: object) -> bool:
    return bool(getattr(length, "is_Integer", False)) and int(length) > 0  # type: ignore[call-overload]
