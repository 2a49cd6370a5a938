"""The cache under stress with real kernels: a crowd of processes compiles, finds, prunes and clears in one folder, and
some of them are killed.

Each compiles random small programs with `torch.compile`, has the embedded NPU compute them and compares the results
with eager PyTorch's. Whatever fails, warns or is wrong is written to a file of the process's own at once: one that is
killed leaves what it found, and holds no lock of this program's.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import time
import warnings
from collections import Counter
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import torch._inductor.compile_fx
import torch._inductor.fx_passes.fuse_attention
import triton.compiler.code_generator  # noqa: F401 - as those before: once for all, by the process they are forked from
from torch._dynamo.utils import counters
from torch._functorch import config as functorch_config
from torch._inductor import config as inductor_config

from inductor_npu.cache import kernels
from inductor_npu.cache.entry import Entry
from inductor_npu.cache.location import kernel_store
from inductor_npu.cache.store import Store
from inductor_npu.errors import NpuWarning
from tests.cache.conftest import forget
from tests.cache.findings import Findings, as_if_later


def _network(x: torch.Tensor) -> torch.Tensor:
    """As many kernels as make processes that compile ahead worth their while (codegen/scheduling/ahead_of_time.py)."""
    functions = torch.nn.functional
    between = (torch.sin, functions.gelu, functions.normalize, functions.silu, torch.tanh, functions.softplus)
    for compute in between:
        x = compute(x @ (x.t() @ x) / x.numel())
    return x


PROGRAMS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "softmax": lambda x: torch.softmax(x, -1) * 2,
    "normalised": lambda x: (x - x.mean(-1, keepdim=True)) * torch.rsqrt(x.var(-1, keepdim=True) + 1e-5),
    "gelu": lambda x: torch.nn.functional.gelu(x) + x.sin(),
    "columns": lambda x: x.abs().sum(0) + x.amax(0),
    "transposed": lambda x: (x.t() + 1).contiguous() * 3,
    "running": lambda x: torch.cumsum(x, -1),
    "selected": lambda x: torch.where(x > 0, x.exp(), x - 1).sum(-1),
    "joined": lambda x: torch.cat([x, x.flip(-1) * 2], -1),
    "network": _network,
}
SIZES = ((5, 7), (33, 40), (64, 129), (3, 1000), (128, 16), (17, 256), (40, 33))
# A part of what all programs need, so that something is evicted whenever somebody prunes.
LIMIT = 100_000
ENDING_SECONDS = 600
LINGERING_SECONDS = 60  # what a process that compiles ahead may need to see that its parent is gone
_GRAPHS_ANEW = 0.3  # how often a process looks for kernels only, and generates the graph anew

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload([__name__])


def compile_together(folder: Path, processes: int, seconds: float, kills: int, seed: int = 0) -> Findings:
    """Lets `processes` compile, prune, clear and verify in `folder` for `seconds`; `kills` times one of them is killed
    at a random moment, and another takes its place. Nothing may fail, warn or be wrong, neither meanwhile nor for the
    process that comes after; and no process may be left.
    """
    chance = random.Random(seed)
    reports = folder / "reports"
    reports.mkdir(parents=True)
    until = time.time() + seconds
    numbers = iter(range(10**9))
    all_ended, alive = _context.Pipe(duplex=False)  # each process, and those that it forks, holds its end

    def begin() -> Any:
        worker = _context.Process(target=_work, args=(folder / "caches", reports, next(numbers), until, alive))
        with patch.dict(os.environ, CUDA_VISIBLE_DEVICES=""):  # which a forked process could not open
            worker.start()
        return worker

    workers = [begin() for _ in range(processes)]
    wrong: list[str] = []
    for moment in sorted(chance.uniform(until - seconds, until) for _ in range(kills)):
        time.sleep(max(0.0, moment - time.time()))
        victim = workers.pop(chance.randrange(processes))
        if victim.exitcode not in (None, 0):
            wrong.append(f"a process ended early, with {victim.exitcode}")
        victim.kill()
        victim.join()
        workers.append(begin())
    for worker in workers:
        worker.join(ENDING_SECONDS)
        if worker.exitcode != 0:
            wrong.append(f"a process ended with {worker.exitcode}")
            worker.kill()
    after = _context.Process(target=_work, args=(folder / "caches", reports, next(numbers), 0.0, alive))
    after.start()
    after.join(ENDING_SECONDS)
    if after.exitcode != 0:
        wrong.append(f"the process that came after ended with {after.exitcode}")
    alive.close()
    if not all_ended.poll(LINGERING_SECONDS):
        wrong.append("a process that compiles ahead was left")
    found = Findings(wrong, {"processes": processes, "seconds": round(seconds), "kills": kills})
    _add_reports(found, reports)
    return found


def _add_reports(found: Findings, reports: Path) -> None:
    sums: Counter[str] = Counter()
    for path in sorted(reports.iterdir()):
        lines = path.read_text().split("\n")
        for line in filter(None, lines[:-1]):  # what follows the last newline was being written when a process died
            report = json.loads(line)
            if "wrong" in report:
                found.wrong.append(report["wrong"])
            else:
                sums.update(report)
    found.done.update(sums)


def _work(caches: Path, reports: Path, seed: int, until: float, alive: Connection) -> None:
    """One process of the crowd; with `until` past, the one that comes after it: then each program once. It holds
    `alive` until it ends.
    """
    os.environ.update(
        TORCHINDUCTOR_CACHE_DIR=str(caches), TRITON_CACHE_DIR=str(caches / "triton"), INDUCTOR_NPU_SIM_THREADS="1"
    )
    os.environ.pop("INDUCTOR_NPU_CACHE_DIR", None)
    torch.set_num_threads(1)
    chance = random.Random(seed)
    with (
        (reports / str(seed)).open("w", buffering=1) as report,
        inductor_config.patch(force_disable_caches=False, compile_threads=3),
        warnings.catch_warnings(record=True) as told,
    ):
        warnings.simplefilter("always", NpuWarning)
        steps = [lambda: _step(chance)] if until else [lambda p=p, s=s: _run(p, s) for p in PROGRAMS for s in SIZES]
        while True:
            for step in steps:
                try:
                    done = step()
                except Exception as error:  # noqa: BLE001 - any failure at all is what this looks for
                    done = {"wrong": f"{type(error).__name__}: {error}"}
                report.write(json.dumps(done) + "\n")
                for warning in told:
                    if issubclass(warning.category, NpuWarning):
                        report.write(json.dumps({"wrong": str(warning.message)}) + "\n")
                told.clear()
            if time.time() > until:
                return


def _step(chance: random.Random) -> dict[str, Any]:
    """Does one thing, and says what; raises if it was wrong."""
    action = chance.random()
    if action < 0.94:
        anew = chance.random() < _GRAPHS_ANEW
        with inductor_config.patch(fx_graph_cache=not anew), functorch_config.patch(enable_autograd_cache=not anew):
            return _run(chance.choice(list(PROGRAMS)), chance.choice(SIZES))
    store = kernel_store()
    if action < 0.97:
        return {"prunes": 1, "evicted": as_if_later(Store(store.folder, LIMIT)).prune()[0]}
    if action < 0.98:
        store.clear()
        return {"clears": 1}
    verified = list(store.entries())
    for listed, entry in verified:
        if not isinstance(entry, Entry):
            raise AssertionError(f"{listed.path}: {entry}")
    return {"entries verified": len(verified)}


def _run(program: str, size: tuple[int, int]) -> dict[str, Any]:
    """Compiles `program` as a process does that has not seen it, and compares its result with eager PyTorch's."""
    forget()
    function, x = PROGRAMS[program], torch.linspace(-3, 3, size[0] * size[1]).reshape(size)
    actual = torch.compile(function, dynamic=False)(x.to("npu"))
    torch.testing.assert_close(actual.cpu(), function(x), rtol=1e-4, atol=1e-4, msg=lambda m: f"{program} {size}: {m}")
    got = counters[kernels.COUNTERS]
    return {"results": 1, "kernels compiled": got["miss"], "kernels found": got["hit"]}
