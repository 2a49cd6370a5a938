"""Reads an emitted kernel: which of its values are vectors, and where it divides them.

Ascend's vector units do not divide integers: a `//` or `%` of a vector becomes a scalar loop over its elements. The
ranks of all values are inferred from the text alone, so that the generator's own idea of its values is not asked.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

# A kernel of NpuKernel begins with its tile.
_TILE = re.compile(r"^ +# tile \[", re.MULTILINE)
_DIVISIONS = (ast.FloorDiv, ast.Mod)
# Functions whose result has one dimension less than their first argument, if they are given a dimension.
_REDUCTIONS = {"sum", "max", "min", "prod", "any", "xor_sum", "argmax", "argmin", "reduce", "largest", "smallest"}
_REDUCTIONS |= {"any_true", "max2", "min2"}
# Functions that divide integers under another name.
_DIVIDING = {"div_floor_integer", "remainder_integer"}


@dataclass(frozen=True)
class Division:
    """A `//` or `%` of a vector: the line of the kernel in which it is, and whether loaded values reach it."""

    line: str
    of_data: bool


def is_tiled(text: str) -> bool:
    """Whether `text` is a kernel with one axis for each loop variable, in tiles."""
    return _TILE.search(text) is not None


def divisions(text: str) -> list[Division]:
    """The integer divisions of vectors in the last function of the module `text`, in its order."""
    tree = ast.parse(text)
    function = [node for node in tree.body if isinstance(node, ast.FunctionDef)][-1]
    lines = text.splitlines()
    outside = [node for node in function.body if not isinstance(node, ast.For)]
    # Each loop has its own axes: what is a vector in one may be walked in another.
    sections = [[*outside, node] for node in function.body if isinstance(node, ast.For)] or [outside]
    found: dict[int, Division] = {}
    for section in sections:
        ranks = _Ranks()
        while ranks.visit_all(section):  # again, for what a loop carries from one round to the next
            pass
        for node in (node for part in section for node in _in_order(part)):
            if _divides(node) and ranks.of(node) > 0:
                of_data = any(ranks.is_data(part) for part in ast.walk(node))
                found[id(node)] = Division(lines[node.lineno - 1].strip(), of_data)
    return list(found.values())


def _in_order(part: ast.stmt) -> Iterator[ast.expr]:
    expressions = [node for node in ast.walk(part) if isinstance(node, ast.expr)]
    return iter(sorted(expressions, key=lambda node: (node.lineno, node.col_offset)))


def _divides(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, _DIVISIONS)
    return isinstance(node, ast.Call) and _function(node) in _DIVIDING


class _Ranks:
    """The number of dimensions of each name, 0 for a scalar, and the names that hold loaded values."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.data: set[str] = set()

    def visit_all(self, statements: list[ast.stmt]) -> bool:
        """Whether something became known that was not before."""
        before = dict(self.names), set(self.data)
        for statement in statements:
            self._visit(statement)
        return before != (self.names, self.data)

    def is_data(self, node: ast.AST) -> bool:
        """Whether `node` is a loaded value."""
        if isinstance(node, ast.Name):
            return node.id in self.data
        return isinstance(node, ast.Call) and _function(node) == "load"

    def _visit(self, statement: ast.stmt) -> None:
        if isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign) and statement.value is not None:
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            for target in targets:
                self._assign(target, statement.value)
        elif isinstance(statement, ast.For):
            self._assign(statement.target, statement.iter)
            self.visit_all(statement.body)
        elif isinstance(statement, ast.If | ast.While | ast.With):
            self.visit_all([*statement.body, *getattr(statement, "orelse", [])])

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Tuple):
            parts = value.elts if isinstance(value, ast.Tuple) else [value] * len(target.elts)
            for one, part in zip(target.elts, parts, strict=True):
                self._assign(one, part)
            return
        assert isinstance(target, ast.Name), ast.unparse(target)
        self.names[target.id] = max(self.of(value), self.names.get(target.id, 0))
        if any(self.is_data(part) for part in ast.walk(value)):
            self.data.add(target.id)

    def of(self, node: ast.expr) -> int:
        """The rank of an expression."""
        if isinstance(node, ast.Name):
            return self.names.get(node.id, 0)
        if isinstance(node, ast.Subscript):
            return len(node.slice.elts) if isinstance(node.slice, ast.Tuple) else max(1, self.of(node.value))
        if isinstance(node, ast.Call):
            return self._of_call(node)
        parts = [part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr)]
        return max((self.of(part) for part in parts), default=0)

    def _of_call(self, call: ast.Call) -> int:
        function = _function(call)
        if function == "arange":
            return 1
        if function in ("full", "zeros"):
            return _length(call.args[0])
        if function in ("broadcast_to", "reshape", "view"):
            return _length(call.args[1])
        ranks = [self.of(argument) for argument in (*call.args, *(keyword.value for keyword in call.keywords))]
        if function == "to" and isinstance(call.func, ast.Attribute):
            ranks.append(self.of(call.func.value))
        rank = max(ranks, default=0)
        return rank - 1 if function in _REDUCTIONS and len(call.args) + len(call.keywords) > 1 else rank


def _function(call: ast.Call) -> str:
    """The last part of the name of what is called."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)


def _length(shape: ast.expr) -> int:
    assert isinstance(shape, ast.List | ast.Tuple), f"not a list of lengths: {ast.unparse(shape)}"
    return len(shape.elts)
