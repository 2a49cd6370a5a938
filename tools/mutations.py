"""Whether the tests notice faults: changes one place of the package at a time, and runs the tests that cover it.

    make coverage                                    # which test runs which line: .coverage
    .venv/bin/python -m tools.mutations --seed 1     # 40 mutations, the same for the same seed, code and coverage

A mutation replaces one comparison, arithmetic or Boolean operator, or one small number, by another. It is killed if a
test that covers its line fails, or does not end. Tests run from the cheapest on, by `--times` of the run that recorded
the coverage, so that most mutations are killed early. The exit status is 0. The surviving mutations are a list to read,
since a mutation may have no visible effect.
"""

from __future__ import annotations

import ast
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import coverage
import typer

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "inductor_npu"
# Tests that one process of pytest runs before the next begins: few at first, since most mutations die at once.
BATCHES = (25, 100, 400)

_PHASE = re.compile(r"\|(setup|run|teardown)$")  # pytest-cov names a context "node id|phase"

_OPERATORS: dict[type, tuple[type, ...]] = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.GtE),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Add,),
    ast.FloorDiv: (ast.Mult,),
    ast.Mod: (ast.FloorDiv,),
    ast.And: (ast.Or,),
    ast.Or: (ast.And,),
}


@dataclass(frozen=True)
class Mutation:
    """`source` with one place changed: line `line` of `path` (from the root), described by `what`."""

    path: str
    line: int
    what: str
    source: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}"


def mutations_of(path: str, source: str, lines: set[int], choose: random.Random) -> list[Mutation]:
    """One mutation for each place of `source` on one of `lines` that has any, drawn where there are several."""
    tree = ast.parse(source)
    # Before Python 3.12 what stands in an f-string has no place of its own in the source.
    in_text = {id(part) for text in ast.walk(tree) if isinstance(text, ast.JoinedStr) for part in ast.walk(text)}
    found = []
    for node in ast.walk(tree):
        if getattr(node, "lineno", 0) in lines and id(node) not in in_text and (changed := _changed(node, choose)):
            before, after = ast.get_source_segment(source, node) or "", ast.unparse(changed)
            what = f"`{' '.join(before.split())}` -> `{after}`"
            found.append(Mutation(path, node.lineno, what, _replaced(source, node, before, after)))
    return found


def _replaced(source: str, node: ast.expr, before: str, after: str) -> str:
    """`source` with `after` for `node`, whose text is `before`; all other lines keep their numbers."""
    rows = source.splitlines(keepends=True)
    row = rows[node.lineno - 1].encode()
    first = sum(map(len, rows[: node.lineno - 1])) + len(row[: node.col_offset].decode())
    lines = "\n" * before.count("\n")
    return f"{source[:first]}({after}{lines}){source[first + len(before) :]}"


def _changed(node: ast.AST, choose: random.Random) -> ast.expr | None:
    """A copy of `node` that is wrong, or None if it is of no kind that is mutated."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _OPERATORS:
        operator = choose.choice(_OPERATORS[type(node.ops[0])])()
        return ast.Compare(node.left, [operator, *node.ops[1:]], node.comparators)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS and not _is_text(node):
        return ast.BinOp(node.left, choose.choice(_OPERATORS[type(node.op)])(), node.right)
    if isinstance(node, ast.BoolOp):
        return ast.BoolOp(_OPERATORS[type(node.op)][0](), node.values)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return ast.UnaryOp(ast.Not(), node)
    if isinstance(node, ast.Constant) and type(node.value) is int and 0 < node.value < 1000:
        return ast.Constant(node.value + 1)
    return None


def _is_text(node: ast.BinOp) -> bool:
    texts = (ast.JoinedStr, ast.List, ast.Tuple)
    sides = (node.left, node.right)
    return any(isinstance(side, texts) or isinstance(getattr(side, "value", None), str) for side in sides)


@dataclass(frozen=True)
class Covering:
    """Which tests run which line, and what each takes. Tests that fail without a mutation are left out."""

    by_line: dict[str, dict[int, list[str]]]  # path from the root: line: node ids
    seconds: dict[str, float]

    @classmethod
    def read(cls, coverage_file: Path, times: Path | None) -> Covering:
        rows = [json.loads(line) for line in times.read_text().splitlines()] if times else []
        failing = {row[0] for row in rows if row[3]}
        data = coverage.CoverageData(str(coverage_file))
        data.read()
        by_line: dict[str, dict[int, list[str]]] = {}
        for file in data.measured_files():
            path = PACKAGE + file.rpartition(f"/{PACKAGE}/")[2].join(("/", ""))
            lines = data.contexts_by_lineno(file)
            by_line[path] = {
                line: sorted({_PHASE.sub("", context) for context in contexts if context} - failing)
                for line, contexts in lines.items()
            }
        return cls(by_line, {row[0]: row[1] for row in rows})

    def of(self, mutation: Mutation) -> list[str]:
        """Those that run the mutation's line, the cheapest first."""
        tests = self.by_line.get(mutation.path, {}).get(mutation.line, [])
        return sorted(tests, key=lambda test: (self.seconds.get(test, 0.0), test))


