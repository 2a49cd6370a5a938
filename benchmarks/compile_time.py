"""(b) Cold compile time: the first call in a fresh process with empty caches, imports of the compiler included."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import textwrap
from dataclasses import asdict, dataclass
from typing import Any

# What is compiled: a few operations and models of different size.
COMPILED = (
    "softmax",
    "rope",
    "bert inference",
    "llama inference",
    "resnet forward + backward",
    "bert forward + backward",
)

PROGRAM = """
    import sys, time
    import torch
    from benchmarks.run_time import cases
    from benchmarks.timing import synchronize
    name, device = sys.argv[1:]
    case = next(case for case in cases(name) if case.name == name)
    run = case.make(device, True)
    start = time.perf_counter()
    run()
    synchronize(device)
    print("seconds", time.perf_counter() - start)
"""


@dataclass(frozen=True)
class CompileTime:
    """Seconds until the first result."""

    name: str
    npu: float
    inductor: float

    @property
    def ratio(self) -> float:
        """Below 1: faster than stock Inductor C++ on the CPU."""
        return self.npu / self.inductor

    def to_json(self) -> dict[str, Any]:
        """Everything, the ratio included."""
        return {**asdict(self), "ratio": self.ratio}


def measure(name: str, repeats: int, device: str = "npu") -> CompileTime:
    """The smaller of `repeats` cold compiles on each side, taking turns."""
    npu, inductor = [], []
    for _ in range(repeats):
        npu.append(_cold_seconds(name, device))
        inductor.append(_cold_seconds(name, "cpu"))
    return CompileTime(name, min(npu), min(inductor))


def _cold_seconds(name: str, device: str) -> float:
    with tempfile.TemporaryDirectory() as folder:
        caches = {"TORCHINDUCTOR_CACHE_DIR": folder, "TRITON_CACHE_DIR": f"{folder}/triton"}
        finished = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(PROGRAM), name, device],
            env={**os.environ, **caches},
            capture_output=True,
            text=True,
            check=False,
        )
    if finished.returncode != 0:
        raise RuntimeError(f"compiling {name!r} for {device} failed:\n{finished.stderr[-2000:]}")
    return float(finished.stdout.split()[-1])
