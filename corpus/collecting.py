"""From programs to their kernels: each program runs once, in one of a few processes, and its kernels are kept."""

from __future__ import annotations

import hashlib
import importlib
import json
import multiprocessing
import os
import re
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

from inductor_npu import identity, providers
from inductor_npu.ascend.collect.collection import Collection
from inductor_npu.ascend.collect.program import DATA_LIMIT
from inductor_npu.support.user_cache import cache_directory

ROOT = Path(__file__).parents[1]
# Beside what decides generated code: what decides which programs there are and what is kept of them.
_SOURCES = (
    "corpus/programs",
    "examples",
    "models",
    "inductor_npu/ascend/collect",
    "inductor_npu/ascend/kernel.py",
)
_ERROR = "error.json"
KEPT_VERSIONS = 3
_CONSTANT = "CORPUS_CONSTANT"  # for processes: see collect_with

Place = tuple[str, int]  # a program, and the number of a kernel in the order of first launches, from 0


@dataclass(frozen=True)
class Collected:
    """What one program gave. `error`: None, or why it ended early; `collection` then has what it launched before."""

    program: str
    collection: Collection
    error: str | None


def all_names(target: str) -> list[str]:
    """The names of all programs. They are kept beside the collections: torch's database of operators takes seconds."""
    kept = _store(target) / "programs.json"
    if not kept.exists():
        kept.write_text(json.dumps(list(_programs())))
    return json.loads(kept.read_text())


def collect(names: Sequence[str], target: str, jobs: int, on_done: Callable[[], None]) -> list[Collected]:
    """Runs the programs called `names` on the embedded NPU as the chip `target`, `jobs` at a time.

    What was collected before from the same sources is taken from the user's cache. `on_done` is called after each
    program. Results are in the order of `names`.
    """
    store = _store(target)
    missing = [name for name in names if not _folder(store, name).is_dir()]
    for _ in range(len(names) - len(missing)):
        on_done()
    for _ in in_processes(_run, missing, target, jobs, store, None):
        on_done()
    return [_load(store, name) for name in names]


def collect_data(names: Sequence[str], target: str, jobs: int, folder: Path) -> list[Collected]:
    """As `collect`, always anew, into `folder`, with what each kernel's first launch read and wrote; the paths of that
    data are relative to `folder`.
    """
    for _ in in_processes(_run, names, target, jobs, folder, DATA_LIMIT):
        pass
    return [_with_paths(_load(folder, name), _folder(folder, name).name) for name in names]


def collect_with(names: Sequence[str], target: str, jobs: int, constant: str) -> list[Collected]:
    """As `collect`, always anew, where a module's constant is another number: "module:NAME=number"."""
    with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, {_CONSTANT: constant}):
        store = Path(folder)
        for _ in in_processes(_run, names, target, jobs, store, None):
            pass
        return [_load(store, name) for name in names]


def _with_paths(collected: Collected, prefix: str) -> Collected:
    kernels = [
        kernel
        if kernel.launch.data is None
        else replace(kernel, launch=replace(kernel.launch, data=f"{prefix}/{kernel.launch.data}"))
        for kernel in collected.collection.kernels
    ]
    return replace(collected, collection=replace(collected.collection, kernels=kernels))


def _store(target: str) -> Path:
    """Where collections of today's sources are kept; those of older sources are removed, the last few excepted."""
    store = cache_directory() / "ascend" / "corpus" / f"{target}-{_identity(target)}"
    store.mkdir(parents=True, exist_ok=True)
    os.utime(store)
    versions = sorted(store.parent.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
    for old in versions[KEPT_VERSIONS:]:
        shutil.rmtree(old, ignore_errors=True)
    return store


def _identity(target: str) -> str:
    import torch

    digest = hashlib.sha256(f"{identity.toolchain_identity()} {torch.__version__} {target}".encode())
    for name in _SOURCES:
        path = ROOT / name
        for file in [path] if path.is_file() else sorted(path.rglob("*.py")):
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def in_processes(
    task: Callable[..., Any], names: Sequence[str], target: str, jobs: int, *arguments: Any
) -> Iterator[Any]:
    """Yields `task(name, *arguments)` of each of `names` as it is done, in one of at most `jobs` new processes, whose
    embedded NPU is the chip `target`.
    """
    if not names:
        return
    start = multiprocessing.get_context("spawn")  # each has the device to itself
    settings = {
        providers.PROVIDER_VARIABLE: providers.SIMULATOR.name,
        providers.TARGET_VARIABLE: target,
        "OMP_NUM_THREADS": "1",
        "TORCHINDUCTOR_COMPILE_THREADS": "1",  # kernels are compiled in the process: no pool of workers is wanted
        "INDUCTOR_NPU_SIM_THREADS": "1",
    }
    with (
        patch.dict(os.environ, settings),  # for the processes, which torch reads it in before any function of ours runs
        ProcessPoolExecutor(min(jobs, len(names)), start, initializer=_prepare) as pool,
    ):
        for future in as_completed([pool.submit(task, name, *arguments) for name in names]):
            yield future.result()


def _prepare() -> None:
    warnings.simplefilter("ignore")  # programs of a database warn of all sorts of things
    if constant := os.environ.get(_CONSTANT):
        module, _, setting = constant.partition(":")
        name, _, number = setting.partition("=")
        owner = importlib.import_module(module)
        setattr(owner, name, type(getattr(owner, name))(number))


def _run(name: str, store: Path, data_limit: int | None) -> None:
    """Runs one program in this process; its collection appears in `store` when it is whole."""
    from inductor_npu.ascend.collect.afresh import compiled_afresh
    from inductor_npu.ascend.collect.collector import collecting

    program = program_called(name)
    folder = Path(tempfile.mkdtemp(prefix="unfinished-", dir=store))
    error = None
    with compiled_afresh(), collecting(folder, data_limit):
        try:
            program()
        except Exception as failure:  # noqa: BLE001 - it is the program's, and the table says it
            error = f"{type(failure).__name__}: {failure}"
    (folder / _ERROR).write_text(json.dumps(error))
    _publish(folder, _folder(store, name))


def _publish(folder: Path, place: Path) -> None:
    """Makes `folder` appear at `place`, unless another process was quicker: both have collected the same."""
    try:
        folder.replace(place)
    except OSError:
        if not place.is_dir():
            raise
        shutil.rmtree(folder)


def program_called(name: str) -> Callable[[], None]:
    """What runs the program of that name in this process."""
    return _programs()[name]


@cache
def _programs() -> dict[str, Callable[[], None]]:
    from corpus.programs import all_programs

    return {program.name: program.run for program in all_programs()}


def _folder(store: Path, name: str) -> Path:
    readable = re.sub(r"[^a-zA-Z0-9]+", "-", name)
    return store / f"{readable}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _load(store: Path, name: str) -> Collected:
    folder = _folder(store, name)
    return Collected(name, Collection.load(folder), json.loads((folder / _ERROR).read_text()))
