"""What became of calls that were to be captured, for tests."""

from __future__ import annotations

from inductor_npu.runtime.graph_capture import statistics


def forget() -> None:
    """What came before does not count."""
    statistics._seen.clear()


def counts() -> tuple[int, int, int, int]:
    """(warmed up, captured, replayed, skipped) over all functions, so far."""
    seen = statistics.graph_captures().values()
    return (
        sum(each.warmed_up for each in seen),
        sum(each.captured for each in seen),
        sum(each.replayed for each in seen),
        sum(sum(each.skipped.values()) for each in seen),
    )
