"""A process that measures, started by `process.py`: it takes questions from its standard input, a line of JSON each,
and answers with a line of JSON. A case that crashes, or leaves the GPU broken, ends this process only.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Iterator
from typing import Any, TextIO

import torch

from benchmarks.gpu import kernels, networks, problems, profiles, small
from benchmarks.gpu.case import WORKERS, Case, Prepared, Setup, reason_of
from benchmarks.gpu.measuring import moved, release


def all_cases() -> Iterator[Case]:
    """In the order in which they are measured; cold compiles are not among them."""
    for module in (kernels, networks, problems, small):
        yield from module.cases()


class Answers:
    """Each method answers one question, for the sides of process `worker`; what it is told comes by name."""

    def __init__(self, worker: str, setup: Setup) -> None:
        if worker not in WORKERS:
            raise KeyError(f"no process is called {worker}: {', '.join(WORKERS)}")
        self._worker, self._setup = worker, setup
        self._cases = {f"{case.group}: {case.name}": case for case in all_cases()}
        self._prepared = Prepared({})

    @property
    def cases(self) -> list[str]:
        return list(self._cases)

    def machine(self) -> dict[str, Any]:
        """What the numbers depend on, which GPU it is, and the bandwidth of copies."""
        rate = kernels.copy_bandwidth(self._setup, self._setup.device(self._worker))
        if self._worker != "stock":
            return {"rate": rate}
        is_gpu = self._setup.stock == "cuda"
        gpu = str(torch.cuda.get_device_properties(0).uuid) if is_gpu else ""
        return {"rate": rate, "machine": _facts(self._setup), "gpu": gpu}

    def prepare(self, case: str, results: str) -> dict[str, Any]:
        """Compiles and runs once; the results of ours go into a file."""
        prepared = self._cases[case].prepare(self._setup, self._worker)
        if prepared.results:
            torch.save(moved(prepared.results, "cpu"), results)
            prepared.results.clear()
        self._prepared = prepared
        return {"turns": list(prepared.turns), "known": prepared.known, "rounds": prepared.rounds}

    def turn(self, turn: str) -> dict[str, Any]:
        """Seconds of one round."""
        return {"seconds": self._prepared.turns[turn]()}

    def profile(self, turn: str) -> dict[str, Any]:
        """What the device runs in one round (`profiles.Row`)."""
        return {"rows": profiles.taken(self._prepared.turns[turn])}

    def finish(self, numbers: dict[str, Any], results: str) -> dict[str, Any]:
        """What follows from the times, and from the results of ours."""
        assert self._prepared.finish is not None, "only the process of stock compares"
        tensors = torch.load(results, mmap=True) if os.path.exists(results) else []
        return self._prepared.finish(numbers, tensors)

    def release(self) -> dict[str, Any]:
        """Frees the case. An error says that the device does not work any more."""
        self._prepared = Prepared({})
        device = self._setup.device(self._worker)
        release(device)
        assert torch.ones(8).to(device).cpu().sum().item() == 8, f"copies to and from {device} are wrong"
        return {}


def main() -> None:
    """Answers until its standard input ends."""
    worker, setup = sys.argv[1], Setup(**json.loads(sys.argv[2]))
    # What libraries print goes beside the answers.
    with os.fdopen(os.dup(1), "w") as pipe:
        os.dup2(2, 1)
        answers = Answers(worker, setup)
        _say(pipe, {"cases": answers.cases})
        for line in sys.stdin:
            question = json.loads(line)
            do = question.pop("do")
            try:
                answer = getattr(answers, do)(**question)
            except Exception as error:  # noqa: BLE001 - it is told, and the table says it
                print(f"{do} {question.get('case', '')}:", file=sys.stderr, flush=True)
                traceback.print_exc()
                answer = {"failed": reason_of(error)}
            _say(pipe, answer)


def _say(pipe: TextIO, content: dict[str, Any]) -> None:
    pipe.write(json.dumps(content) + "\n")
    pipe.flush()


def _facts(setup: Setup) -> dict[str, str]:
    import platform

    import transformers
    import triton

    return {
        "card": torch.cuda.get_device_name() if setup.stock == "cuda" else setup.stock,
        "torch": torch.__version__,
        "triton": triton.__version__,
        "transformers": transformers.__version__,
        "python": platform.python_version(),
        "cores": str(len(os.sched_getaffinity(0))),
        "workers": str(setup.workers),
    }


if __name__ == "__main__":
    main()
