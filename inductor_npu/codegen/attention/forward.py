"""The forward kernel of attention: FlashAttention-2 (Dao, 2023), algorithm 1.

For a block of queries it goes over blocks of keys and values with the greatest score so far, the sum of the weights by
that, and the sum of weighted values: whatever the lengths, no tensor of scores is in memory.
"""

from __future__ import annotations

from torch._inductor.virtualized import V

from inductor_npu.codegen.attention.kernel import AttentionKernel
from inductor_npu.codegen.attention.problem import LEAST
from inductor_npu.codegen.templates.tensor import Tensor


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
            self.load_block("query", self.attention.query, self.of_queries(self.attention.query), "row")
            self.line(f"greatest = tl.full([ROWS], {LEAST!r}, tl.float32)")
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
        self.load_block("key", attention.key, self.of_keys(attention.key), "column")
        self.line(f"score = {self.scale(self.dot('query', 'tl.trans(key)'))}")
        self.write_modified("score", "score")
        self.write_masks("score", is_partial, has_end=True)
        self.line("largest = device_functions.larger(greatest, device_functions.largest(score, 1))")
        self.line("weight = tl.exp(score - largest[:, None])")
        self.line("faded = tl.exp(greatest - largest)")
        self.line("greatest = largest")
        self.line("total = total * faded + tl.sum(weight, 1)")
        self.load_block("value", attention.value, self.of_keys(attention.value), "column", "value_dim")
        weighted = self.dot(self.narrowed("weight", attention.value.dtype), "value")
        self.line(f"sum = sum * faded[:, None] + {weighted}")

    def _write_results(self) -> None:
        """Writes the stores. The greatest score has the weight 1, so a sum of weights is at least 1, or 0 where no
        score counts. Nothing is compared: of a few numbers, Ascend's compiler would compare one by one.
        """
        out, *numbers = self.results
        assert out is not None, "the forward kernel has a result"
        self.line("divisor = device_functions.larger(total, 1.0)[:, None]")
        if out.buffer not in V.graph.removed_buffers:  # there are programs that use the logarithms alone
            self.store_block(out, self.of_queries(out), "row", "value_dim", "(sum / divisor)")
        nothing = 'tl.where(total == 0.0, float("-inf"), greatest)' if self.attention.masks_rows else "greatest"
        for tensor, value in zip(numbers, ("greatest + tl.log(total)", nothing), strict=False):
            if tensor is None:
                continue
            address = f"{self.args.output(tensor.buffer)} + ({self.text(self.of_queries(tensor))}) + row"
            scaled = value if self.attention.log_unit == 1.0 else f"({value}) * {1 / self.attention.log_unit!r}"
            self.line(f"tl.store({address}, {scaled}, row < row_count)")
