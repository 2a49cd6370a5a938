"""The house rules that no ready-made linter knows. Run by `make lint`; prints `file:line: rule`, exits 1 if it found
anything.

- Nobody assigns onto torch or triton, but inductor_npu/setup/compat.py (where each touch has its reason).
- No exception disappears: an `except` block does something, and nothing catches everything in silence.
- A file has at most 600 lines, a function at most 100 (80 is a good limit).
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
# Places for settings: Triton's public one, and the fields of what Inductor compiles at the moment, such as V.graph.
SETTINGS = {"knobs", "V"}
FILE_LINES = 600
FUNCTION_LINES = 100
# Calls that fail a test by raising: `synchronize` brings up what went wrong on the device.
CHECKS = {"raises", "warns", "fail", "verify", "synchronize"}
TEXT = {".py", ".md", ".toml", ".txt", ".cpp", ".h", ".yml", ".yaml", ".sh", ""}
# Spelled in two parts, so that this line does not find itself.
MACHINE_PATH = re.compile(r"(?<![\w.~])/(?:" + r"work|root|home/\w+|opt|tmp" + r")/\w")

Finding = tuple[int, str]


def main() -> int:
    """Checks every file that git tracks, and those that it would."""
    with_header = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    files = sorted({ROOT / name for name in with_header.stdout.splitlines()})
    files = [path for path in files if path.is_file() and path.suffix in TEXT]
    trees = {path: ast.parse(path.read_text()) for path in files if path.suffix == ".py"}
    checking = _functions_that_check([tree for path, tree in trees.items() if _relative(path).startswith("tests/")])

    findings = 0
    for path in files:
        for line, message in sorted(_check(path, trees.get(path), checking)):
            print(f"{_relative(path)}:{line}: {message}")
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
        yield from _assignments_onto_foreign_modules(tree)
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
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
            length = node.end_lineno - node.lineno + 1
            if length > FUNCTION_LINES:
                yield node.lineno, f"function {node.name} has {length} lines, above {FUNCTION_LINES}"


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


def _assignments_onto_foreign_modules(tree: ast.Module) -> Iterator[Finding]:
    foreign = _names_of_foreign_modules(tree)
    for node in ast.walk(tree):
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            targets = [node.target]
        elif isinstance(node, ast.Call) and _dotted(node.func) == "setattr" and node.args:
            # setattr(module, name, ...) touches the module itself, an assignment something that hangs on it
            targets = [ast.Attribute(value=node.args[0], attr="...")]
        for target in targets:
            if isinstance(target, ast.Attribute) and _root(target) in foreign:
                yield node.lineno, f"assignment onto {_dotted(target)}: patches belong in {MAY_PATCH}"


def _names_of_foreign_modules(tree: ast.Module) -> set[str]:
    """Names in this file that stand for something of torch or triton, however deep it was imported."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] in FOREIGN:
                    names.add(alias.asname or alias.name.split(".")[0])
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in FOREIGN:
            names.update(alias.asname or alias.name for alias in node.names)
    return names - SETTINGS


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
