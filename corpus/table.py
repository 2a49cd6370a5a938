"""The table in git: one line for each kernel of each program, in the order of first launches."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

from inductor_npu.ascend.report.model import VERDICTS, Row

FOLDER = Path(__file__).parent / "tables"
OMITTED = "omitted"  # the kernel could not be collected, or its operators run in eager
FAILED = "failed"  # the program itself does not run
BAD_TO_GOOD = (FAILED, OMITTED, *VERDICTS)
_LONGEST = 160
_FORM: dict[str, Any] = {"delimiter": "\t", "quoting": csv.QUOTE_NONE, "escapechar": "\\"}


@dataclass(frozen=True)
class Line:
    """One kernel of one program. `same_as` names the kernel before it that is the same, if there is one: it was checked
    there. Numbers are text, as they stand in the file.
    """

    program: str
    kernel: int
    operators: str
    verdict: str
    why: str = ""
    unified_buffer: str = ""
    doubled: str = ""
    moved_to_least: str = ""
    vector_instructions: str = ""
    cycles: str = ""
    bound: str = ""
    same_as: str = ""


def line_of(program: str, number: int, row: Row, first: tuple[str, int]) -> Line:
    """The line of the `number`th kernel of a program (from 1). `first`: the first program that has it, and where it
    stands there (from 0).
    """
    operators = " ".join(operator.removeprefix("aten.") for operator in row.operators)
    if first != (program, number - 1):
        return Line(program, number, operators, row.verdict, same_as=f"{first[0]} {first[1] + 1}")
    moved = row.bytes_moved
    return Line(
        program=program,
        kernel=number,
        operators=operators,
        verdict=row.verdict,
        why=_shortened(_why(row)),
        unified_buffer="" if row.ub_share is None else f"{row.ub_share:.0%}",
        doubled="" if row.buffers_doubled is None else "yes" if row.buffers_doubled else "no",
        moved_to_least="" if moved is None or not row.bytes_least else f"{moved / row.bytes_least:.2f}",
        vector_instructions="" if row.vector_instructions is None else str(row.vector_instructions),
        cycles="" if row.longest is None else str(row.longest),
        bound=row.bound or "",
    )


def _why(row: Row) -> str:
    if row.refusal is not None:
        return f"{row.refusal.stage}: {row.refusal.message}"
    kinds: dict[str, str] = {}
    for finding in row.findings:
        kinds.setdefault(finding.kind, finding.what)
    return "; ".join(f"{kind} {what}" for kind, what in kinds.items())


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def omitted(program: str, number: int, kernel: str, reason: str) -> Line:
    return Line(program, number, kernel, OMITTED, _shortened(reason))


def failed(program: str, number: int, reason: str) -> Line:
    return Line(program, number, "", FAILED, _shortened(reason))


def path_of(target: str) -> Path:
    return FOLDER / f"{target}.tsv"


def read(target: str) -> list[Line]:
    """The accepted table of a chip; empty if there is none yet."""
    if not path_of(target).exists():
        return []
    with path_of(target).open(newline="") as file:
        return [Line(**{**row, "kernel": int(row["kernel"])}) for row in csv.DictReader(file, **_FORM)]


def write(target: str, lines: Iterable[Line]) -> None:
    """Accepts `lines` as the table of a chip."""
    FOLDER.mkdir(exist_ok=True)
    with path_of(target).open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n", **_FORM)
        writer.writerow(field.name for field in fields(Line))
        writer.writerows(astuple(line) for line in lines)


def worse(before: Sequence[Line], after: Sequence[Line]) -> list[str]:
    """What got worse, in words: for each program of both, its verdicts from bad to good are compared one by one.

    A program whose kernels became more is worse only if a bad verdict became more frequent.
    """
    found = []
    known = {line.program for line in after}
    for program in dict.fromkeys(line.program for line in before if line.program in known):
        old, new = (_counts(program, lines) for lines in (before, after))
        for position in range(1, len(BAD_TO_GOOD)):
            bad = BAD_TO_GOOD[:position]
            if sum(new[verdict] for verdict in bad) > sum(old[verdict] for verdict in bad):
                found.append(f"{program}: was {_words(old)}, is {_words(new)}")
                break
    return found


def _counts(program: str, lines: Sequence[Line]) -> dict[str, int]:
    own = [line.verdict for line in lines if line.program == program]
    return {verdict: own.count(verdict) for verdict in BAD_TO_GOOD}


def _words(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count) or "without kernels"
