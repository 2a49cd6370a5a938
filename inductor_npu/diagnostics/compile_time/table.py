"""The record of compile times as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

if TYPE_CHECKING:
    from inductor_npu.diagnostics.compile_time.record import CompileTimes


def table(times: CompileTimes) -> Table:
    """Phases from first to last, with their share of the whole."""
    kernels = f"{times.kernels_compiled} compiled, {times.kernels_found} found"
    compiles = f"{len(times.graphs)} {'compile' if len(times.graphs) == 1 else 'compiles'}"
    title = f"Compile time: {compiles}; kernels: {kernels}"
    shown = Table(title=title, title_justify="left", show_footer=True)
    total = times.seconds
    processor = sum(phase.processor_seconds for phase in times.phases)
    shown.add_column("Phase", footer="all")
    shown.add_column("s", justify="right", footer=f"{total:.3f}")
    shown.add_column("%", justify="right", footer="100" if total else "")
    shown.add_column("processor s", justify="right", footer=f"{processor:.3f}")
    shown.add_column("spans", justify="right")
    for phase in times.phases:
        share = f"{phase.seconds / total:.0%}".rstrip("%") if total else ""
        shown.add_row(
            phase.phase.value, f"{phase.seconds:.3f}", share, f"{phase.processor_seconds:.3f}", str(phase.spans)
        )
    return shown
