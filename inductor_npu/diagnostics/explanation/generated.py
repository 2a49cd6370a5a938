"""Reads a module that Inductor generated: its kernels, operator calls and the comments beside them.

For a graph from a cache, that text is the only source, and it equals the text of the first compile. So both kinds of
graphs are read in the same way.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from inductor_npu.codegen.annotations.launch_comments import (
    Traffic,
    read_arithmetic,
    read_in_eager,
    read_library,
    read_product,
    read_traffic,
)
from inductor_npu.codegen.annotations.provenance import Line
from inductor_npu.diagnostics.explanation.data import CompiledWithout, Kernel, LeftToEager, LibraryCall, Pass, grouped
from inductor_npu.support.comments import comments_above

_AOT_ID = re.compile(r"^# AOT ID: .*_(?P<name>inference|forward|backward)'", re.MULTILINE)
_USERS_LINE = re.compile(r"(?P<file>[^:]+):(?P<line>\d+): (?P<text>.*)$")
_ATEN = re.compile(r".* Source Nodes: .*Original ATen: \[(?P<operators>.*)\]$")
_USERS_KERNEL = re.compile(r"Original path: (?P<file>.*):(?P<line>\d+)$")
_HEADER = re.compile(r"^@triton\.jit\n# (?P<operators>.*)$", re.MULTILINE)
_MORE = re.compile(r"and \d+ more|no operator of the graph")
_LIBRARY = "extern_kernels."
_OPERATORS = ("torch.ops.", "aten.", "quantized.", "_quantized.")
# Inductor's own help, no operators of the user's program; the last makes the seeds of random numbers.
_HELP = ("torch.ops.inductor.", "torch.ops._inductor_test.", "aten.randint.low_out")


@dataclass(frozen=True)
class GeneratedModule:
    """What one call of the module's graph does."""

    pass_: Pass
    kernels: tuple[Kernel, ...]
    library_calls: tuple[LibraryCall, ...]
    left_to_eager: tuple[LeftToEager, ...]
    compiled_without: CompiledWithout | None


@dataclass(frozen=True)
class _Definition:
    """A kernel, as the module makes it. `operators` are those of its header, `defined` where a user wrote it, `on_cpu`
    whether it is one for the CPU, and `failure` why it is a stand-in of eager operators.
    """

    name: str
    operators: tuple[str, ...] = ()
    defined: tuple[Line, ...] = ()
    on_cpu: bool = False
    failure: str | None = None


@dataclass(frozen=True)
class _Call:
    """A launch of kernel `name`, or a call of operator `name`, and what the comments above it say."""

    name: str
    lines: tuple[Line, ...]
    operators: tuple[str, ...]
    traffic: Traffic | None
    in_eager: str | None
    product: str
    library: str
    operations: int


def read(text: str) -> GeneratedModule:
    """What the generated module `text` does. Raises SyntaxError for text that is no Python."""
    tree, lines = ast.parse(text), text.splitlines()
    definitions = {definition.name: definition for definition in _definitions(tree, lines)}
    calls = list(_calls(tree, lines, definitions))
    launches = grouped([call for call in calls if call.name in definitions], lambda call: call.name)
    operators = grouped(
        [call for call in calls if call.name not in definitions], lambda call: (call.name, call.in_eager, call.library)
    )
    return GeneratedModule(
        _pass_of(text),
        tuple(_kernel(definitions[of[0].name], of) for of in launches if not definitions[of[0].name].failure),
        tuple(
            LibraryCall(of[0].name, len(of), _lines(of), of[0].library, _operations(of))
            for of in operators
            if of[0].in_eager is None
        ),
        (
            *(_stand_in(definitions[of[0].name], of) for of in launches if definitions[of[0].name].failure),
            *(
                LeftToEager((of[0].name,), of[0].in_eager, len(of), _lines(of), None, _operations(of))
                for of in operators
                if of[0].in_eager is not None
            ),
        ),
        _compiled_without(tree),
    )


def _compiled_without(tree: ast.Module) -> CompiledWithout | None:
    """What the module's statement `compiled_without(left_out, why)` says (codegen/wrapper/npu_wrapper.py)."""
    for statement in tree.body:
        call = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "compiled_without":
            return CompiledWithout(*map(ast.literal_eval, call.args))
    return None


def _pass_of(text: str) -> Pass:
    match = _AOT_ID.search(text)
    return Pass.INFERENCE if match is None else Pass(match["name"])


def _kernel(definition: _Definition, launches: Sequence[_Call]) -> Kernel:
    moved = [launch.traffic for launch in launches]
    read_ = [each.read if each else None for each in moved]
    written = [each.written if each else None for each in moved]
    return Kernel(
        definition.name,
        _operators(definition, launches),
        definition.defined or _lines(launches),
        len(launches),
        _sum(read_),
        _sum(written),
        "; ".join(dict.fromkeys(each.sizes for each in moved if each and each.sizes)),
        bool(definition.defined),
        definition.on_cpu,
        "; ".join(dict.fromkeys(each.product for each in launches if each.product)),
        _operations(launches),
    )


