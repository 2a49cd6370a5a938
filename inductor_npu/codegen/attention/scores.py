"""Scores of a tile: what modifies them, and masks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sympy
import torch
from torch._inductor.codegen.common import CSEVariable, IndentedBuffer
from torch._inductor.virtualized import OpsWrapper, V
from torch.utils._ordered_set import OrderedSet
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

from inductor_npu.codegen.attention.operators import ScoreIndices, ScoreOps
from inductor_npu.codegen.attention.problem import AXES, Attention
from inductor_npu.codegen.emit.tile_kernel import subscript


class Scores(ScoreIndices):
    """Writes scores of `attention`; a kernel mixes this in."""

    attention: Attention
    body: IndentedBuffer
    create_cse_var: Callable[..., CSEVariable]
    indirect_assert: Callable[..., str]
    index_to_str: Callable[[sympy.Expr], str]
    line: Callable[[str], None]

    def needs_mask(self, axis: str) -> bool:
        """Whether the last block of an axis may be longer than what is left."""
        raise NotImplementedError

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
        self.line(f"{into} = {self.whole_tile(self.computed(self.attention.score, score))}")

    def whole_tile(self, value: CSEVariable) -> str:
        """`value` as text of a tile of scores in float32."""
        text, whole = self.as_tile(value), self.shape_of(self.order)
        if tuple(map(str, value.shape or ())) != whole:
            text = f"tl.broadcast_to({text}, [{', '.join(whole)}])"
        return text if value.dtype == torch.float32 else f"{text}.to(tl.float32)"

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
        if self.attention.is_causal:
            self.line("if column0 + COLUMNS > row0:")
            with self.body.indent():
                holds = f"{self._expanded('row')} >= {self._expanded('column')}"
                self.line(f'{score} = tl.where({holds}, {score}, float("-inf"))')
        # No query that exists sees a key behind the last one, where there are as many keys as queries.
        is_covered = self.attention.is_causal and V.graph.sizevars.statically_known_leq(
            self.attention.rows, self.attention.columns
        )
        if has_end and self.needs_mask("column") and not is_covered:
            self.line("if column0 + COLUMNS > column_count:")
            with self.body.indent():
                # log(1) or log(0). Of a few indices, Ascend's compiler would compare one by one.
                self.line("exists = tl.minimum(tl.maximum(column_count - column, 0), 1).to(tl.float32)")
                self.line(f"{score} = {score} + tl.log(exists){subscript(('column',), self.order)}")

    def _expanded(self, axis: str) -> str:
        return f"{axis}{subscript((axis,), self.order)}"

    def bounds_of_index(self, expr: sympy.Expr) -> ValueRanges[Any]:
        """The least and the greatest value of `expr`, for queries and keys that exist."""
        lengths = dict(zip(AXES, self.attention.sizes(), strict=True))
        last = {axis: int(n) - 1 if getattr(n, "is_Integer", False) else int_oo for axis, n in lengths.items()}
        return bound_sympy(expr, {axis: ValueRanges(0, max(0, end)) for axis, end in last.items()})

    def check_bounds(self, expr: sympy.Expr, size: sympy.Expr, lower: bool, upper: bool) -> None:
        """Writes the check of a computed index, for queries and keys that exist. There is none where fewer lanes need
        the index than it has: those of a mask with other axes.
        """
        value = self.cse.varname_map[str(expr)]
        axes, masked = (
            tuple(axis for axis in self.order if self.block(axis) in map(str, each.shape or ()))
            for each in (value, self._load_mask or value)
        )
        if not (lower or upper) or not set(masked) <= set(axes):
            return
        lanes = self.lanes(axes, self.order)
        limit = self.index_to_str(size) if upper else None
        line = self.indirect_assert(value, "0" if lower else None, limit, None if lanes == "None" else lanes)
        self.cse.generate(self.compute, line, assignment=False, dtype=torch.int32)

    def lanes(self, axes: Sequence[str], order: Sequence[str]) -> str:
        conditions = [f"({axis}{subscript((axis,), axes)} < {axis}_count)" for axis in axes if self.needs_mask(axis)]
        if self._load_mask is not None:
            shape = tuple(map(str, self._load_mask.shape or ()))
            own = tuple(axis for axis in axes if self.block(axis) in shape)
            if len(own) == len(shape):
                text = str(self._load_mask) if self.shape_of(own) == shape else f"tl.trans({self._load_mask})"
                conditions.append(f"{text}{subscript(own, axes)}")
        return " & ".join(conditions) or "None"
