"""Processes that begin at once with one cache, and what each of them says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from inductor_npu.cache.entry import Key
from inductor_npu.cache.store import Store

ROOT = Path(__file__).parents[2]
# Of this process's environment, what would change the cache of another.
_UNSET = ("INDUCTOR_NPU_CACHE", "INDUCTOR_NPU_STRICT", "TORCHINDUCTOR_FORCE_DISABLE_CACHES", "TRITON_CACHE_DIR")
_TIMEOUT = 580
_IMPORTS = """
import json, os, pathlib, sys, time
import torch, torch._inductor.compile_fx
from torch._dynamo.utils import counters

"""
# Imports take most of a process's time: those of a crowd are forks of one that has done them. It has compiled nothing:
# any compile opens the device, which a fork then cannot use.
_CROWD = """
statuses, children = [], []
for rank in os.environ["RANKS"].split():
    children.append(os.fork())
    if children[-1] == 0:
        os.environ["RANK"] = rank
        os.dup2(os.open(os.environ["TOLD"] + rank, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
        break
    if os.environ["IN_TURN"] == "True":
        statuses.append(os.waitpid(children.pop(), 0)[1])
else:
    sys.exit(any([*statuses, *(os.waitpid(child, 0)[1] for child in children)]))

"""
# They end their work at different times: each waits here until all have come so far.
_GATE = """

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

_HOLDER = """
import json, sys, time
from pathlib import Path
from inductor_npu.cache.entry import Key
from inductor_npu.cache.store import Store
hold = Store(Path(sys.argv[1])).try_hold(Key(sys.argv[2], json.loads(sys.argv[3])))
print("held" if hold else "not held", flush=True)
time.sleep(600)
"""


def start(
    program: str,
    folder: Path,
    directory: Path,
    under: Sequence[str] = (),
    **settings: str,
) -> subprocess.Popen[str]:
    """Starts `program` in `directory`, alone, with all caches in `folder`. It has to `tell(...)` at its end. `under`: a
    command that runs the command after it.
    """
    shared = {"GATE": str(folder / "gate"), "RANK": "0", "WORLD_SIZE": "1"}
    return subprocess.Popen(
        [*under, sys.executable, "-c", _IMPORTS + _GATE + textwrap.dedent(program)],
        cwd=directory,
        env={**environment(folder), **shared, **settings},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@contextmanager
def holding(store: Store, key: Key) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds `key` of `store` until it is killed, at the latest at the end."""
    command = [sys.executable, "-c", _HOLDER, str(store.folder), key.kind, json.dumps(dict(key.fields))]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def environment(folder: Path) -> dict[str, str]:
    """This process's, less what it says of caches, and with all of those in `folder`."""
    ours = folder / "ours"
    ours.mkdir(parents=True, exist_ok=True)
    bring_device(ours)
    inherited = {name: value for name, value in os.environ.items() if name not in _UNSET}
    caches = {"TORCHINDUCTOR_CACHE_DIR": str(folder), "INDUCTOR_NPU_CACHE_DIR": str(ours)}
    # Else importing Inductor starts CUDA where there is a GPU (PyTorch's benchmarking.py): forked processes could not.
    forkable = {"PYTORCH_NVML_BASED_CUDA_CHECK": "1"}
    return {**inherited, **caches, **forkable, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


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
    """What `processes` of `program` tell that call `begin_together()` at once, with caches in `folder`. Each has to
    `tell(...)` at its end.
    """
    return _run_crowd(program, range(processes), folder, processes, settings)


def run_in_turn(program: str, ranks: Sequence[int], folder: Path, **settings: str) -> list[dict[str, Any]]:
    """What processes of `program` tell, of which each begins when the last has ended, with caches in `folder`."""
    return _run_crowd(program, ranks, folder, 1, settings)


def _run_crowd(
    program: str, ranks: Sequence[int], folder: Path, at_once: int, settings: dict[str, str]
) -> list[dict[str, Any]]:
    folder.mkdir(exist_ok=True)
    shared = {"GATE": str(folder / "gate"), "WORLD_SIZE": str(at_once), "TOLD": str(folder / "told-")}
    order = {"RANKS": " ".join(map(str, ranks)), "IN_TURN": str(at_once == 1)}
    crowd = subprocess.Popen(
        [sys.executable, "-c", _IMPORTS + _CROWD + _GATE + textwrap.dedent(program)],
        cwd=folder,
        env={**environment(folder), **shared, **order, **settings},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        _, errors = crowd.communicate(timeout=_TIMEOUT)
    except subprocess.TimeoutExpired:
        os.killpg(crowd.pid, signal.SIGKILL)
        raise
    assert crowd.returncode == 0, errors
    return [json.loads((folder / f"told-{rank}").read_text().splitlines()[-1]) for rank in ranks]


def kernels_kept(folder: Path) -> int:
    """How many compiled kernels are in the caches of `folder`."""
    return len(list((folder / "ours" / "entries" / "kernel").glob("*/*")))


def total(found: Sequence[dict[str, Any]], what: str) -> int:
    """The sum of one number that all processes tell."""
    return sum(each.get(what, 0) for each in found)
