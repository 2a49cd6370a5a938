"""Runs kernels as Ascend's compiler understood them, several at a time, and compares with the embedded NPU's
results.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from inductor_npu.ascend.compilation import Compilation
from inductor_npu.ascend.environment import AscendEnvironment, find_environment
from inductor_npu.ascend.execute.agreement import Agreement, RunVerdict
from inductor_npu.ascend.kernel import CollectedKernel
from inductor_npu.ascend.workers import WorkerDied, WorkerPool

_WORKER = "inductor_npu.ascend.execute.worker"
SECONDS = 120.0  # that one run of a kernel may take
# A worker gives up on a kernel by itself (after a few runs); this is for one that does not.
_SECONDS = 600.0


def run_kernel(
    kernel: CollectedKernel, compilation: Compilation, folder: Path, *, environment: AscendEnvironment | None = None
) -> Agreement:
    """`run_kernels` for one kernel."""
    return run_kernels([kernel], [compilation], folder, environment=environment, jobs=1)[0]


def run_kernels(
    kernels: Sequence[CollectedKernel],
    compilations: Sequence[Compilation],
    folder: Path,
    *,
    environment: AscendEnvironment | None = None,
    jobs: int | None = None,
    seconds: float = SECONDS,
    on_done: Callable[[int, Agreement], None] | None = None,
) -> list[Agreement]:
    """Runs each kernel's Linalg (`compilations`, in the same order) on the inputs of its launch, `jobs` at a time
    (default: one a core), and compares with what the embedded NPU computed; `folder` is the collection's, where
    `launch.data` is.

    Returns an Agreement for each, in order. One that crashes, hangs or leaves its arguments' memory costs nobody else's
    result; nor does one whose run takes longer than `seconds`. `on_done(index, agreement)` is called in this thread as
    each is known.

    Raises the errors of `find_environment` (unless `environment` is given), and BrokenAscendEnvironmentError if the
    processes of that environment do not start.
    """
    results: dict[int, Agreement] = {}

    def done(index: int, agreement: Agreement) -> None:
        results[index] = agreement
        if on_done is not None:
            on_done(index, agreement)

    runnable = []
    for index, (kernel, compilation) in enumerate(zip(kernels, compilations)):
        if compilation.linalg is None:
            done(index, _cannot(kernel, f"Ascend's front end refused it: {compilation.message}"))
        else:
            runnable.append(index)
    if not runnable:
        return [results[index] for index in range(len(kernels))]
    jobs = min(jobs or len(os.sched_getaffinity(0)), len(runnable))
    pool = WorkerPool(environment or find_environment(), jobs, _WORKER)
    executor = ThreadPoolExecutor(jobs)
    try:
        futures = {
            executor.submit(_run, pool, kernels[index], compilations[index], folder, seconds): index
            for index in runnable
        }
        for future in as_completed(futures):
            done(futures[future], future.result())
    finally:
        executor.shutdown(wait=False, cancel_futures=True)
        pool.close()
        executor.shutdown()
    return [results[index] for index in range(len(kernels))]


def _run(
    pool: WorkerPool, kernel: CollectedKernel, compilation: Compilation, folder: Path, seconds: float
) -> Agreement:
    with tempfile.TemporaryDirectory(prefix="inductor-npu-run-") as work:
        request = {
            "kernel": kernel.to_json(),
            "linalg": compilation.linalg,
            "target": compilation.target,
            "collection": str(folder.resolve()),
            "folder": work,
            "seconds": seconds,
        }
        try:
            return Agreement.from_json(pool.ask(request, _SECONDS))
        except WorkerDied as death:
            why = "did not end" if death.timed_out else f"died (status {death.status}): {death.output.strip()[-200:]}"
            return _cannot(kernel, f"the process that ran it {why}")


def _cannot(kernel: CollectedKernel, why: str) -> Agreement:
    return Agreement(kernel.source.name, kernel.source.key, RunVerdict.CANNOT_EXECUTE, why)
