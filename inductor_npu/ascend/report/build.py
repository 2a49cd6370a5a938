"""From collected and compiled kernels to the rows of a report."""

from __future__ import annotations

from dataclasses import replace

from inductor_npu.ascend.compilation import Compilation
from inductor_npu.ascend.hivm import Verdict, analyse
from inductor_npu.ascend.kernel import CollectedKernel, Launch
from inductor_npu.ascend.lint import lint_ttir
from inductor_npu.ascend.report.descriptors import tails_without_bounds
from inductor_npu.ascend.report.least import least_bytes
from inductor_npu.ascend.report.model import UNKNOWN, Refusal, Row
from inductor_npu.errors import HivmSyntaxError
from inductor_npu.simulator.triton_backend.ttir.lexer import ParseError
from inductor_npu.target import NpuTarget


def make_row(kernel: CollectedKernel, compilation: Compilation, target: NpuTarget) -> Row:
    """The row of one kernel: what the compiler said of it, or what its final IR shows."""
    row = Row(
        kernel=kernel.source.name,
        key=kernel.source.key,
        operators=kernel.origin.operators,
        lines=kernel.origin.lines,
        launches=kernel.launches,
        grid=kernel.launch.grid,
        verdict=Verdict.REFUSED.value,
        source=kernel.source.text,
    )
    row = _with_lint(row, compilation)
    if compilation.hivm is None:
        stage = "compiler" if compilation.failed is None else compilation.failed.value
        refusal = Refusal(stage, compilation.message, compilation.crashed, compilation.reproduction)
        return replace(row, refusal=refusal)
    try:
        analysis = analyse(compilation.hivm, target, kernel.launch)
    except HivmSyntaxError as error:
        return replace(row, verdict=UNKNOWN, assumptions=(*row.assumptions, str(error)))
    row = replace(
        row,
        verdict=analysis.verdict.value,
        findings=analysis.findings,
        ub_bytes=analysis.ub_bytes,
        ub_share=analysis.ub_share,
        l1_bytes=analysis.l1_bytes if analysis.cube else None,
        l0c_bytes=analysis.l0c_bytes if analysis.cube else None,
        cube=analysis.cube,
        buffers_doubled=analysis.buffers_doubled,
        loops_over_tiles=analysis.loops_over_tiles,
        bytes_read=analysis.bytes_read,
        bytes_written=analysis.bytes_written,
        vector_instructions=analysis.vector_instructions,
        cycles=analysis.cycles,
        assumptions=(*row.assumptions, *analysis.assumptions),
    )
    row = _with_descriptors(row, compilation, kernel.launch)
    return _with_least(row, compilation, kernel.launch)


def _with_descriptors(row: Row, compilation: Compilation, launch: Launch) -> Row:
    """`row` as wrong code where tensor descriptors go beyond the end of a tensor, which the final IR does not show."""
    if compilation.ttir is None or not any(finding.rule == "N112" for finding in row.lint):
        return row
    found = tails_without_bounds(compilation.ttir, launch)
    return replace(row, verdict=Verdict.WRONG.value, findings=(*found, *row.findings)) if found else row


def _with_lint(row: Row, compilation: Compilation) -> Row:
    """`row` with what the rules find in the kernel's TTIR, if it came that far."""
    if compilation.ttir is None:
        return row
    try:
        return replace(row, lint=lint_ttir(compilation.ttir))
    except ParseError as error:
        return replace(row, assumptions=(f"the lint does not understand the kernel's TTIR: {error}",))


def _with_least(row: Row, compilation: Compilation, launch: Launch) -> Row:
    """`row` with what the launch has to read and write; where that is not known exactly, no more than what it moves."""
    if compilation.ttir is None:
        return row
    try:
        least = least_bytes(compilation.ttir, launch)
    except ParseError:
        return row  # the lint has said so
    if least.exact:
        return replace(row, bytes_least=least.read + least.written, repeats=least.repeats)
    pairs = ((least.read, row.bytes_read), (least.written, row.bytes_written))
    return replace(row, bytes_least=sum(bound if moved is None else min(bound, moved) for bound, moved in pairs))
