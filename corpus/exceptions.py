"""Why a kernel of the corpus is not vector code: what no choice of a tile changes, or what is still to be done."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum
from itertools import groupby
from pathlib import Path

from corpus.defects import DEFECTS
from corpus.table import FOLDER, Line
from inductor_npu.ascend.execute.comparison import ELEMENT_TYPES
from inductor_npu.ascend.hivm import Verdict
from inductor_npu.ascend.kernel import CollectedKernel
from inductor_npu.ascend.report.least import least_bytes
from inductor_npu.ascend.report.model import Row
from inductor_npu.simulator.triton_backend.ttir import parser
from inductor_npu.simulator.triton_backend.ttir.forms import UNKNOWN, Forms, Index
from inductor_npu.simulator.triton_backend.ttir.passes import simplify

_ACCESSES = ("tt.load", "tt.store", "tt.atomic_rmw", "tt.atomic_cas")
_BLOCK = 32  # bytes: what the Unified Buffer and its transfers are divided into
_OF_FLOAT64 = re.compile(r"\bfp64\b|ExtFOp|hivm\.hir\.vbrc|input arg type does not match")
_COMPARISON = re.compile(r"vcmps?_\w+ works element by element: (\d+) elements are no multiple")
# Bytes of an element, by how the library's functions name its type.
_ITEM_BYTES = {"float": 4, "half": 2, "bfloat16": 2, "int64_t": 8, "int32_t": 4, "int16_t": 2, "int8_t": 1, "bool": 1}
_NARROW = re.compile(r"(?:bursts|rows) of (\d+) bytes")
# An axis of the tile in a kernel's header: `x 8 of 5`, `r0_ all of 5 (in 8)`.
_AXIS = re.compile(r"(\w+) (?:\d+|all) of (\d+)")


class Category(str, Enum):
    """In the order of the list."""

    ADDRESS = "data-dependent address"
    LAYOUT = "layout that no tiling can fix"
    ARITHMETIC = "arithmetic that the chip or its library does not have"
    DEFECT = "defect of Ascend's compiler"
    OPEN = "not yet"


def reason_of(kernel: CollectedKernel, row: Row, ttir: str | None) -> str:
    """The category and the reason of a kernel, "category: reason (detail)"; "" for vector code. `ttir` is None where
    the front end refused it.
    """
    if row.verdict == Verdict.VECTOR.value:
        return ""
    category, words = _refused(row) if row.refusal is not None else _slow(kernel, row, ttir)
    return f"{category.value}: {words}"


def _refused(row: Row) -> tuple[Category, str]:
    assert row.refusal is not None
    message = " ".join(row.refusal.message.split())
    if _OF_FLOAT64.search(message) and re.search(r"float64|fp64", row.source + message):
        return Category.ARITHMETIC, "float64"
    if missing := re.search(r"Ascend's libdevice has no function '(\w+)'", message):
        return Category.ARITHMETIC, f"a function that Ascend's libdevice does not have ({missing[1]})"
    for defect in DEFECTS:
        if re.search(defect.message, message):
            return Category.DEFECT, defect.name
    if "ub overflow" in message:
        return Category.OPEN, "tiles that do not fit the Unified Buffer"
    return Category.OPEN, f"{row.refusal.stage}: {message}"


def _slow(kernel: CollectedKernel, row: Row, ttir: str | None) -> tuple[Category, str]:
    findings = [finding for finding in row.findings if finding.kind != "S1"]
    accesses = [] if ttir is None else _accesses(kernel, ttir)
    indices = [index for _, index in accesses]
    kinds = {finding.kind for finding in findings}
    if kinds & {"SL", "HL"} and any(index.sources for index in indices):
        return Category.ADDRESS, "an element's address is loaded or computed from loaded data"
    if any(_is_reversed(index) for index in indices):
        return Category.LAYOUT, "elements in reverse order"
    if ttir is not None and (apart := [(name, index) for name, index in accesses if _lies_apart(index)]):
        step = min(abs(int(step)) for _, index in apart for step in index.steps if step)
        runs = least_bytes(ttir, kernel.launch).runs
        if min(runs.get(name, 0) for name, _ in apart) < _BLOCK:
            return Category.LAYOUT, f"neighbours lie apart ({step} elements)"
        return Category.OPEN, f"a tile without the axis whose neighbours lie side by side (others {step} apart)"
    for finding in findings:
        if axis := _narrow_axis(kernel, finding.what):
            return Category.LAYOUT, f"rows shorter than the {_BLOCK} bytes of a block ({axis})"
    if any(re.search(r"\bi64\b|int64", finding.what) for finding in findings):
        return Category.ARITHMETIC, "vectors of 64-bit integers"
    worst = next((finding for kind in ("SL", "HL", "EL") for finding in findings if finding.kind == kind), None)
    if worst is None:
        return Category.OPEN, row.verdict
    if part := _COMPARISON.search(worst.what):
        return Category.OPEN, f"a comparison of other than a multiple of 256 bytes ({part[1]} elements)"
    return Category.OPEN, re.sub(r"^kernel\.py:\d+: ", "", worst.what)


def _accesses(kernel: CollectedKernel, ttir: str) -> list[tuple[str, Index]]:
    """The argument and the index of each access of a tile."""
    module = parser.parse(ttir)
    simplify(module)
    forms = Forms(module.kernel)
    names = dict(zip(module.kernel.body.arguments, kernel.launch.arguments))
    found = []
    for op in module.kernel.body.walk():
        if op.name in _ACCESSES:
            base = op.operands[0]
            while base not in names and base.owner is not None and base.owner.operands:
                base = base.owner.operands[0]
            found.append((names.get(base, ""), forms.index_of(op.operands[0])))
    return found


def _is_reversed(index: Index) -> bool:
    return any(step is not None and step < 0 for step in index.steps)


def _lies_apart(index: Index) -> bool:
    """Whether no axis has neighbours side by side, though some axis has steps."""
    steps = [step for step in index.steps if step]
    return bool(steps) and None not in index.steps and UNKNOWN not in steps and 1 not in steps


def _narrow_axis(kernel: CollectedKernel, finding: str) -> str | None:
    """The axis of the kernel's tile whose whole length is the narrow row that `finding` names: the header says it."""
    narrow = _NARROW.search(finding)
    if narrow is None or int(narrow[1]) >= _BLOCK:
        return None
    named = [size for name, size in _ITEM_BYTES.items() if f"_{name}" in finding]
    kinds = [kind.removeprefix("*") for kind in kernel.source.signature.values() if kind.startswith("*")]
    sizes = set(named) or {ELEMENT_TYPES[kind].size for kind in kinds if kind in ELEMENT_TYPES}
    header = next((line for line in kernel.source.text.splitlines() if "# tile [" in line), "")
    for name, length in _AXIS.findall(header):
        if int(length) > 1 and int(narrow[1]) in (int(length) * size for size in sizes):
            return f"{name} of {length}, {narrow[1]} bytes"
    return None


