"""A record of every launch, with the counters of the kernels that were compiled to count."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from inductor_npu.support.switches import is_on

from .instrumentation import instrumentation_mode

RECORD_VARIABLE = "INDUCTOR_NPU_RECORD"  # 1: every kernel that this process compiles counts
COUNTING = "npu-record"  # instrumentation mode, part of Triton's key for the kernels that it keeps in memory


@dataclass(frozen=True)
class LaunchRecord:
    """One launch of a kernel.

    `programs` is the size of its grid, `bytes_read` and `bytes_written` count device memory (not lanes that a mask
    switched off), `vector_operations` instructions on vectors of the host (tl.dot, work of the cube unit, is none).
    The three are None where the kernel was compiled without counters.
    """

    name: str
    device: int
    stream: int
    programs: int
    microseconds: float
    bytes_read: int | None
    bytes_written: int | None
    vector_operations: int | None


_recording = False


def is_counting() -> bool:
    """Whether kernels that are compiled now get counters."""
    return _recording or is_on(RECORD_VARIABLE)


@contextlib.contextmanager
def record() -> Iterator[list[LaunchRecord]]:
    """Records every launch inside the `with` block; the list is filled when the block ends, in order of completion.

    Kernels that are compiled in the block count what they do, which makes them slower; from Triton 3.6 on, kernels that
    the user launches are compiled anew for it. torch.compile does not compile again what it has: for the counters of
    its kernels set INDUCTOR_NPU_RECORD=1 before the process starts. Waits for all queued work, before and after.
    Raises RuntimeError inside another record.
    """
    global _recording
    if _recording:
        raise RuntimeError("launches are being recorded already; end the surrounding record() first")
    from ...device.npu.runtime import extension

    launch_record = extension().launch_record
    launches: list[LaunchRecord] = []
    with instrumentation_mode(COUNTING):
        _recording = True
        launch_record(True)
        try:
            yield launches
        finally:
            launches += [_launch(entry) for entry in launch_record(False)]
            _recording = False


def _launch(entry: dict[str, int]) -> LaunchRecord:
    counters = (entry["bytes_read"], entry["bytes_written"], entry["vector_operations"])
    return LaunchRecord(
        str(entry["name"]),
        entry["device"],
        entry["stream"],
        entry["programs"],
        (entry["end_ns"] - entry["begin_ns"]) / 1000,
        *(counters if any(counters) else (None, None, None)),
    )
