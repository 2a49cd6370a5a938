"""The house rules that no ready-made linter knows. Run by `make lint`; prints `file:line: rule`, exits 1 if it found
anything.

- Nobody changes what is torch's or Triton's, but inductor_npu/setup/compat.py, and where the table of
  docs/development/patches.md says so: each touch has its reason there.
- No exception disappears: an `except` block does something, and nothing catches everything in silence.
- A file has at most 600 lines; a function at most 60 and a class at most 300, unless the docstring says "Long, as ...".
- No path of somebody's machine is committed.
- Every test checks something.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOREIGN = ("torch", "triton")
MAY_PATCH = "inductor_npu/setup/compat.py"
SETTINGS = {"knobs"}  # triton.knobs is Triton's public place for settings
# Each line of its second table allows one file, by its name, one form of touch.
TABLE = "docs/development/patches.md"
ROW = re.compile(r"^\| `([\w.]+\.py)` \| `([^`]+)` \|", re.MULTILINE)
# What changes a list, a set or a table, and how a class or an object is changed behind its back.
CHANGES = {"append", "extend", "insert", "remove", "add", "discard", "update", "setdefault", "pop", "popitem", "clear"}
INSIDES = {"__dict__", "__class__", "__code__", "__bases__", "cell_contents"}
VARIABLES = ("TORCH", "TRITON", "PYTORCH")
OF_PYTHON = ("sys.meta_path", "sys.path_hooks")
OURS = ("V.kernel",)  # the kernel that is being written is an object of ours
ALWAYS = {
    "object.__setattr__",
    "object.__delattr__",
    "type.__setattr__",
    "gc.disable",
    "gc.enable",
    "gc.freeze",
    "gc.unfreeze",
    "gc.set_threshold",
}
# Registrations and handlers that are official, and hold for all devices or for all of a process.
GLOBAL = {
    "register_lowering",
    "add_layout_constraint",
    "set_choices_handler",
    "set_interpreter_handler",
    "set_graph_handler",
    "assume_constant_result",
    "substitute_in_graph",
    "addFilter",
    "addHandler",
}
FILE_LINES = 600
FUNCTION_LINES = 60
CLASS_LINES = 300
REASON = re.compile(r"\bLong, (as|because) ")  # in the docstring of what has more
# Calls that fail a test by raising: `synchronize` brings up what went wrong on the device.
CHECKS = {"raises", "warns", "fail", "verify", "synchronize"}
TEXT = {".py", ".md", ".toml", ".txt", ".cpp", ".h", ".yml", ".yaml", ".sh", ""}
# Spelled in two parts, so that this line does not find itself.
MACHINE_PATH = re.compile(r"(?<![\w.~])/(?:" + r"work|root|home/\w+|opt|tmp" + r")/\w")

Finding = tuple[int, str]


def main() -> int:
    """Checks every file that git tracks, and those that it would."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    files = sorted({ROOT / name for name in listed.stdout.splitlines()})
    files = [path for path in files if path.is_file() and path.suffix in TEXT]
    trees = {path: ast.parse(path.read_text()) for path in files if path.suffix == ".py"}
    checking = _functions_that_check([tree for path, tree in trees.items() if _relative(path).startswith("tests/")])

    findings = 0
    unused = _allowed()
    for path in files:
        for line, message in sorted(_check(path, trees.get(path), checking)):
            print(f"{_relative(path)}:{line}: {message}")
            findings += 1
        if _relative(path).startswith("inductor_npu/") and path in trees:
            unused -= {(path.name, form) for _, form in _touches(path.read_text(), trees[path])}
    for name, form in sorted(unused):
        print(f"{TABLE}: {name} has no `{form}`")
        findings += 1
    print(f"house rules: {len(files)} files, {findings} findings")
    return 1 if findings else 0


def _relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _check(path: Path, tree: ast.Module | None, checking: set[str]) -> Iterator[Finding]:
    name, text = _relative(path), path.read_text()
    yield from _machine_paths(text)
    if tree is None:
        return
    yield from _lengths(text, tree)
    yield from _silent_handlers(tree)
    if name.startswith("inductor_npu/") and name != MAY_PATCH:
        allowed = _allowed()
        for line, form in _touches(text, tree):
            if (path.name, form) not in allowed:
                yield line, f"`{form}` changes what is not ours: patches belong in {MAY_PATCH}, others into {TABLE}"
    if name.startswith("tests/"):
        yield from _tests_without_checks(tree, checking)


def _machine_paths(text: str) -> Iterator[Finding]:
    for number, line in enumerate(text.splitlines(), 1):
        if match := MACHINE_PATH.search(line):
            yield number, f"path of a machine: {match.group(0)}..."


def _lengths(text: str, tree: ast.Module) -> Iterator[Finding]:
    lines = text.count("\n")
    if lines > FILE_LINES:
        yield 1, f"file has {lines} lines, above {FILE_LINES}: it holds more than one idea"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.end_lineno is not None:
            kind, most = ("class", CLASS_LINES) if isinstance(node, ast.ClassDef) else ("function", FUNCTION_LINES)
            length = node.end_lineno - node.lineno + 1
            if length > most and not REASON.search(ast.get_docstring(node) or ""):
                yield node.lineno, f"{kind} {node.name} has {length} lines, above {most}, and says no reason"


