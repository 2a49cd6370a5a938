"""Processes that begin at once with one cache, and what each of them says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
# Of this process's environment, what would change the cache of another.
_UNSET = ("INDUCTOR_NPU_CACHE", "INDUCTOR_NPU_STRICT", "TORCHINDUCTOR_FORCE_DISABLE_CACHES", "TRITON_CACHE_DIR")
_TIMEOUT = 580
# Imports take most of a process's time and end at different times: each waits here until all have come so far.
_GATE = """
import json, os, pathlib, sys, time
import torch, torch._inductor.compile_fx
from torch._dynamo.utils import counters

def begin_together():
    torch.ones(1, device="npu")
    gate = pathlib.Path(os.environ["GATE"])
    gate.mkdir(exist_ok=True)
    (gate / os.environ["RANK"]).touch()
    while len(list(gate.iterdir())) < int(os.environ["WORLD_SIZE"]):
        time.sleep(0.02)

def tell(**facts):
    print(json.dumps({**counters["inductor_npu_kernel_cache"], **facts}), flush=True)

"""


def start(
    program: str,
    folder: Path,
    directory: Path,
    rank: int = 0,
    processes: int = 1,
    under: Sequence[str] = (),
    **settings: str,
) -> subprocess.Popen[str]:
    """Starts `program` in `directory` as one of `processes`, with all caches in `folder`. It may call
    `begin_together()`, and has to `tell(...)` at its end. `under`: a command that runs the command after it.
    """
    shared = {"GATE": str(folder / "gate"), "RANK": str(rank), "WORLD_SIZE": str(processes)}
    return subprocess.Popen(
        [*under, sys.executable, "-c", _GATE + textwrap.dedent(program)],
        cwd=directory,
        env={**environment(folder), **shared, **settings},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def environment(folder: Path) -> dict[str, str]:
    """This process's, less what it says of caches, and with all of those in `folder`."""
    ours = folder / "ours"
    ours.mkdir(parents=True, exist_ok=True)
    bring_device(ours)
    inherited = {name: value for name, value in os.environ.items() if name not in _UNSET}
    caches = {"TORCHINDUCTOR_CACHE_DIR": str(folder), "INDUCTOR_NPU_CACHE_DIR": str(ours)}
    return {**inherited, **caches, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def bring_device(cache: Path) -> None:
    """Lets processes whose cache directory is `cache` find the embedded NPU's library where it was built."""
    built = Path(os.environ.get("INDUCTOR_NPU_CACHE_DIR") or Path.home() / ".cache" / "inductor_npu") / "device"
    if built.is_dir() and not (cache / "device").exists():
        (cache / "device").symlink_to(built)


def told(process: subprocess.Popen[str]) -> dict[str, Any]:
    """What `process` told in the end; it has to end well."""
    output, errors = process.communicate(timeout=_TIMEOUT)
    assert process.returncode == 0, errors
    return json.loads(output.splitlines()[-1])


def run_together(program: str, processes: int, folder: Path, **settings: str) -> list[dict[str, Any]]:
    """What `processes` of `program` tell that begin at once, with caches in `folder`."""
    folder.mkdir(exist_ok=True)
    started = [start(program, folder, folder, rank, processes, **settings) for rank in range(processes)]
    try:
        return [told(process) for process in started]
    finally:
        for process in started:
            process.kill()


def kernels_kept(folder: Path) -> int:
    """How many compiled kernels are in the caches of `folder`."""
    return len(list((folder / "ours" / "entries" / "kernel").glob("*/*")))


def total(found: Sequence[dict[str, Any]], what: str) -> int:
    """The sum of one number that all processes tell."""
    return sum(each.get(what, 0) for each in found)
