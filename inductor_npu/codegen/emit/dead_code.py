"""Dead code elimination and constant propagation on a kernel's text: removes unused values, and names for plain
numbers.

It works on finished text, statement by statement. Only then is it known what a line of the generator becomes: a load
may get its masked-lane value later, a store may be dropped. Results that depend on a text alone are cached, because
layers of a model have equal kernels.
"""

from __future__ import annotations

import ast
import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from inductor_npu.tiling.limits import EXACT_IN_FLOAT32

DtypeOf = Callable[[str], "torch.dtype | None"]

TEXTS = 128  # texts whose analysis is cached

# The modules that generated code calls. Only their functions with one of these words have side effects.
_MODULES = {"tl", "libdevice", "tl_math", "triton_helpers", "device_functions"}
_EFFECTS = ("store", "atomic", "assert", "print", "barrier", "asm", "lookback")
_FUNCTIONS = {"range", "float", "int", "bool", "min", "max"}
_METHODS = {"to"}

# Dtypes that Triton gives a literal if the other operand has that dtype.
_LITERAL_TYPES = {"tl.float32": torch.float32, "tl.int32": torch.int32}
_SMALLEST_FLOAT32 = 2.0**-126
_LARGEST_FLOAT32 = (2 - 2.0**-23) * 2.0**127


def without_dead_code(text: str, dtype_of: DtypeOf) -> str:
    """Returns `text`, the statements of a kernel, without unused statements and without names for numbers.

    `dtype_of` gives the dtype of a named value, None if it is unknown. Results stay bitwise the same.
    """
    return without_unused(with_literals(text, dtype_of))


# -- unused values ----------------------------------------------------------------------------------------------------


@functools.lru_cache(TEXTS)
def without_unused(text: str) -> str:
    """Returns `text` without assignments whose value reaches no store, atomic operation or assertion, and without loops
    that do nothing else.

    A value that only feeds itself, such as the accumulator of a loop, is unused, too.
    """
    tree = ast.parse(text)
    unused, _ = _unused(tree.body, frozenset())
    lines = text.splitlines()
    for node in unused:
        first, last = node.lineno - 1, node.end_lineno or node.lineno
        lines[first:last] = [""] * (last - first)
    return "".join(f"{line}\n" for line in lines if line.strip())


def _unused(nodes: Sequence[ast.stmt], after: frozenset[str]) -> tuple[list[ast.stmt], frozenset[str]]:
    """The statements among `nodes` that are unused if the names `after` are live after them, and the names that are
    live before them.
    """
    unused: list[ast.stmt] = []
    for node in reversed(nodes):
        if isinstance(node, ast.For) and not node.orelse:
            # What is live at the start of an iteration is live at the end of the one before.
            needed = after
            while True:
                inside, before = _unused(node.body, needed)
                if before <= needed:
                    break
                needed |= before
            if all(part in inside for part in node.body) and not has_effect(node.iter):
                unused.append(node)
            else:
                unused += inside
                after |= (before - _names(node.target)) | _names(node.iter)
            continue
        if isinstance(node, ast.If) and not node.orelse:
            inside, before = _unused(node.body, after)
            if all(part in inside for part in node.body) and not has_effect(node.test):
                unused.append(node)
            else:
                unused += inside
                after |= before | _names(node.test)
            continue
        targets, value = _assignment(node)
        if value is None or has_effect(value):
            after |= _names(node)
        elif targets & after:
            after = (after - targets) | _names(value)
        else:
            unused.append(node)
    return unused, after


def _assignment(node: ast.stmt) -> tuple[frozenset[str], ast.expr | None]:
    """The names that a statement assigns, and the expression; None if it is not a plain assignment of names."""
    if isinstance(node, ast.Assign) and all(isinstance(target, (ast.Name, ast.Tuple)) for target in node.targets):
        return frozenset(name for target in node.targets for name in _names(target)), node.value
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return frozenset({node.target.id}), node.value
    return frozenset(), None


def _names(node: ast.AST) -> frozenset[str]:
    return frozenset(part.id for part in ast.walk(node) if isinstance(part, ast.Name))


def has_effect(expression: ast.AST) -> bool:
    """Whether evaluating `expression` may have a side effect; reading memory is none."""
    return any(isinstance(node, ast.Call) and not _is_pure(node.func) for node in ast.walk(expression))


def _is_pure(function: ast.expr) -> bool:
    if isinstance(function, ast.Name):
        return function.id in _FUNCTIONS
    if not isinstance(function, ast.Attribute):
        return False
    if dotted(function.value).partition(".")[0] in _MODULES:
        return not any(word in function.attr for word in _EFFECTS)
    return function.attr in _METHODS


def dotted(node: ast.expr) -> str:
    """Returns `a.b.c` if an expression is such a name, else an empty string."""
    if isinstance(node, ast.Name):
        return node.id
    owner = dotted(node.value) if isinstance(node, ast.Attribute) else ""
    return f"{owner}.{node.attr}" if owner and isinstance(node, ast.Attribute) else ""


