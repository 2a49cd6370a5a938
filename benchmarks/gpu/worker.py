"""The process that measures, started by `python -m benchmarks.gpu`: it takes names of cases from its standard input, a
line each, and answers with a line of JSON. A case that crashes, or leaves the GPU broken, ends this process only.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Iterator
from typing import Any, TextIO

import torch

from benchmarks.gpu import cold, kernels, networks, small
from benchmarks.gpu.case import Case, Setup
from benchmarks.gpu.measuring import release, wait

MACHINE = "machine"  # what is asked for first: not a case


def all_cases() -> Iterator[Case]:
    """In the order in which they are measured."""
    for module in (kernels, networks, small, cold):
        yield from module.cases()


def main() -> None:
    """Answers until its standard input ends."""
    setup = Setup(**json.loads(sys.argv[1]))
    # What libraries print goes beside the answers.
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)
        cases = {f"{case.group}: {case.name}": case for case in all_cases()}
        _answer(answers, {"cases": list(cases)})
        for line in sys.stdin:
            name = line.strip()
            result = _machine(setup) if name == MACHINE else _measured(cases[name], setup)
            _answer(answers, result)
            if result.get("broken"):
                return


def _answer(answers: TextIO, content: dict[str, Any]) -> None:
    answers.write(json.dumps(content) + "\n")
    answers.flush()


def _measured(case: Case, setup: Setup) -> dict[str, Any]:
    start = time.perf_counter()
    result: dict[str, Any] = {"group": case.group, "name": case.name}
    try:
        result |= {"status": "measured", **case.measure(setup)}
    except Exception as error:  # noqa: BLE001 - it is told, and the table says it
        traceback.print_exc()
        result |= {"status": "failed", "reason": f"{type(error).__name__}: {error}".strip().splitlines()[0][:300]}
    try:
        release(setup)
        for device in (setup.ours, setup.stock):
            assert torch.ones(8).to(device).cpu().sum().item() == 8, f"copies to and from {device} are wrong"
        wait(setup)
    except Exception as error:  # noqa: BLE001 - it is told, and another process goes on
        result |= {"broken": f"{type(error).__name__}: {error}"[:300]}
    return {**result, "took": time.perf_counter() - start}


def _machine(setup: Setup) -> dict[str, Any]:
    """What the numbers depend on, and the bandwidth of copies."""
    import platform

    import transformers
    import triton

    facts = {
        "card": torch.cuda.get_device_name() if setup.stock == "cuda" else setup.stock,
        "torch": torch.__version__,
        "triton": triton.__version__,
        "transformers": transformers.__version__,
        "python": platform.python_version(),
        "cores": str(len(os.sched_getaffinity(0))),
        "workers": str(setup.workers),
    }
    bandwidth: dict[str, float] = {}
    try:
        for name, rate in kernels.copy_bandwidths(setup):
            bandwidth[name] = rate
    except Exception as error:  # noqa: BLE001 - it is told, and the table says it
        traceback.print_exc()
        return {"machine": facts, "bandwidth": bandwidth, "broken": f"{type(error).__name__}: {error}"[:300]}
    return {"machine": facts, "bandwidth": bandwidth}


if __name__ == "__main__":
    main()