# The list in git


def path_of(target: str) -> Path:
    return FOLDER / f"exceptions-{target}.md"


def counts(lines: Sequence[Line]) -> dict[str, int]:
    """How many kernels each category has."""
    return {category.value: sum(_category(line) == category for line in lines) for category in Category}


def write(target: str, lines: Sequence[Line]) -> None:
    """A section for each category, in it a line for each reason, with its kernels."""
    exceptions = [line for line in lines if line.exception and not line.same_as]
    text = [f"# Kernels that are no vector code on {target}", "", "Written by `make corpus ARGS=--accept`.", ""]
    for category in Category:
        own = sorted((line for line in exceptions if _category(line) == category), key=_reason)
        text += [f"## {category.value[0].upper()}{category.value[1:]}: {len(own)}", ""]
        reasons = [(reason, list(group)) for reason, group in groupby(own, key=_reason)]
        for reason, group in sorted(reasons, key=lambda entry: -len(entry[1])):
            places = ", ".join(f"{line.program} {line.kernel}" for line in group)
            text.append(f"- **{reason}** ({len(group)}): {places}")
        text.append("")
    path_of(target).write_text("\n".join(text))


def _category(line: Line) -> Category | None:
    return next((category for category in Category if line.exception.startswith(f"{category.value}: ")), None)


def _reason(line: Line) -> str:
    """Without the category and without the detail in brackets at its end."""
    return re.sub(r" \([^()]*\)$", "", line.exception.partition(": ")[2])