def _silent_handlers(tree: ast.Module) -> Iterator[Finding]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler):
            if node.type is None:
                yield node.lineno, "bare except: name the exceptions"
            catches_all = isinstance(node.type, ast.Name) and node.type.id in ("Exception", "BaseException")
            if catches_all and all(isinstance(statement, ast.Pass | ast.Continue) for statement in node.body):
                yield node.lineno, "this exception disappears in silence: name it, report it, or let it pass"
        elif _suppresses_everything(node):
            yield node.lineno, "suppress(Exception) hides every error: name the exceptions"


def _suppresses_everything(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call) or _dotted(node.func) not in ("suppress", "contextlib.suppress"):
        return False
    return any(_dotted(argument) in ("Exception", "BaseException") for argument in node.args)


def _allowed() -> set[tuple[str, str]]:
    """The touches of the table: names of files, with a form that is allowed there."""
    table = ROOT / TABLE
    return {(name, form) for name, form in ROW.findall(table.read_text())} if table.is_file() else set()


def _touches(text: str, tree: ast.Module) -> Iterator[Finding]:
    """Where this file changes something of torch, of Triton or of Python that others use, and how."""
    foreign = _foreign_names(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Delete):
            targets = node.targets if isinstance(node, ast.Assign | ast.Delete) else [node.target]
            for target in targets:
                yield from _touches_by_assignment(target, foreign)
        elif isinstance(node, ast.Call):
            yield from _touches_by_call(node, foreign)
    for number, line in enumerate(text.splitlines(), 1):
        if "ignore[method-assign]" in line:
            yield number, "method-assign"  # mypy knows a method that an object's own attribute hides


def _touches_by_assignment(target: ast.expr, foreign: set[str]) -> Iterator[Finding]:
    if not isinstance(target, ast.Attribute | ast.Subscript):
        return
    inside = {part.attr for part in ast.walk(target) if isinstance(part, ast.Attribute)} & INSIDES
    if inside:
        yield target.lineno, inside.pop()
    elif (table := _dotted(target.value)) == "os.environ":
        if isinstance(target, ast.Subscript) and _is_of_theirs(target.slice):
            yield target.lineno, "os.environ"
    elif table in OF_PYTHON:
        yield target.lineno, str(table)
    elif _root(target) in foreign and not str(table).startswith(OURS):
        yield target.lineno, f"{_dotted(target) or table or _root(target)} ="


def _touches_by_call(node: ast.Call, foreign: set[str]) -> Iterator[Finding]:
    called = _dotted(node.func) or (node.func.attr if isinstance(node.func, ast.Attribute) else "")
    of, _, method = called.rpartition(".")
    on_foreign = of and _root(node.func) in foreign and not of.startswith(OURS)
    if called in ALWAYS or (called in ("setattr", "delattr") and node.args and _root(node.args[0]) in foreign):
        yield node.lineno, called
    elif method in GLOBAL:
        yield node.lineno, method
    elif method in CHANGES and of == "os.environ":
        if node.args and _is_of_theirs(node.args[0]):
            yield node.lineno, of
    elif method in CHANGES and (of in OF_PYTHON or of.endswith(".__dict__")):
        yield node.lineno, of.rpartition(".")[2] if of.endswith(".__dict__") else of
    elif method in CHANGES and on_foreign:
        yield node.lineno, called


def _is_of_theirs(variable: ast.expr) -> bool:
    """Whether a variable of the environment is one of torch's or Triton's; one that is not written out may be."""
    return not isinstance(variable, ast.Constant) or str(variable.value).startswith(VARIABLES)


def _foreign_names(tree: ast.Module) -> set[str]:
    """Names in this file that stand for something of torch or triton, however deep it was imported, or for a part of
    that.
    """
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] in FOREIGN:
                    names.add(alias.asname or alias.name.split(".")[0])
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in FOREIGN:
            names.update(alias.asname or alias.name for alias in node.names)
    names -= SETTINGS
    parts = [node for node in ast.walk(tree) if isinstance(node, ast.Assign) and len(node.targets) == 1]
    for node in sorted(parts, key=lambda node: node.lineno):
        if isinstance(node.targets[0], ast.Name) and _is_part_of(node.value, names):
            names.add(node.targets[0].id)
    return names


def _is_part_of(value: ast.expr, names: set[str]) -> bool:
    """Whether `value` is reached, without a call, from one of `names` or from a foreign module among those imported."""
    if not isinstance(value, ast.Attribute | ast.Subscript):
        return False
    if _root(value) in names:
        return not str(_dotted(value)).startswith(OURS)
    return any(
        isinstance(part, ast.Subscript)
        and _dotted(part.value) == "sys.modules"
        and isinstance(part.slice, ast.Constant)
        and str(part.slice.value).split(".")[0] in FOREIGN
        for part in ast.walk(value)
    )


def _functions_that_check(trees: list[ast.Module]) -> set[str]:
    """Names of functions in the test tree that assert something, themselves or through one another."""
    functions = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    checking: set[str] = set()
    while True:
        found = {function.name for function in functions if _checks(function, checking)}
        if found <= checking:
            return checking
        checking |= found


def _checks(function: ast.FunctionDef, checking: set[str]) -> bool:
    for node in ast.walk(function):
        if isinstance(node, ast.Assert):
            return True
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else _dotted(node.func) or ""
            if name in CHECKS or name.startswith("assert") or name in checking:
                return True
    return False


def _tests_without_checks(tree: ast.Module, checking: set[str]) -> Iterator[Finding]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_") and not _checks(node, checking):
            yield node.lineno, f"{node.name} checks nothing"


def _root(node: ast.expr) -> str | None:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def _dotted(node: ast.expr) -> str | None:
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return ".".join([node.id, *reversed(parts)])


if __name__ == "__main__":
    sys.exit(main())