def draw(tests: Covering, count: int, seed: int) -> list[Mutation]:
    """`count` mutations of lines that some test runs: a file by its number of such lines, then a place in it."""
    choose = random.Random(seed)
    covered = {
        path: {line for line, running in lines.items() if running}
        for path, lines in sorted(tests.by_line.items())
        if (ROOT / path).exists()
    }
    paths, weights = list(covered), [len(lines) for lines in covered.values()]
    drawn: dict[str, Mutation] = {}
    while len(drawn) < count:
        (path,) = choose.choices(paths, weights)
        line = choose.choice(sorted(covered[path]) or [0])
        if made := mutations_of(path, (ROOT / path).read_text(), {line}, choose):
            mutation = choose.choice(made)
            drawn.setdefault(str(mutation), mutation)
    return list(drawn.values())


def outcome_of(mutation: Mutation, tests: list[str], minutes: float) -> str:
    """What `tests` make of `mutation`: "killed by ...", "survived ..." if all have passed, or "not decided ..." if
    `minutes` by the clock went by first.
    """
    end = time.monotonic() + 60 * minutes
    undecided = f"not decided in {minutes:g} minutes by {len(tests)} tests"
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(".*", "build", "__pycache__", "*.egg-info"))
        (tree / mutation.path).write_text(mutation.source)
        first = 0
        for size in (*BATCHES, len(tests)):
            batch, first = tests[first : first + size], first + size
            left = end - time.monotonic()
            if not batch:
                break
            if left <= 0:
                return undecided
            command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *batch]
            command += ["-p", "no:tests.processor_time"]  # many run at once: what they take says nothing
            environment = {**os.environ, "PYTHONPATH": str(tree), "INDUCTOR_NPU_STRICT": "1", "OMP_NUM_THREADS": "1"}
            try:
                ended = subprocess.run(
                    command, cwd=tree, env=environment, capture_output=True, text=True, timeout=left, check=False
                )
            except subprocess.TimeoutExpired:
                return f"killed by no end in {minutes:g} minutes" if size == BATCHES[0] else undecided
            if ended.returncode != 0:
                lines = ended.stdout.splitlines()
                said = (line for line in lines if line.startswith(("FAILED", "ERROR")))
                return f"killed by {next(said, 'a run that did not begin')}"
    return f"survived {len(tests)} tests"


def main(
    seed: Annotated[int, typer.Option(help="Of the mutations.")] = 1,
    count: Annotated[int, typer.Option(help="How many.")] = 40,
    coverage_file: Annotated[Path, typer.Option(help="With contexts, as `make coverage` leaves it.")] = ROOT
    / ".coverage",
    times: Annotated[Path | None, typer.Option(help="What each test takes, from the same run.")] = None,
    jobs: Annotated[int, typer.Option(help="Mutations at once.")] = len(os.sched_getaffinity(0)),
    minutes: Annotated[float, typer.Option(help="For each mutation, at most.")] = 10,
    only_list: Annotated[bool, typer.Option(help="Print the mutations and run nothing.")] = False,
) -> None:
    """Mutates the package and prints which mutations the tests kill."""
    tests = Covering.read(coverage_file, times)
    mutations = draw(tests, count, seed)
    if only_list:
        print(*mutations, sep="\n")
        return
    killed = 0
    with ThreadPoolExecutor(jobs) as pool:
        outcomes = pool.map(lambda each: outcome_of(each, tests.of(each), minutes), mutations)
        for mutation, outcome in zip(mutations, outcomes, strict=True):
            killed += outcome.startswith("killed")
            print(f"{mutation}\n    {outcome}", flush=True)
    print(f"{killed} of {len(mutations)} mutations killed, seed {seed}")


if __name__ == "__main__":
    typer.run(main)
