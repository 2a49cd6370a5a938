"""What a check found, as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from inductor_npu.ascend.collect.collection import Omission
from inductor_npu.ascend.hivm import CubeFacts, Cycles, Finding, Verdict
from inductor_npu.ascend.report.least import Repeat

if TYPE_CHECKING:
    from inductor_npu.ascend.execute import Agreement
    from inductor_npu.ascend.lint import LintFinding
    from inductor_npu.diagnostics.explanation.data import Arithmetic

# The verdict of a kernel that was compiled, and whose final IR the reader does not understand.
UNKNOWN = "unknown"
# Verdicts, from bad to good.
VERDICTS = (
    Verdict.WRONG.value,
    Verdict.REFUSED.value,
    UNKNOWN,
    Verdict.SCALAR.value,
    Verdict.ELEMENT_DMA.value,
    Verdict.MIXED.value,
    Verdict.CUBE.value,
    Verdict.VECTOR.value,
)


@dataclass(frozen=True)
class Refusal:
    """Why there is no compiled kernel: the compiler's stage and words. `crashed`: it broke rather than refuse, and the
    folder `reproduction` has the kernel and the command.
    """

    stage: str
    message: str
    crashed: bool = False
    reproduction: str | None = None


@dataclass(frozen=True)
class Row:
    """One distinct kernel. What is None is not known: the kernel was refused, or it depends on data.

    Bytes are of device memory in one launch, `bytes_least` what it would take to read each element that is read once
    and to write each that is written once, `repeats` what is accessed more than once. `ub_share` is the share of the
    Unified Buffer that is planned, `buffers_doubled` counts tiles with two buffers, so that transfer and arithmetic
    overlap; a kernel without a loop over tiles has none. `cube`, `l1_bytes` and `l0c_bytes` are of kernels with dots.
    `cycles` are estimates from the compiled kernel, for the busiest core. `launches` counts those of the program.
    `agreement` is there where the kernel was run as Ascend's compiler understood it. `lint` has what the rules find in
    its TTIR.
    """

    kernel: str
    key: str
    operators: tuple[str, ...]
    lines: tuple[str, ...]
    launches: int
    grid: tuple[int, int, int]
    verdict: str
    source: str
    findings: tuple[Finding, ...] = ()
    refusal: Refusal | None = None
    ub_bytes: int | None = None
    ub_share: float | None = None
    l1_bytes: int | None = None
    l0c_bytes: int | None = None
    cube: CubeFacts | None = None
    buffers_doubled: int | None = None
    loops_over_tiles: bool | None = None
    bytes_read: int | None = None
    bytes_written: int | None = None
    bytes_least: int | None = None
    repeats: tuple[Repeat, ...] = ()
    vector_instructions: int | None = None
    cycles: Cycles | None = None
    assumptions: tuple[str, ...] = ()
    agreement: Agreement | None = None
    lint: tuple[LintFinding, ...] = ()

    @property
    def is_wrong(self) -> bool:
        """Whether the compiled kernel does something else than the kernel on the embedded NPU: its final IR shows it,
        or what Ascend's compiler understood of it was run.
        """
        ran = self.agreement is not None and self.agreement.verdict.value in ("differs", "out of bounds")
        return ran or self.verdict == Verdict.WRONG.value

    @property
    def warnings(self) -> tuple[LintFinding, ...]:
        """Of `lint` what the verdict does not say: what is wrong on Ascend, and why a refused kernel is refused."""
        told = ("wrong", "refused") if self.refusal is not None else ("wrong",)
        return tuple(finding for finding in self.lint if finding.about.severity.value in told)

    @property
    def bytes_moved(self) -> int | None:
        """Bytes read and written in one launch."""
        if self.bytes_read is None or self.bytes_written is None:
            return None
        return self.bytes_read + self.bytes_written

    @property
    def bound(self) -> str | None:
        """The pipe that takes longest."""
        return None if self.cycles is None else self.cycles.bound

    @property
    def busy(self) -> dict[str, float]:
        """Which share of a launch the cube and the vector cores are at work, for a kernel with dots."""
        if self.cycles is None or self.cycles.launch is None:
            return {}
        return {name: share for name in ("cube", "vector") if (share := self.cycles.share(name))}

    @property
    def longest(self) -> int | None:
        """Cycles of one launch: of that pipe, or of a kernel with dots as a whole."""
        return None if self.cycles is None else self.cycles.longest

    @property
    def cost(self) -> int | None:
        """Those cycles in all launches of the program."""
        return None if self.longest is None else self.longest * self.launches


@dataclass(frozen=True)
class CheckedProgram:
    """A checked program: its kernels, what costs most first (refused ones before all others).

    `status` is the program's exit status, None where it ran in this process; `advice` says why there are no kernels, if
    so. `versions` are those of the tools that made the report. `arithmetic` is that of one call of each graph; None
    where it is not known.
    """

    program: str
    target: str
    rows: tuple[Row, ...]
    omissions: tuple[Omission, ...] = ()
    versions: dict[str, str] = field(default_factory=dict)
    unified_buffer: int = 0
    status: int | None = None
    advice: str | None = None
    arithmetic: Arithmetic | None = None

    @cached_property
    def counts(self) -> dict[str, int]:
        """How many kernels have each verdict, from bad to good."""
        return {verdict: sum(row.verdict == verdict for row in self.rows) for verdict in VERDICTS}

    def total(self, name: str) -> int | None:
        """The sum of a row's number over all launches of the program; None if it is unknown for one of the compiled."""
        known = [(getattr(row, name), row.launches) for row in self.rows if row.refusal is None]
        return None if any(value is None for value, _ in known) else sum(value * count for value, count in known)


def sorted_by_cost(rows: Sequence[Row]) -> tuple[Row, ...]:
    """What costs most first: refused kernels, those without an estimate by their verdict, the others by cycles."""
    return tuple(
        sorted(
            rows,
            key=lambda row: (row.refusal is None, row.cost is not None, -(row.cost or 0), VERDICTS.index(row.verdict)),
        )
    )
