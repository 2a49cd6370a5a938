"""A Triton kernel as a Python module of its own: its source, its helpers' sources and the values they refer to.

What lives in torch, Triton, this package or Python itself is imported, since another environment has it too, in its own
version. The user's functions are written out, and the user's constants become literals. Names are kept where possible;
two things of the same name, from two of the user's modules, get different names.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import math
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from inductor_npu.errors import UncollectableKernelError

_IMPORTED = ("torch", "triton", "inductor_npu")
_FUTURE_ANNOTATIONS = 0x1000000  # co_flags of code under `from __future__ import annotations`
_PUBLIC = ("triton.language", "triton")  # where Triton's own things are found in every version of it

Edit = tuple[int, int, bytes]


def module_text(function: Any) -> str:
    """The text of a module that holds the JITFunction `function` under its own name, and all it needs.

    Raises UncollectableKernelError if it refers to something that has no text: an object of the user's.
    """
    return _Module(function).text()


class _Module:
    """The module that is being written; `_names` has what each of its names stands for."""

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self._names: dict[str, Any] = {"triton": sys.modules["triton"], kernel.__name__: kernel}
        self._imports: list[str] = ["import triton"]
        self._constants: list[str] = []
        self._functions: list[str] = []
        self._deferred_annotations = False

    def text(self) -> str:
        self._write(self._kernel, self._kernel.__name__)
        future = ["from __future__ import annotations"] if self._deferred_annotations else []
        head = [*future, *sorted(self._imports), *self._constants]
        return "\n".join(head) + "\n" + "".join(f"\n\n{function}" for function in self._functions)

    def _write(self, function: Any, name: str) -> None:
        """Writes `function` under `name`, after all that it refers to."""
        edits: list[Edit] = []
        tree = ast.parse(function.src)
        references = _References(function)
        references.visit(tree)
        for chain in references.found:
            value, node = self._follow(chain, references.scope)
            wanted = node.attr if isinstance(node, ast.Attribute) else chain[0].id
            edits.append((*_span(function.src, node), self._bind(value, wanted).encode()))
        definition = tree.body[0]
        assert isinstance(definition, ast.FunctionDef), "a JITFunction's source is a function"
        if name != definition.name:
            begin = len("def ") + _offset(function.src, definition.lineno, definition.col_offset)
            edits.append((begin, begin + len(definition.name.encode()), name.encode()))
        self._deferred_annotations |= bool(function.fn.__code__.co_flags & _FUTURE_ANNOTATIONS)
        self._functions.append(f"{_decorator(function)}\n{_edited(function.src, edits).rstrip()}\n")

    def _follow(self, chain: list[Any], scope: dict[str, Any]) -> tuple[Any, ast.expr]:
        """The value of `a.b.c`, and the node it belongs to: through the user's modules as far as they go."""
        value = scope[chain[0].id]
        for position, node in enumerate(chain):
            if position:
                value = getattr(value, node.attr)
            if not isinstance(value, ModuleType) or _is_imported(value.__name__):
                return value, node
        return value, chain[-1]

    def _bind(self, value: Any, wanted: str) -> str:
        """A name for `value` in the module: `wanted`, or one like it where that stands for something else."""
        name, number = wanted, 1
        while name in self._names and not _same(self._names[name], value):
            number += 1
            name = f"{wanted}_{number}"
        if name not in self._names:
            self._names[name] = value
            self._define(value, name)
        return name

    def _define(self, value: Any, name: str) -> None:
        if isinstance(value, ModuleType) and _is_imported(value.__name__):
            path = value.__name__
            self._imports.append(f"import {path}" if path == name else f"import {path} as {name}")
        elif (found := _importable(value)) is not None:
            module, attribute = found
            self._imports.append(f"from {module} import {attribute}" + ("" if attribute == name else f" as {name}"))
        elif hasattr(value, "src") and hasattr(value, "fn"):
            self._write(value, name)
        elif (literal := _literal(value)) is not None:
            self._constants.append(f"{name} = triton.language.constexpr({literal})")
        else:
            kind = f"the module {value.__name__}" if isinstance(value, ModuleType) else f"a {type(value).__name__}"
            reason = f"its name {name!r} stands for {kind}, which cannot be written down as text"
            raise UncollectableKernelError(kernel=self._kernel.__name__, reason=reason)


