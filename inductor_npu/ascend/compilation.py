"""Compiles kernels with Ascend's compiler: cached, each distinct one once, several at a time."""

from __future__ import annotations

import json
import math
import os
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from inductor_npu.ascend.environment import AscendEnvironment, find_environment
from inductor_npu.ascend.kernel import KernelSource
from inductor_npu.ascend.reproduction import save_reproduction
from inductor_npu.ascend.toolchain.failures import NO_END, Stage, crash_message
from inductor_npu.ascend.workers import WorkerDied, WorkerPool
from inductor_npu.cache.entry import Entry, Key
from inductor_npu.cache.location import user_store
from inductor_npu.identity import device_functions_identity

__all__ = ["Compilation", "Stage", "compile_kernels"]

# Longer than any kernel takes that is not stuck: the slowest of the corpus takes seconds. What has used so much of a
# processor will not end; what only waited, by the clock, may on another day.
PROCESSOR_SECONDS = 100
SECONDS_A_KERNEL = 300.0
# A worker takes as long to start as a dozen kernels to compile, and some 350 MB: few kernels do not get many.
KERNELS_A_WORKER = 8


@dataclass(frozen=True)
class Compilation:
    """What Ascend's compiler made of one kernel for one chip; has a JSON form.

    `hivm` is the final IR, None if the kernel was refused; then `failed` says where and `message` why, in the
    compiler's words shortened to what matters ("ub overflow, requires 1966080 bits while 1572864 bits available":
    `required_bits`). `crashed`: it broke (signal, assertion) or did not end, rather than refuse the kernel;
    `reproduction` is then a folder with kernel.py, kernel.ttir, kernel.mlir (as far as it came) and the command.
    """

    key: str
    target: str
    ttir: str | None
    linalg: str | None
    hivm: str | None
    failed: Stage | None
    message: str
    crashed: bool
    required_bits: int | None
    seconds: float
    reproduction: str | None = None

    @property
    def lasting(self) -> bool:
        """Whether the compiler would say the same again. After a crash that is so if it ended itself (a failed
        assertion), unless for want of memory, and if it used up its processor time; a signal from outside, no end by
        the clock or a full disk may pass.
        """
        aborted = "crashed on SIGABRT" in self.message and "bad_alloc" not in self.message
        return not self.crashed or ((aborted or NO_END in self.message) and self.reproduction is not None)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "failed": self.failed and self.failed.value}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Compilation:
        return cls(**{**data, "failed": data["failed"] and Stage(data["failed"])})

    def pack(self) -> bytes:
        """The JSON form, compressed: what the cache keeps."""
        return zlib.compress(json.dumps(self.to_json()).encode())

    @classmethod
    def unpack(cls, data: bytes) -> Compilation:
        return cls.from_json(json.loads(zlib.decompress(data)))


def compile_kernels(
    kernels: Sequence[KernelSource],
    target: str,
    *,
    environment: AscendEnvironment | None = None,
    jobs: int | None = None,
    on_done: Callable[[int, Compilation], None] | None = None,
) -> list[Compilation]:
    """Compiles `kernels` for the chip `target` (as bishengir-compile names it), up to `jobs` at a time (default: as
    many as there are cores).

    Returns one Compilation for each kernel, in order; equal kernels share one. A kernel that the compiler refuses, or
    crashes on, is a Compilation that says so; the others go on. `on_done(index, compilation)` is called in this
    thread as each is known. Lasting results are kept in the user's cache; that of a crash counts as long as the folder
    with its reproduction exists.

    Raises the errors of `find_environment` (unless `environment` is given), UnknownAscendTargetError, and
    BrokenAscendEnvironmentError if the compiler's processes do not start.
    """
    environment = environment or find_environment()
    environment.check_target(target)
    jobs = jobs or len(os.sched_getaffinity(0))
    places: dict[str, list[int]] = {}
    for index, kernel in enumerate(kernels):
        places.setdefault(kernel.key, []).append(index)
    results: dict[int, Compilation] = {}

    def done(compilation: Compilation) -> None:
        for index in places[compilation.key]:
            results[index] = compilation
            if on_done is not None:
                on_done(index, compilation)

    store = user_store()
    missing = []
    for key, indices in places.items():
        entry = store.read(_cache_key(key, target, environment))
        known = None if entry is None else Compilation.unpack(entry.content)
        if known is None or (known.reproduction is not None and not Path(known.reproduction).is_dir()):
            missing.append(kernels[indices[0]])
        else:
            done(known)
    # The longest texts tend to take longest: first, so that no core is left with one of them at the end.
    missing.sort(key=lambda kernel: len(kernel.text), reverse=True)
    jobs = min(jobs, math.ceil(len(missing) / KERNELS_A_WORKER))
    for compilation in _compile_all(missing, target, environment, jobs):
        if compilation.lasting:
            store.write(Entry(_cache_key(compilation.key, target, environment), compilation.pack()))
        done(compilation)
    return [results[index] for index in range(len(kernels))]


def _cache_key(key: str, target: str, environment: AscendEnvironment) -> Key:
    return Key(
        "verdict",
        {
            "kernel": key,
            "target": target,
            "toolchain": environment.identity,
            "device functions": device_functions_identity(),
            "form": ",".join(field.name for field in fields(Compilation)),
        },
    )


def _compile_all(
    kernels: Sequence[KernelSource], target: str, environment: AscendEnvironment, jobs: int
) -> Iterator[Compilation]:
    """Compiles `kernels`, `jobs` at a time; yields each as it is done."""
    if not kernels:
        return
    pool = WorkerPool(environment, jobs)
    executor = ThreadPoolExecutor(jobs)
    try:
        for future in as_completed([executor.submit(_compile, pool, kernel, target) for kernel in kernels]):
            yield future.result()
    finally:
        executor.shutdown(wait=False, cancel_futures=True)
        pool.close()
        executor.shutdown()


def _compile(pool: WorkerPool, kernel: KernelSource, target: str) -> Compilation:
    with tempfile.TemporaryDirectory(prefix="inductor-npu-kernel-") as name:
        folder = Path(name)
        start = time.perf_counter()
        try:
            request = {"kernel": asdict(kernel), "target": target, "folder": name}
            answer = pool.ask({**request, "processor_seconds": PROCESSOR_SECONDS}, SECONDS_A_KERNEL)
        except WorkerDied as death:
            answer = _answer_for(death, folder, time.perf_counter() - start)
        reproduction = save_reproduction(kernel, target, folder) if answer["crashed"] else None
    compilation = Compilation(key=kernel.key, target=target, reproduction=reproduction, **answer)
    return replace(compilation, failed=compilation.failed and Stage(compilation.failed))


def _answer_for(death: WorkerDied, folder: Path, seconds: float) -> dict[str, Any]:
    """What a worker would have answered that died over a kernel: Triton's passes, which run in it, broke."""
    ttir, linalg = (_text(folder / name) for name in ("kernel.ttir", "kernel.mlir"))
    if death.timed_out:
        message = f"the compiler did not end within {SECONDS_A_KERNEL:g} s"
    else:
        message = crash_message("Ascend's front end", death.status, death.output)
    stage = Stage.FRONT_END if linalg is None else Stage.BISHENGIR
    return {
        "ttir": ttir,
        "linalg": linalg,
        "hivm": None,
        "failed": stage.value,
        "message": message,
        "crashed": True,
        "required_bits": None,
        "seconds": seconds,
    }


def _text(path: Path) -> str | None:
    return path.read_text() if path.is_file() else None
