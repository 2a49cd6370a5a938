"""`--run`: executes what Ascend's compiler understood of each kernel of the corpus, and compares with the embedded NPU.

Each result is stored as soon as it is known, so that an interrupted run resumes where it stopped.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from corpus.collecting import ROOT, Place, collect_data
from inductor_npu.ascend.collect.source import without_name
from inductor_npu.ascend.compilation import Compilation
from inductor_npu.ascend.environment import AscendEnvironment
from inductor_npu.ascend.execute import Agreement, run_kernels
from inductor_npu.ascend.kernel import CollectedKernel
from inductor_npu.cache.entry import Entry, Key
from inductor_npu.cache.location import user_store

SECONDS = 60.0  # that one run of one kernel may take; a sort over rows of a hundred takes 20
PROGRAMS_AT_A_TIME = 64  # whose data is kept meanwhile: a few MB each, a hundred for a model
# What decides the outcome, beside the kernel and Ascend's compiler.
_SOURCES = tuple(
    f"inductor_npu/{folder}"
    for folder in ("ascend/execute", "simulator/triton_backend/codegen", "simulator/triton_backend/mathlib")
)


def run(
    kernels: Mapping[Place, CollectedKernel],
    compilations: Mapping[Place, Compilation],
    target: str,
    environment: AscendEnvironment,
    jobs: int,
    on_done: Callable[[], None],
) -> dict[Place, Agreement]:
    """What `run_kernels` says of each of `kernels`, `jobs` at a time, with the inputs of its first launch.

    Its program runs once more for them, unless the kernel was run before by the same sources. `on_done` is called after
    each kernel.
    """
    store, sources = user_store(), _identity_of_sources()
    keys = {place: _key(kernel, target, environment, sources) for place, kernel in kernels.items()}
    results: dict[Place, Agreement] = {}
    missing: dict[str, list[Place]] = {}
    for place, key in keys.items():
        if (entry := store.read(key)) is None:
            missing.setdefault(place[0], []).append(place)
        else:
            results[place] = Agreement.from_json(json.loads(entry.content))
            on_done()
    names = list(missing)
    for start in range(0, len(names), PROGRAMS_AT_A_TIME):
        programs = names[start : start + PROGRAMS_AT_A_TIME]
        places = [place for program in programs for place in missing[program]]

        def keep(index: int, agreement: Agreement, places: list[Place] = places) -> None:
            place = places[index]
            results[place] = agreement
            store.write(Entry(keys[place], json.dumps(agreement.to_json()).encode()))
            on_done()

        with tempfile.TemporaryDirectory(prefix="inductor-npu-corpus-") as name:
            found = _with_data(programs, target, jobs, Path(name))
            run_kernels(
                [found.get((place[0], without_name(kernels[place].source)), kernels[place]) for place in places],
                [compilations[place] for place in places],
                Path(name),
                environment=environment,
                jobs=jobs,
                seconds=SECONDS,
                on_done=keep,
            )
    return results


def _with_data(programs: Sequence[str], target: str, jobs: int, folder: Path) -> dict[tuple[str, str], CollectedKernel]:
    """The kernels of `programs` with their data in `folder`, by program and by what they are."""
    return {
        (collected.program, without_name(kernel.source)): kernel
        for collected in collect_data(programs, target, jobs, folder)
        for kernel in collected.collection.kernels
    }


def _key(kernel: CollectedKernel, target: str, environment: AscendEnvironment, sources: str) -> Key:
    """What decides the outcome of running `kernel`: its inputs are the same where its launch is."""
    launch = kernel.to_json()["launch"]
    fields = {
        "kernel": without_name(kernel.source),
        "launch": hashlib.sha256(json.dumps([launch["grid"], launch["arguments"]]).encode()).hexdigest(),
        "target": target,
        "toolchain": environment.identity,
        "sources": sources,
        "seconds": str(SECONDS),
    }
    return Key("run", fields)


def _identity_of_sources() -> str:
    digest = hashlib.sha256()
    for name in _SOURCES:
        for path in sorted((ROOT / name).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