# -- numbers ----------------------------------------------------------------------------------------------------------


def with_literals(text: str, dtype_of: DtypeOf) -> str:
    """Returns `text` with a literal in place of each name of `tl.full([], number, dtype)`, where Triton gives the
    literal the same dtype.

    That is so in arithmetic, comparisons and selections whose other operand is known to have that dtype.
    """
    edits = [edit for edit in _possible_edits(text) if dtype_of(edit.beside) == edit.dtype]
    lines = text.splitlines(keepends=True)
    for edit in sorted(edits, key=lambda edit: (edit.line, edit.first), reverse=True):
        line = lines[edit.line].encode()
        lines[edit.line] = (line[: edit.first] + edit.literal.encode() + line[edit.end :]).decode()
    return "".join(lines)


@dataclass(frozen=True)
class _Edit:
    """Bytes `first` to `end` of a line (from 0) may become `literal` if `beside` has the dtype."""

    line: int
    first: int
    end: int
    literal: str
    beside: str
    dtype: torch.dtype


@functools.lru_cache(TEXTS)
def _possible_edits(text: str) -> tuple[_Edit, ...]:
    """The names in `text` that a literal can replace, each with the value whose dtype decides it."""
    if "tl.full(" not in text:
        return ()
    tree = ast.parse(text)
    constants = _constants(tree)
    edits: list[_Edit] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub, ast.Mult, ast.Div)):
            pair = (node.left, node.right)
        elif isinstance(node, ast.Compare) and len(node.comparators) == 1:
            pair = (node.left, node.comparators[0])
        elif isinstance(node, ast.Call) and dotted(node.func) == "tl.where" and len(node.args) == 3:
            pair = (node.args[1], node.args[2])
        else:
            continue
        for operand, other in (pair, pair[::-1]):
            constant = constants.get(operand.id) if isinstance(operand, ast.Name) else None
            beside = _value_name(other)
            if constant is None or beside is None or beside in constants:
                continue
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and constant.dtype != torch.float32:
                continue
            end = operand.end_col_offset
            assert end is not None, "parsed from text"
            edits.append(_Edit(operand.lineno - 1, operand.col_offset, end, constant.text, beside, constant.dtype))
    return tuple(edits)


@dataclass(frozen=True)
class _Constant:
    text: str
    dtype: torch.dtype


def _constants(tree: ast.Module) -> dict[str, _Constant]:
    """The names that stand for the same number throughout."""
    found: dict[str, _Constant | None] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            found[name] = _constant(node.value) if name not in found else None
        elif isinstance(node, (ast.AugAssign, ast.AnnAssign, ast.For)):
            found.update(dict.fromkeys(_names(node.target)))
    return {name: constant for name, constant in found.items() if constant is not None}


def _constant(value: ast.expr) -> _Constant | None:
    """The number of `tl.full([], number, dtype)` and of `tl.full([], integer, tl.int32).to(tl.float32)`."""
    if not isinstance(value, ast.Call) or value.keywords:
        return None
    if isinstance(value.func, ast.Attribute) and value.func.attr == "to" and len(value.args) == 1:
        whole = _constant(value.func.value)
        if whole is None or whole.dtype != torch.int32 or ast.unparse(value.args[0]) != "tl.float32":
            return None
        return _Constant(f"{whole.text}.0", torch.float32) if abs(int(whole.text)) <= EXACT_IN_FLOAT32 else None
    if dotted(value.func) != "tl.full" or len(value.args) != 3 or ast.unparse(value.args[0]) != "[]":
        return None
    dtype = _LITERAL_TYPES.get(ast.unparse(value.args[2]))
    number = _number(value.args[1])
    if dtype is None or number is None:
        return None
    if dtype == torch.int32:
        fits = isinstance(number, int) and -(1 << 31) <= number < 1 << 31
    else:
        fits = _is_normal_float32(number)
    return _Constant(ast.unparse(value.args[1]), dtype) if fits else None


def _number(node: ast.expr) -> int | float | None:
    """A literal number, not a name such as float("inf")."""
    negative = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
    literal = node.operand if isinstance(node, ast.UnaryOp) and negative else node
    value = literal.value if isinstance(literal, ast.Constant) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return -value if negative else value


def _is_normal_float32(number: int | float) -> bool:
    """Whether Triton takes a literal for float32. It does not if float32 cannot hold it; and it takes -0.0 for 0."""
    if not isinstance(number, float):
        return False
    if number == 0.0:
        return math.copysign(1.0, number) > 0
    return _SMALLEST_FLOAT32 <= abs(number) <= _LARGEST_FLOAT32


def _value_name(node: ast.expr) -> str | None:
    """The name in `name` and `name[:, None]`."""
    if isinstance(node, ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None
