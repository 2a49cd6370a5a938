"""The table in git: one line for each kernel of each program, in the order of first launches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from inductor_npu.ascend.execute import Agreement, RunVerdict
from inductor_npu.ascend.hivm import Verdict
from inductor_npu.ascend.lint.rules import Severity
from inductor_npu.ascend.report.least import Repeat
from inductor_npu.ascend.report.model import VERDICTS, Row
from tools.tables import one_line, read_table, write_table

FOLDER = Path(__file__).parent / "tables"
OMITTED = "omitted"  # the kernel could not be collected, or its operators run in eager
FAILED = "failed"  # the program itself does not run
BAD_TO_GOOD = (FAILED, OMITTED, *VERDICTS)
GOOD = (Verdict.MIXED.value, Verdict.CUBE.value, Verdict.VECTOR.value)  # as good as each other
WRONG = (RunVerdict.DIFFERS.value, RunVerdict.OUT_OF_BOUNDS.value)
_LONGEST = 160
_KEY = 8


@dataclass(frozen=True)
class Line:
    """One kernel of one program. `same_as` names the kernel before it that is the same, if there is one: it was checked
    there. Numbers are text, as they stand in the file.

    `exception` is the category and the reason of a kernel that is not vector. `repeats` are the arguments that are
    accessed more than once, and make the bytes moved more than the least by 2% or more. `key` is what the kernel is
    (its name excepted), shortened. `run` is a RunVerdict and its reason, "" where the kernel was not run; `lint` are
    the rules that it breaks of those whose results are wrong on Ascend.
    """

    program: str
    kernel: int
    operators: str
    verdict: str
    why: str = ""
    exception: str = ""
    unified_buffer: str = ""
    doubled: str = ""
    moved_to_least: str = ""
    vector_instructions: str = ""
    cycles: str = ""
    bound: str = ""
    same_as: str = ""
    key: str = ""
    repeats: str = ""
    run: str = ""
    lint: str = ""


def line_of(program: str, number: int, key: str, row: Row, exception: str, first: tuple[str, int]) -> Line:
    """The line of the `number`th kernel of a program (from 1), which is `key`. `exception`: see exceptions.reason_of.
    `first`: the first program that has it, and where it stands there (from 0).
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
        why=one_line(_why(row), _LONGEST),
        exception=one_line(exception, _LONGEST),
        unified_buffer="" if row.ub_share is None else f"{row.ub_share:.0%}",
        doubled="" if row.buffers_doubled is None else "yes" if row.buffers_doubled else "no",
        moved_to_least="" if moved is None or not row.bytes_least else f"{moved / row.bytes_least:.2f}",
        vector_instructions="" if row.vector_instructions is None else str(row.vector_instructions),
        cycles="" if row.longest is None else str(row.longest),
        bound=row.bound or "",
        key=key[:_KEY],
        repeats=", ".join(f"{one.argument} {one.times:g}x" for one in row.repeats if _counts_much(one, row))[:_LONGEST],
        run="" if row.agreement is None else one_line(_outcome(row.agreement), _LONGEST),
        lint=one_line("; ".join(_lint(row)), _LONGEST),
    )


def _counts_much(repeat: Repeat, row: Row) -> bool:
    return repeat.bytes > 0.02 * (row.bytes_least or 0)


def _outcome(agreement: Agreement) -> str:
    verdict = agreement.verdict.value
    return f"{verdict}: {agreement.message}" if agreement.message else verdict


def _lint(row: Row) -> list[str]:
    """What is wrong on Ascend though it compiles, each rule once."""
    found: dict[str, str] = {}
    for finding in row.lint:
        if finding.about.severity is Severity.WRONG:
            found.setdefault(finding.rule, f"{finding.rule} {finding.what} (line {finding.line})")
    return list(found.values())


def _why(row: Row) -> str:
    if row.refusal is not None:
        return f"{row.refusal.stage}: {row.refusal.message}"
    kinds: dict[str, str] = {}
    for finding in row.findings:
        kinds.setdefault(finding.kind, finding.what)
    return "; ".join(f"{kind} {what}" for kind, what in kinds.items())


def omitted(program: str, number: int, kernel: str, reason: str) -> Line:
    """The line of a kernel that was not collected."""
    return Line(program, number, kernel, OMITTED, one_line(reason, _LONGEST))


def failed(program: str, number: int, reason: str) -> Line:
    """The line of a program that ended early."""
    return Line(program, number, "", FAILED, one_line(reason, _LONGEST))


def path_of(target: str) -> Path:
    """Where the table of a chip is kept."""
    return FOLDER / f"{target}.tsv"


def read(target: str) -> list[Line]:
    """The accepted table of a chip; empty if there is none yet."""
    return read_table(path_of(target), Line)


def write(target: str, lines: Iterable[Line]) -> None:
    """Accepts `lines` as the table of a chip."""
    write_table(path_of(target), Line, lines)


def with_known_runs(lines: Sequence[Line], accepted: Iterable[Line]) -> list[Line]:
    """`lines`, where a kernel that was not run has the outcome that the accepted table has of the same kernel."""
    known = {line.key: line.run for line in accepted if line.key and line.run}
    return [replace(line, run=line.run or known.get(line.key, "")) for line in lines]


def worse(before: Sequence[Line], after: Sequence[Line]) -> list[str]:
    """What got worse, in words: for each program of both, its verdicts from bad to good are compared one by one.

    A program whose kernels became more is worse only if a bad verdict became more frequent. So is one with more wrong
    results, or with more breaches of the lint's rules for these.
    """
    found = []
    known = {line.program for line in after}
    for program in dict.fromkeys(line.program for line in before if line.program in known):
        old, new = (_counts(program, lines) for lines in (before, after))
        for position in range(1, len(BAD_TO_GOOD) - len(GOOD) + 1):
            bad = BAD_TO_GOOD[:position]
            if sum(new[verdict] for verdict in bad) > sum(old[verdict] for verdict in bad):
                found.append(f"{program}: was {_words(old)}, is {_words(new)}")
                break
        for what, is_so in (("wrong", is_wrong), ("against the lint", lambda line: bool(line.lint))):
            was, now = (sum(line.program == program and is_so(line) for line in lines) for lines in (before, after))
            if now > was:
                found.append(f"{program}: {was} kernels were {what}, {now} are")
    return found


def is_wrong(line: Line) -> bool:
    """Whether the kernel does something else by Ascend's compiler than on the embedded NPU."""
    return line.run.startswith(WRONG)


def _counts(program: str, lines: Sequence[Line]) -> dict[str, int]:
    own = [line.verdict for line in lines if line.program == program]
    return {verdict: own.count(verdict) for verdict in BAD_TO_GOOD}


def _words(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count) or "without kernels"
