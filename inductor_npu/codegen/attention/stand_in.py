"""The eager stand-in of a kernel of attention: what it computes, as torch operators on all scores at once.

It has the arguments of the kernel, and runs where the kernel does not compile; accuracy mode compares the two.
"""

from __future__ import annotations

from typing import Any

from torch._inductor.virtualized import OpsWrapper, V

from inductor_npu.codegen.attention.problem import AXES, Attention, BlockLists
from inductor_npu.codegen.fallback.eager_kernel import EagerWriter
from inductor_npu.codegen.templates.kernel import eager_view
from inductor_npu.codegen.templates.tensor import Tensor
from inductor_npu.tiling.attention import Pass


class StandIn:
    """Writes the stand-in of a kernel of `attention` with `writer`. `results` are the tensors that it stores,
    `operands` those that only a gradient has: of the result, logarithms, delta.
    """

    def __init__(
        self,
        writer: EagerWriter,
        attention: Attention,
        results: tuple[Tensor | None, ...],
        operands: tuple[Tensor, ...],
    ) -> None:
        self.writer, self.attention, self.results, self.operands = writer, attention, results, operands

    def write(self, which: Pass) -> str:
        """Returns the source of the function."""
        self._line("from inductor_npu.runtime import eager_attention")
        attention = self.attention
        for name, tensor in (("query", attention.query), ("key", attention.key), ("value", attention.value)):
            self._line(f"{name} = {self._view(tensor)}")
        for position, (axis, length) in enumerate(zip(AXES, attention.sizes(), strict=True)):
            self._line(f"{axis} = axis({self._size(length)}, {position}, 4, device)")
        self._line(f"product = eager_attention.products(query, key, {self._scale})")
        self._write_scores(which is Pass.KEYS_AND_VALUES)
        if which is Pass.FORWARD:
            self._line("results = eager_attention.forward(score, value)")
        else:
            self._write_gradients(which)
        self._write_stores(which)
        return self.writer.finished()

    def _line(self, text: str) -> None:
        self.writer.lines.append(text)

    def _size(self, size: Any) -> str:
        return self.writer.index_text(size)

    @property
    def _scale(self) -> str:
        scale = self.attention.scale
        return self._size(scale) if getattr(scale, "free_symbols", ()) else repr(float(scale))

    def _view(self, tensor: Tensor) -> str:
        return eager_view(self.writer, tensor)

    def _computed(self, function: Any, *values: str) -> str:
        with V.set_ops_handler(self.writer), V.set_kernel_handler(self.writer.kernel):
            return str(OpsWrapper._unwrap(function(*values)))

    def _write_scores(self, by_column: bool) -> None:
        """Writes `score`, which is minus infinity where it does not count."""
        attention = self.attention
        score = "product" if attention.score is None else self._computed(attention.score, "product")
        self._line(f"score = ({score}).float().expand(product.shape)")
        conditions = []
        if attention.is_causal:
            conditions.append("(row >= column)")
        holds = None if attention.mask is None else self._computed(attention.mask, "score")
        if attention.blocks is not None:
            partial, full = self._lists(attention.blocks)
            blocks = (attention.blocks.rows, attention.blocks.columns)
            self._line(f"named, whole = eager_attention.listed(score, {partial}, {full}, {blocks}, {by_column})")
            conditions.append("named")
            holds = None if holds is None else f"({holds} | whole)"
        if holds is not None:
            conditions.append(holds)
        if conditions:
            self._line(f"score = torch.where({' & '.join(conditions)}, score, -inf)")

    def _lists(self, blocks: BlockLists) -> tuple[str, str]:
        pairs = ((blocks.counts, blocks.indices), (blocks.full_counts, blocks.full_indices))
        partial, full = (
            f"({', '.join('None' if each is None else self._view(each) for each in pair)})" for pair in pairs
        )
        return partial, full

    def _write_gradients(self, which: Pass) -> None:
        attention = self.attention
        for name, tensor in zip(("d_out", "log", "delta"), self.operands, strict=True):
            self._line(f"{name} = {self._view(tensor)}")
        self._line(
            f"d_score, d_value = eager_attention.gradients(score, value, d_out, log * {attention.log_unit!r}, delta)"
        )
        d_product = "d_score"
        if attention.gradient is not None:
            d_product = self._computed(attention.gradient, "product", "d_score")
        self._line(f"d_product = ({d_product}).float().expand(product.shape)")
        if which is Pass.KEYS_AND_VALUES:
            self._line(f"results = [eager_attention.key_gradient(d_product, query, key, {self._scale}), d_value]")
            return
        self._line(f"results = [eager_attention.query_gradient(d_product, key, {self._scale})]")
        for function in attention.kept:
            self._line(f"results.append({self._computed(function, 'product', 'd_score')})")

    def _write_stores(self, which: Pass) -> None:
        for place, tensor in enumerate(self.results):
            if tensor is None:
                continue
            # Logarithms and greatest scores follow the first result of the forward kernel.
            unit = "" if which is not Pass.FORWARD or place == 0 else f" / {self.attention.log_unit!r}"
            self._line(f"{self._view(tensor)}.copy_(results[{place}]{unit})")