class _References(ast.NodeVisitor):
    """Finds each use of a name from outside of a function, as the chain of nodes a, a.b, a.b.c that begins with it."""

    def __init__(self, function: Any) -> None:
        closure = inspect.getclosurevars(function.fn).nonlocals
        self.scope = {**function.__globals__, **closure}
        self.found: list[list[Any]] = []
        self._local = {
            node.id
            for node in ast.walk(ast.parse(function.src))
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
        }

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        arguments = node.args
        named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        self._local |= {argument.arg for argument in [*named, arguments.vararg, arguments.kwarg] if argument}
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        chain: list[Any] = [node]
        while isinstance(chain[0], ast.Attribute):
            chain.insert(0, chain[0].value)
        if isinstance(chain[0], ast.Name):
            self._add(chain)
        else:
            self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        self._add([node])

    def _add(self, chain: list[Any]) -> None:
        name = chain[0].id
        # A name that is nowhere is Python's own, or in a branch that is never compiled.
        if name not in self._local and name in self.scope and not _is_builtin(name, self.scope[name]):
            self.found.append(chain)


def _is_builtin(name: str, value: Any) -> bool:
    return getattr(builtins, name, self := object()) is value and value is not self


def _is_imported(module: str) -> bool:
    """Whether another environment has `module` too.

    Modules that Inductor generates have names inside of torch's, but not files there.
    """
    package = module.split(".")[0]
    if package not in _IMPORTED:
        return package in sys.stdlib_module_names and package != "__main__"
    home, file = sys.modules[package].__file__, getattr(sys.modules.get(module), "__file__", None)
    return home is not None and file is not None and Path(file).is_relative_to(Path(home).parent)


def _importable(value: Any) -> tuple[str, str] | None:
    """The module and the name there of something that torch, Triton or Python defines; None if it is the user's."""
    name = _dtype_name(value) or getattr(value, "__name__", None)
    home = "triton.language" if _dtype_name(value) else getattr(value, "__module__", None)
    if not isinstance(name, str) or not isinstance(home, str) or not _is_imported(home):
        return None
    for module in (*(_PUBLIC if home.startswith("triton") else ()), home):
        if getattr(sys.modules.get(module), name, None) is value:
            return module, name
    return None


def _dtype_name(value: Any) -> str | None:
    """The name in triton.language of one of its dtypes."""
    language = sys.modules["triton.language"]
    if not isinstance(value, language.dtype):
        return None
    return next((name for name, other in vars(language).items() if other is value), None)


def _literal(value: Any) -> str | None:
    """Python text of a plain constant, None for anything else."""
    if isinstance(value, sys.modules["triton.language"].constexpr):
        return _literal(value.value)
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if isinstance(value, tuple):
        parts = [_literal(part) for part in value]
        return None if None in parts else f"({''.join(f'{part}, ' for part in parts)})"
    return repr(value) if value is None or isinstance(value, bool | int | float | str) else None


def _same(left: Any, right: Any) -> bool:
    """Whether one name can stand for both: the same object, or equal constants."""
    literal = _literal(left)
    return left is right or (literal is not None and literal == _literal(right))


def _decorator(function: Any) -> str:
    if type(function).__name__ == "ConstexprFunction":  # Triton 3.5 and later
        return "@triton.constexpr_function"
    return "@triton.jit(noinline=True)" if getattr(function, "noinline", False) else "@triton.jit"


def _span(text: str, node: ast.expr) -> tuple[int, int]:
    """Where `node` begins and ends in the bytes of `text`."""
    assert node.end_lineno is not None and node.end_col_offset is not None, "parsed nodes have positions"
    return _offset(text, node.lineno, node.col_offset), _offset(text, node.end_lineno, node.end_col_offset)


def _offset(text: str, line: int, column: int) -> int:
    """The position in bytes of an ast position: lines from 1, columns in bytes."""
    return sum(len(row.encode()) for row in text.splitlines(keepends=True)[: line - 1]) + column


def _edited(text: str, edits: list[Edit]) -> str:
    content = text.encode()
    for begin, end, replacement in sorted(edits, reverse=True):
        content = content[:begin] + replacement + content[end:]
    return content.decode()
