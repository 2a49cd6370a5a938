"""What one process of a sweep does: samples of one operator, one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from multiprocessing.connection import Connection

from opinfo.outcomes import Case, Outcome, Verdict
from tools.tables import one_line
from tools.workers import SETTINGS, Loss, Processes


@dataclass(frozen=True)
class Task:
    """Samples of one operator, of one dtype, for one device: those of `indices` that there are."""

    operator: str
    dtype: str
    indices: tuple[int, ...]
    dynamic: bool
    device: str

    def case(self, index: int) -> Case:
        return Case(self.operator, self.dtype, index, self.dynamic)

    def lost(self, index: int, loss: Loss) -> Outcome:
        """The outcome of a sample during which its process ended."""
        if loss.late:
            return Outcome(self.case(index), Verdict.TIMEOUT, "" if loss.begun else "making samples")
        return Outcome(self.case(index), Verdict.CRASH, loss.reason)


def work(pipe: Connection) -> None:
    """Serves tasks; says how many samples an operator has where it has fewer than a task asks for."""
    from opinfo import running
    from opinfo.samples import samples_of

    running.prepare()
    while True:
        task, left = pipe.recv()
        try:
            samples = samples_of(task.operator, task.dtype, max(left) + 1)
        except Exception as error:  # noqa: BLE001 - it is the database's, and the table says it
            reason = one_line(f"no samples: {running.first_line(error)}")
            for index in left:
                pipe.send(("outcome", Outcome(task.case(index), Verdict.SKIPPED, reason)))
            pipe.send(("done", False))
            continue
        if len(samples) <= max(left):
            pipe.send(("said", len(samples)))
        for index in left:
            if index < len(samples):
                pipe.send(("begin", index))
                pipe.send(("outcome", running.run_case(task.case(index), samples[index], task.device)))
        pipe.send(("done", False))


# Kernels are strict: one that does not compile is a failure. The database takes seconds to read.
PROCESSES = Processes(
    work,
    preload=("opinfo.running", "torch.testing._internal.common_methods_invocations"),
    settings={**SETTINGS, "INDUCTOR_NPU_STRICT": "1"},
)
