"""Operands of kernels of attention: what they take, and how it has to lie in memory."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import sympy
import torch
from torch._inductor import ir
from torch._inductor.ops_handler import DefaultHandler
from torch._inductor.runtime.runtime_utils import next_power_of_2
from torch._inductor.utils import sympy_index_symbol
from torch._inductor.virtualized import V
from torch.utils._sympy.symbol import SymT, symbol_is_type

from inductor_npu import config, providers
from inductor_npu.codegen.attention.problem import AXES
from inductor_npu.codegen.index.affine import affine
from inductor_npu.codegen.index.size_terms import hint
from inductor_npu.lowering.operands import in_memory
from inductor_npu.tiling.attention import MOST_ROWS
from inductor_npu.tiling.cube import FLOATS

_LONGEST_HEAD = 256
_SHORT = 64  # lengths up to which a launch costs more than what is computed


def reason_against(query: ir.TensorBox, key: ir.TensorBox, value: ir.TensorBox) -> str:
    """Returns why no kernel of ours takes these tensors; empty if one does."""
    return _reason_against(*((node.get_size(), node.get_dtype()) for node in (query, key, value)))


def is_slower(query: ir.TensorBox, key: ir.TensorBox) -> bool:
    """Whether the library is known to be faster where it is there for the same, as for all but FlexAttention."""
    return config.templates == "auto" and _is_slower(hint(query.get_size()[2]), hint(key.get_size()[2]))


def _is_slower(rows: int, columns: int) -> bool:
    padded = _padded(rows) * _padded(columns)
    is_long = max(rows, columns) > _SHORT
    return is_long and padded > providers.current_provider().most_padding * rows * columns


def _padded(length: int) -> int:
    """`length` up to the end of the longest blocks that a tile may have along it."""
    block = min(MOST_ROWS, next_power_of_2(length))
    return -(-length // block) * block


def is_for_kernels(node: torch.fx.Node) -> bool:
    """Whether kernels of ours compute the attention that the call `node` of a graph is."""
    if not str(node.target).startswith("aten._scaled_dot_product_fused_attention_overrideable"):
        return False
    first = 1 if "backward" in str(node.target) else 0  # the gradient of the result is first
    operands = [each.meta["val"] for each in node.args[first : first + 3]]
    sizes = [[s if isinstance(s, int) else s.node.expr for s in operand.shape] for operand in operands]
    tensors = [(size, operand.dtype) for size, operand in zip(sizes, operands, strict=True)]
    if _reason_against(*tensors):
        return False
    lengths = [operand.shape[2] for operand in operands[:2]]
    hints = [length if isinstance(length, int) else length.node.hint for length in lengths]
    return config.templates != "auto" or None in hints or not _is_slower(*hints)


_SizesAndDtype = tuple[Sequence[Any], torch.dtype]


def _reason_against(query: _SizesAndDtype, key: _SizesAndDtype, value: _SizesAndDtype) -> str:
    chip = providers.current_target()
    if config.templates == "none":
        return "config.templates is none"
    if not chip.cube_cores:
        return f"{chip.name} has no matrix unit"
    if any(len(sizes) != 4 for sizes, _ in (query, key, value)):
        return "tensors that have not four axes"
    dtypes = {dtype for _, dtype in (query, key, value)}
    if len(dtypes) > 1 or FLOATS.get(query[1]) not in chip.float_types:
        return f"the dtypes {', '.join(sorted(map(str, dtypes)))}"
    for length in (query[0][3], value[0][3]):
        if not isinstance(length, (int, sympy.Integer)) or not 0 < length <= _LONGEST_HEAD:
            return f"heads of dimension {length}"
    if any(size == 0 for sizes, _ in (query, key) for size in sizes):
        return "an empty tensor"
    return ""


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
