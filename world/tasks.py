"""What one process of a sweep does: case after case."""

from __future__ import annotations

import functools
import gc
import logging
import os
import resource
import sys
import time
import warnings
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from opinfo.outcomes import Verdict
from tools.workers import SETTINGS, Loss, Processes
from world.outcomes import BUILD, COMPILED, ON_CPU, STOCK, Outcome, Side, from_json, to_json

RENEWED_ABOVE = 3 << 20  # KiB of memory


@dataclass(frozen=True)
class Task:
    """One case, and on which `sides` it runs (world/running.py), or "passes" (world/passes.py)."""

    case: str
    sides: str = "all"
    indices: tuple[int, ...] = (0,)

    def lost(self, index: int, loss: Loss) -> Outcome:
        """The outcome of the case if its process ended: of the side at which it was. What does not run on the CPU is
        no case.
        """
        outcome = from_json(loss.said) if loss.said else Outcome(self.case)
        verdict = Verdict.TIMEOUT if loss.late else Verdict.CRASH
        if outcome.stage in ("", BUILD, ON_CPU):
            outcome.verdict, outcome.reason = Verdict.SKIPPED, f"{verdict.value}: {loss.reason}".rstrip(": ")
        elif outcome.stage == STOCK:
            outcome.stock = Side(verdict, loss.reason)
            outcome.conclude()
        else:
            outcome.verdict, outcome.reason = verdict, loss.reason
        return outcome


def work(pipe: Connection, devices: tuple[str, ...]) -> None:
    """Serves tasks; says the outcome so far at each stage."""
    prepare(devices)
    from world import inductor_tests, libraries, passes
    from world.running import run_case

    while True:
        task, _ = pipe.recv()
        outcome = Outcome(task.case)
        pipe.send(("begin", 0))

        def say(stage: str, outcome: Outcome = outcome) -> None:
            outcome.stage = stage
            print(f"{time.strftime('%H:%M:%S')} {outcome.case}: {stage}", file=sys.stderr, flush=True)
            pipe.send(("said", to_json(outcome)))

        if outcome.library == "inductor":
            say(COMPILED)
            pipe.send(("outcome", inductor_tests.run_case(outcome)))
        elif task.sides == "passes":
            pipe.send(("outcome", passes.run_case(task.case, libraries.build, outcome, say)))
        else:
            pipe.send(("outcome", run_case(task.case, libraries.build, outcome, task.sides, say)))
        gc.collect()
        pipe.send(("done", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > RENEWED_ABOVE))


def prepare(devices: tuple[str, ...]) -> None:
    """What a process does before its first case, so that what the first compile of a process reads counts for none."""
    warnings.filterwarnings("ignore")
    logging.getLogger().setLevel(logging.WARNING)  # not disable(): torch 2.11 traces nothing then
    import torch

    torch.set_num_threads(1)
    for device in devices:
        matrix = torch.ones(8, 8, device=device, requires_grad=True)
        torch.compile(lambda x: (x @ x).sin().sum())(matrix).backward()


def devices_of(sides: str) -> tuple[str, ...]:
    """The devices for which processes of these sides (world/running.py) compile."""
    return {"cpu": (), "npu": ("npu",), "passes": ("npu",), "all": ("cpu", "npu")}[sides]


def processes(folder: Path, sides: str) -> Processes:
    """Processes that compile everything anew; what stock Inductor's C++ compiler makes lies in `folder`."""
    settings = {
        **SETTINGS,
        "MKL_NUM_THREADS": "1",
        "INDUCTOR_NPU_CACHE": "off",
        "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1",
        "TORCHINDUCTOR_CACHE_DIR": os.fspath(folder),
        "TORCH_COMPILE_DEBUG_DIR": os.fspath(folder),
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
    return Processes(
        functools.partial(work, devices=devices_of(sides)),
        preload=("world.running",),
        settings=settings,
        renewed_after=40,
    )


if __name__ == "__main__":  # makes what all processes share: the device's C++, headers of stock Inductor's
    prepare(("cpu", "npu"))
