"""Times of phases as a table."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from inductor_npu.diagnostics.compile_time.times import PhaseTime


def table(title: str, phases: Sequence[PhaseTime]) -> Table:
    """`phases` from first to last, with their share of the whole, under `title`."""
    shown = Table(title=title, title_justify="left", show_footer=True)
    total = sum(phase.seconds for phase in phases)
    processor = sum(phase.processor_seconds for phase in phases)
    shown.add_column("Phase", footer="all")
    shown.add_column("s", justify="right", footer=f"{total:.3f}")
    shown.add_column("%", justify="right", footer="100" if total else "")
    shown.add_column("processor s", justify="right", footer=f"{processor:.3f}")
    shown.add_column("spans", justify="right")
    for phase in phases:
        share = f"{phase.seconds / total:.0%}".rstrip("%") if total else ""
        shown.add_row(
            phase.phase.value, f"{phase.seconds:.3f}", share, f"{phase.processor_seconds:.3f}", str(phase.spans)
        )
    return shown
