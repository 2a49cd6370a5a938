"""Kernels of a Python file, without running the file.

Only what a kernel needs of the file's top level is executed: `import` of Triton, torch and Python's own modules, plain
constants, and the `@triton.jit` functions themselves; no other decorator, no other statement.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from inductor_npu.errors import LintFileError

from .assumptions import first_config, guess
from .frontend import NotCompiled, to_ttir
from .linting import LintedKernel, lint_ttir

_JIT = frozenset({"triton.jit", "triton.runtime.jit", "triton.runtime.jit.jit", "triton.constexpr_function"})
_ASCEND_LIBDEVICE = frozenset({"triton.language.extra.ascend.libdevice", "triton.language.extra.cann.libdevice"})
_LIBDEVICE = "triton.language.extra.libdevice"
_IMPORTED = ("triton", "torch")
_PLAIN = (ast.Constant, ast.Name, ast.BinOp, ast.UnaryOp, ast.Tuple, ast.List, ast.Attribute, ast.Call, ast.Compare)
_PLAIN_PARTS = (ast.operator, ast.unaryop, ast.cmpop, ast.expr_context, ast.keyword)
_PLAIN_CALLS = frozenset(
    {"constexpr", "float", "int", "bool", "min", "max", "log", "log2", "sqrt", "exp", "next_power_of_2"}
)


@dataclass
class _TopLevel:
    """What a file's top level defines, by name: imports (one name each), assignments, jitted functions."""

    imports: dict[str, ast.stmt] = field(default_factory=dict)
    modules: dict[str, str] = field(default_factory=dict)  # the dotted name that an imported name stands for
    constants: dict[str, ast.stmt] = field(default_factory=dict)
    functions: dict[str, ast.FunctionDef] = field(default_factory=dict)
    others: set[str] = field(default_factory=set)  # functions without @triton.jit, classes


def lint_source(path: Path, text: str, given: dict[str, str]) -> list[LintedKernel]:
    """Lints each kernel of a file. Raises LintFileError if it is no Python or has no kernel."""
    try:
        tree = ast.parse(text, str(path))
    except (SyntaxError, ValueError) as error:
        raise LintFileError(file=path, reason=f"it is no Python: {error}") from error
    top = _TopLevel()
    _collect(tree.body, top)
    called = {
        name for function in top.functions.values() for name in _loaded_names(function) if name != function.name
    } & set(top.functions)
    kernels = [function for name, function in top.functions.items() if name not in called and not _returns(function)]
    if not kernels:
        raise LintFileError(file=path, reason=_why_none(tree, top))
    return [_lint_kernel(path, top, kernel, given) for kernel in kernels]


def _why_none(tree: ast.Module, top: _TopLevel) -> str:
    if top.functions:
        names = ", ".join(top.functions)
        return f"it has no kernel: all of its @triton.jit functions return values or are called by others ({names})"
    jitted = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and _is_jitted(node, top)]
    if jitted:
        names = ", ".join(node.name for node in jitted)
        return f"its @triton.jit functions ({names}) are inside of other functions: move them to the top level"
    return "it has no @triton.jit function"


def _collect(body: list[ast.stmt], top: _TopLevel) -> None:
    for node in body:
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                top.imports.setdefault(f"{name}", ast.copy_location(ast.Import([alias]), node))
                top.modules[name] = alias.name if alias.asname else name
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                name = alias.asname or alias.name
                top.imports.setdefault(name, ast.copy_location(ast.ImportFrom(node.module, [alias], node.level), node))
                top.modules[name] = f"{'.' * node.level}{node.module or ''}.{alias.name}"
        elif isinstance(node, ast.FunctionDef) and _is_jitted(node, top):
            top.functions[node.name] = node
        elif isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            top.others.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name):
                    top.constants[target.id] = node
        elif isinstance(node, ast.If | ast.Try | ast.With):
            _collect(node.body, top)
            _collect(getattr(node, "orelse", []), top)


def _is_jitted(function: ast.FunctionDef, top: _TopLevel) -> bool:
    return any(_dotted(decorator, top) in _JIT for decorator in function.decorator_list)


def _dotted(node: ast.expr, top: _TopLevel) -> str:
    """The full name of a decorator: `triton.jit` of `@jit`, `@tr.jit`, `@triton.jit(...)`."""
    node = node.func if isinstance(node, ast.Call) else node
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value, top)}.{node.attr}"
    return top.modules.get(node.id, node.id) if isinstance(node, ast.Name) else ""


def _returns(function: ast.FunctionDef) -> bool:
    return any(isinstance(node, ast.Return) and node.value is not None for node in ast.walk(function))


