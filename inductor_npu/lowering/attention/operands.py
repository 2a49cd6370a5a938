"""Operands of kernels of attention: what they take, and how it has to lie in memory."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import sympy
import torch
from torch._inductor import ir
from torch._inductor.ops_handler import DefaultHandler
from torch._inductor.utils import sympy_index_symbol
from torch._inductor.virtualized import V
from torch.utils._sympy.symbol import SymT, symbol_is_type

from inductor_npu.codegen.attention import choice
from inductor_npu.codegen.attention.problem import AXES
from inductor_npu.codegen.index.affine import affine
from inductor_npu.codegen.index.size_terms import hint
from inductor_npu.lowering.operands import in_memory


def why_no_kernel(query: ir.TensorBox, key: ir.TensorBox, value: ir.TensorBox) -> str | None:
    """Returns why no kernel of ours takes these tensors; None if one does."""
    return choice.why_no_kernel(*((node.get_size(), node.get_dtype()) for node in (query, key, value)))


def why_slower(query: ir.TensorBox, key: ir.TensorBox) -> str | None:
    """Returns why the library is known to be faster where it is there for the same, as for all but FlexAttention; None
    if it is not known to be.
    """
    has_gradients = choice.has_gradients(V.graph.current_node)
    return choice.why_slower(hint(query.get_size()[2]), hint(key.get_size()[2]), has_gradients)


def readable(node: ir.TensorBox) -> ir.IRNode:
    """`node` in memory, contiguous along its last axis."""
    known = V.graph.sizevars.statically_known_equals
    return in_memory(node, lambda stored: known(stored.get_stride()[-1], 1))


def wanted_results(count: int) -> set[int]:
    """Which of the `count` results of the operator that is being lowered are used."""
    users = V.graph.current_node.users
    if all(user.target is operator.getitem for user in users):
        return {user.args[1] for user in users}
    return set(range(count))


class Reads(DefaultHandler):
    """An ops handler that records what is loaded, where, and which sizes it takes."""

    def __init__(self) -> None:
        self.buffers: dict[str, None] = {}
        self.indices: list[sympy.Expr] = []

    def load(self, name: str, index: sympy.Expr) -> str:
        """Records a load."""
        self.buffers[name] = None
        self.indices.append(sympy.sympify(index))
        return name

    def index_expr(self, expr: sympy.Expr, dtype: torch.dtype) -> str:
        """Records an index."""
        self.indices.append(sympy.sympify(expr))
        return str(expr)

    value_expr = index_expr

    def indirect_indexing(self, var: Any, size: Any, check: bool = True, wrap_neg: bool = True) -> sympy.Symbol:
        """A symbol for an index that is computed."""
        self.indices.append(sympy.sympify(size))
        return sympy_index_symbol(f"tmp{len(self.indices)}")

    def constant(self, value: Any, dtype: torch.dtype) -> str:
        """A constant by its value."""
        return f"constant {value}"

    def masked(self, mask: Any, body: Callable[[], Any], other: Any) -> str:
        """Records what `body` does."""
        return f"{mask}, {body()}"

    def _default(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        return name

    @classmethod
    def of(cls, functions: Iterable[Callable[[], Any]]) -> Reads:
        """What these functions of operators read."""
        recorder = cls()
        with V.set_ops_handler(recorder):
            for function in functions:
                function()
        return recorder

    @property
    def is_affine(self) -> bool:
        """Whether all indices are affine in the axes of scores."""
        return not any(affine(index, AXES).nonlinear for index in self.indices)

    def nodes(self) -> list[ir.IRNode]:
        """The buffers that are loaded."""
        return [V.graph.get_buffer(name) for name in self.buffers]

    def sizes(self) -> list[sympy.Expr]:
        """The symbols of sizes in indices."""
        found: Sequence[sympy.Symbol] = [symbol for index in self.indices for symbol in index.free_symbols]
        return [s for s in dict.fromkeys(found) if s not in AXES and not symbol_is_type(s, SymT.TMP)]