def _stand_in(definition: _Definition, launches: Sequence[_Call]) -> LeftToEager:
    assert definition.failure is not None
    operators = _operators(definition, launches)
    lines, count = _lines(launches), _operations(launches)
    return LeftToEager(operators, definition.failure, len(launches), lines, definition.name, count)


def _operations(calls: Sequence[_Call]) -> int:
    return sum(call.operations for call in calls)


def _operators(definition: _Definition, launches: Sequence[_Call]) -> tuple[str, ...]:
    """All operators of a kernel: its header ends after a dozen, and the comments at launches know ATen's only."""
    return tuple(dict.fromkeys([*definition.operators, *(name for launch in launches for name in launch.operators)]))


def _lines(calls: Sequence[_Call]) -> tuple[Line, ...]:
    return tuple(dict.fromkeys(line for call in calls for line in call.lines))


def _sum(numbers: Sequence[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None


# ---- kernels


def _definitions(tree: ast.Module, lines: Sequence[str]) -> Iterator[_Definition]:
    """`name = async_compile.triton('name', '''source''', ...)`, `.cpp_pybinding(...)`, or `name = EagerKernel(...)`."""
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)):
            continue
        target, made_by = node.targets[0], ast.unparse(node.value.func)
        texts = [
            each.value for each in node.value.args if isinstance(each, ast.Constant) and isinstance(each.value, str)
        ]
        if not isinstance(target, ast.Name):
            continue
        if made_by == "EagerKernel":
            _, _, reason, _ = texts
            yield _Definition(target.id, failure=reason)
        elif made_by == "async_compile.triton":
            yield _Definition(target.id, _in_header(texts[-1]), _defined(comments_above(lines, node.lineno)))
        elif made_by.startswith("async_compile.") and texts:
            yield _Definition(target.id, on_cpu=True)


def _in_header(source: str) -> tuple[str, ...]:
    match = _HEADER.search(source)
    names = [] if match is None else match["operators"].split(", ")
    return tuple(name for name in names if not _MORE.fullmatch(name))


def _defined(comments: Sequence[str]) -> tuple[Line, ...]:
    """Where the kernel that a user wrote begins."""
    matches = [match for comment in comments if (match := _USERS_KERNEL.match(comment))]
    return tuple(Line(Path(match["file"]).name, int(match["line"]), "") for match in matches)


# ---- calls


def _calls(tree: ast.Module, lines: Sequence[str], definitions: dict[str, _Definition]) -> Iterator[_Call]:
    """Launches and calls of operators, from the first line to the last."""
    found = sorted(
        (node.lineno, name)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and (name := _called(node, definitions)) is not None
    )
    before = 0
    for line, name in dict.fromkeys(found):  # a function inside another is walked twice
        yield _commented(name, _comments_above(lines, line, before))
        before = line


def _called(node: ast.Call, definitions: dict[str, _Definition]) -> str | None:
    """The kernel, or the operator without its overload, that `node` calls; None if it calls something else."""
    name = ast.unparse(node.func)
    kernel = name.removesuffix(".run")
    if kernel in definitions:
        return kernel
    if not name.startswith((_LIBRARY, *_OPERATORS)) or name.startswith(_HELP):
        return None
    namespace, operator = name.removeprefix("torch.ops.").split(".")[:2]
    return f"{namespace}.{operator}"  # aten.sort of torch.ops.aten.sort.default


def _comments_above(lines: Sequence[str], line: int, before: int) -> list[str]:
    """The texts of the comments above the call in `line` (from 1) and below line `before`; statements between them and
    the call make ready what it needs.
    """
    place = line - 1
    while place > before and not lines[place - 1].lstrip().startswith(("#", "def ", "class ")):
        place -= 1
    return comments_above(lines[before:], place + 1 - before)


def _commented(name: str, comments: Sequence[str]) -> _Call:
    lines, operators, moved, in_eager = [], [], None, None
    product = library = ""
    operations = 0
    for comment in comments:
        if (reason := read_in_eager(comment)) is not None:
            in_eager = reason
        elif (cycles := read_product(comment)) is not None:
            product = cycles
        elif (reason := read_library(comment)) is not None:
            library = reason
        elif (count := read_arithmetic(comment)) is not None:
            operations = count
        elif (each := read_traffic(comment)) is not None:
            moved = each
        elif match := _ATEN.match(comment):
            operators += [operator for operator in match["operators"].split(", ") if operator]
        elif match := _USERS_LINE.match(comment):
            lines.append(Line(match["file"], int(match["line"]), match["text"]))
    return _Call(name, tuple(lines), tuple(operators), moved, in_eager, product, library, operations)