def _lint_kernel(path: Path, top: _TopLevel, kernel: ast.FunctionDef, given: dict[str, str]) -> LintedKernel:
    found = guess(kernel, top.functions, given, first_config(kernel))
    assumptions = list(found.assumptions)
    try:
        function = _load(path, top, kernel, assumptions)
        text = to_ttir(function, kernel.lineno, found.signature, found.constants)
    except NotCompiled as error:
        return LintedKernel(kernel.name, (), tuple(assumptions), str(error))
    return LintedKernel(kernel.name, lint_ttir(text), tuple(assumptions))


def _load(path: Path, top: _TopLevel, kernel: ast.FunctionDef, assumptions: list[str]) -> Any:
    """The kernel's JITFunction. Raises NotCompiled if it needs something that is not executed here."""
    nodes: list[ast.stmt] = []
    for name in _needed(kernel, top):
        if name in top.functions:
            nodes.append(_only_jitted(top.functions[name], top))
        elif name in top.constants:
            if not _is_plain(top.constants[name]):
                line = top.constants[name].lineno
                raise NotCompiled(
                    f"it uses {name!r} of line {line}, which is no plain constant; lint runs none but those"
                )
            nodes.append(top.constants[name])
        elif name in top.imports:
            nodes.append(_import(name, top, assumptions))
        elif name in top.others:
            raise NotCompiled(f"it uses {name!r}, which has no @triton.jit")
    module = ast.Module(sorted(set(nodes), key=lambda node: node.lineno), [])
    names: dict[str, Any] = {"__name__": f"lint of {path.name}", "__file__": str(path)}
    try:
        exec(compile(ast.fix_missing_locations(module), str(path), "exec"), names)  # the parts chosen above
    except Exception as error:
        # Triton's decorators, imports and constants raise anything; all of it is about this file.
        raise NotCompiled(f"what it needs of the file does not load: {type(error).__name__}: {error}") from error
    return names[kernel.name]


def _needed(kernel: ast.FunctionDef, top: _TopLevel) -> list[str]:
    """The names of the top level that a kernel needs, and what those need."""
    needed: list[str] = []
    waiting = [kernel.name]
    while waiting:
        name = waiting.pop()
        if name in needed:
            continue
        needed.append(name)
        node = top.functions.get(name) or top.constants.get(name)
        if node is not None:
            waiting += [other for other in _loaded_names(node) if other not in needed]
            waiting += [_root_name(decorator) for decorator in _jit_decorators(node, top)]
    return needed


def _jit_decorators(node: ast.stmt, top: _TopLevel) -> list[ast.expr]:
    if not isinstance(node, ast.FunctionDef):
        return []
    return [decorator for decorator in node.decorator_list if _dotted(decorator, top) in _JIT]


def _only_jitted(function: ast.FunctionDef, top: _TopLevel) -> ast.FunctionDef:
    copy = ast.FunctionDef(**dict(ast.iter_fields(function)))
    copy.decorator_list = _jit_decorators(function, top)
    return ast.copy_location(copy, function)


def _import(name: str, top: _TopLevel, assumptions: list[str]) -> ast.stmt:
    node, dotted = top.imports[name], top.modules[name]
    package = dotted.partition(".")[0]
    if dotted in _ASCEND_LIBDEVICE:
        assumptions.append(f"{name} is {_LIBDEVICE}, not Ascend's own")
        general = ast.ImportFrom("triton.language.extra", [ast.alias("libdevice", name)], 0)
        return ast.copy_location(general, node)
    if package in _IMPORTED or package in sys.stdlib_module_names:
        return node
    raise NotCompiled(f"it uses {name!r} of {dotted}, which lint does not import: move it into the file")


def _is_plain(statement: ast.stmt) -> bool:
    """Whether an assignment has a value that is computed of literals and constants alone."""
    value = getattr(statement, "value", None)
    if value is None:
        return False
    for node in ast.walk(value):
        if isinstance(node, ast.Call) and _last(node.func) not in _PLAIN_CALLS:
            return False
        if not isinstance(node, _PLAIN + _PLAIN_PARTS):
            return False
    return True


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _root_name(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute | ast.Call):
        node = node.value if isinstance(node, ast.Attribute) else node.func
    return getattr(node, "id", "")


def _loaded_names(node: ast.stmt) -> Iterator[str]:
    """Names that a function's body, annotations and defaults, or a constant's value, read from outside."""
    if isinstance(node, ast.FunctionDef):
        local = {name.id for name in ast.walk(node) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)}
        local |= {argument.arg for argument in ast.walk(node) if isinstance(argument, ast.arg)}
        parts: list[ast.AST] = [*node.body, node.args]
    else:
        local, parts = set(), [node.value] if isinstance(node, ast.Assign | ast.AnnAssign) and node.value else []
    for part in parts:
        for name in ast.walk(part):
            if not isinstance(name, ast.Name) or not isinstance(name.ctx, ast.Load):
                continue
            if name.id not in local and not hasattr(builtins, name.id):
                yield name.id
