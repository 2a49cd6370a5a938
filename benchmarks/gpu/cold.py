"""Time until the first result in a fresh process with empty caches; as many processes compile on each side."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.gpu.case import Setup, shortened

# The device is built and in use, and Triton has built its driver's module for this folder of caches, before time is
# taken: both are done once on a machine. What the compiler imports counts.
PROGRAM = """
    import json, sys, time
    import torch
    import torch.nn.functional as F
    from benchmarks.gpu.case import Setup
    from benchmarks.gpu.networks import NETWORKS, built
    from benchmarks.timing import synchronize
    given = json.loads(sys.argv[1])
    device, training = given["device"], given["training"]
    network = next(network for network in NETWORKS if network.name == given["network"])
    model, inputs, call = built(network, Setup(**given["setup"]), training)
    model, inputs = model.to(device), [tensor.to(device) for tensor in inputs]
    if device != "cpu":
        import triton
        getattr(triton.runtime.driver.active, "utils", None)
    synchronize(device)
    start = time.perf_counter()
    def losses(*inputs):
        return network.loss(call(model, *inputs), *inputs)
    def outputs(*inputs):
        return call(model, *inputs)
    compiled = torch.compile(losses if training else outputs, dynamic=False)
    with torch.set_grad_enabled(training):
        result = compiled(*inputs)
        if training:
            result.backward()
    synchronize(device)
    print(json.dumps(time.perf_counter() - start))
"""
SECONDS = 280  # a process that takes longer is stopped
ROOT = Path(__file__).resolve().parents[2]


class StartError(Exception):
    """A process that compiles failed, or took too long."""


def measures() -> dict[str, Callable[[Setup], dict[str, Any]]]:
    """MiniLM in inference, and forward and backward."""
    return {
        f"compile: MiniLM, {suffix}": partial(_measure, "MiniLM", training)
        for training, suffix in ((False, "inference"), (True, "forward + backward"))
    }


def _measure(network: str, training: bool, setup: Setup) -> dict[str, Any]:
    """Seconds of the quicker start of each side; the sides take turns."""
    times: dict[str, list[float]] = {"ours": [], "stock": []}
    for _ in range(setup.repeats):
        for side, seconds in times.items():
            seconds.append(_start(network, training, setup, setup.device(side), setup.environment(side)))
    return {name: min(seconds) for name, seconds in times.items()}


def _start(network: str, training: bool, setup: Setup, device: str, settings: dict[str, str]) -> float:
    given = {"network": network, "training": training, "device": device, "setup": asdict(setup)}
    with tempfile.TemporaryDirectory() as folder:
        caches = {
            # This package's compile cache goes beside Inductor's, unless INDUCTOR_NPU_CACHE_DIR names another place:
            # leave that unset. The built device stays in the user's cache.
            "TORCHINDUCTOR_CACHE_DIR": folder,
            "TRITON_CACHE_DIR": f"{folder}/triton",
            "TORCHINDUCTOR_COMPILE_THREADS": str(setup.workers),
            "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "0",
            "INDUCTOR_NPU_CACHE": "on",
        }
        try:
            finished = subprocess.run(
                [sys.executable, "-c", textwrap.dedent(PROGRAM), json.dumps(given)],
                cwd=ROOT,
                env={**os.environ, **caches, **settings},
                capture_output=True,
                text=True,
                check=False,
                timeout=SECONDS,
            )
        except subprocess.TimeoutExpired:
            raise StartError(f"compiling {network} for {device} took more than {SECONDS} s") from None
    if finished.returncode != 0:
        raise StartError(f"compiling {network} for {device} failed: {shortened(finished.stderr.strip())}")
    return json.loads(finished.stdout.splitlines()[-1])
