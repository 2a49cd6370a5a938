"""Which axes of a tile one loop covers."""

from __future__ import annotations

from dataclasses import dataclass

TINY = 4  # axes up to this extent are merged with their neighbours


@dataclass(eq=False, slots=True)
class AxisRun:
    """Neighbouring axes [first, last) that one loop walks, up to position `extent`."""

    first: int
    last: int
    extent: int


def merge_axes(shape: tuple[int, ...], reduced: int | None) -> list[AxisRun]:
    """Runs of axes: tiny ones join their neighbours, the reduced axis stands alone, axes of one element vanish."""
    runs: list[AxisRun] = []
    for axis, extent in enumerate(shape):
        previous = runs[-1] if runs else None
        if axis == reduced or previous is None or (reduced is not None and previous.first <= reduced < previous.last):
            runs.append(AxisRun(axis, axis + 1, extent))
        elif (
            extent == 1
            or previous.extent == 1
            or (extent <= TINY and previous.extent <= TINY * 64 and not _is_wide(shape, previous))
        ):
            previous.last, previous.extent = axis + 1, previous.extent * extent
        else:
            runs.append(AxisRun(axis, axis + 1, extent))
    return runs


def _is_wide(shape: tuple[int, ...], run: AxisRun) -> bool:
    """Whether the run holds an axis that is worth a loop of its own."""
    return any(shape[a] > TINY for a in range(run.first, run.last))


def vector_run(runs: list[AxisRun], vector_axis: int) -> AxisRun | None:
    """The run whose neighbours fill the lanes: that of `vector_axis` unless it is short; None where there are none."""
    longer = [r for r in runs if r.extent > 1]
    if not longer:
        return None
    preferred = next((r for r in longer if r.first <= vector_axis < r.last), longer[-1])
    return max(longer, key=lambda r: r.extent) if preferred.extent < TINY else preferred
