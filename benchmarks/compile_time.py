"""(b) Time until the first result: cold, with empty caches, and warm, in a new process that finds what another left."""

from __future__ import annotations

import compileall
import json
import operator
import os
import subprocess
import sys
import tempfile
import textwrap
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import inductor_npu

# Imports of the compiler are measured by themselves; `modules` are imported with it, and those that the first call
# imports nevertheless are told.
PROGRAM = """
    import importlib, json, sys, time
    import torch
    from benchmarks.compiled import compiled_cases
    from benchmarks.timing import synchronize
    import inductor_npu
    name, device, more, *modules = sys.argv[1:]
    case = next(case for case in compiled_cases() if case.name == name)
    run = case.make(device, int(more))
    start = time.perf_counter()
    import torch._inductor.compile_fx
    if device == "npu":
        import triton
    for module in modules:
        importlib.import_module(module)
    imported = time.perf_counter()
    before = set(sys.modules)
    with inductor_npu.record_compile_times() as times:
        run()
        synchronize(device)
    done = time.perf_counter()
    seconds = {"imports": imported - start, "first_call": done - imported}
    imports = [name for name, module in list(sys.modules.items()) if name not in before and module.__spec__ is not None]
    print(json.dumps({**seconds, **times.to_json(), "modules": imports}))
"""
PHASES_OF = ("minilm forward + backward", "resnet forward + backward")  # these cases' phases are shown


@dataclass(frozen=True)
class Start:
    """One process: seconds of the compiler's imports and of the first call, kernels compiled and found, seconds in each
    phase of compiling, and which modules the first call imported.
    """

    imports: float
    first_call: float
    kernels_compiled: int
    kernels_found: int
    phases: dict[str, float]
    modules: tuple[str, ...]

    @property
    def seconds(self) -> float:
        return self.imports + self.first_call


@dataclass(frozen=True)
class CompileTime:
    """The best cold start on each side, the best warm one on ours, and how many kernels are compiled anew when one, two
    and three layers like the last are added to the model, each beside the caches of those before (nothing for an
    operation).
    """

    name: str
    cold: Start
    warm: Start
    inductor: Start
    kernels_of_further_layers: tuple[int, ...]

    @property
    def ratio(self) -> float:
        """Below 1: faster than stock Inductor C++ on the CPU; imports included on both sides."""
        return self.cold.seconds / self.inductor.seconds

    @property
    def warm_ratio(self) -> float:
        """What part of a cold start a warm one takes. Of the warm one no import counts, of the cold one only what its
        first call imports.
        """
        return self.warm.first_call / self.cold.first_call

    def to_json(self) -> dict[str, Any]:
        """Everything, ratios included."""
        return {**asdict(self), "ratio": self.ratio, "warm_ratio": self.warm_ratio}


def write_byte_code() -> None:
    """Compiles this package's Python files, as pip does when it installs it."""
    compileall.compile_dir(Path(inductor_npu.__file__).parent, quiet=1)


def measure(name: str, has_layers: bool, repeats: int, device: str = "npu") -> CompileTime:
    """The smaller of `repeats` starts of each kind, taking turns. Raises RuntimeError if a program fails, or if a start
    was not what it should be: a cold one compiled no kernel, or a warm one compiled one.
    """
    cold, warm, inductor = [], [], []
    further: list[int] = []
    modules: tuple[str, ...] = ()
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            cold.append(_start(name, device, folder))
            modules = modules or _start(name, device, folder).modules
            warm.append(_start(name, device, folder, modules=modules))
            if has_layers and not further:
                further = [_start(name, device, folder, more=more).kernels_compiled for more in (1, 2, 3)]
        with tempfile.TemporaryDirectory() as folder:
            inductor.append(_start(name, "cpu", folder))
    if not all(start.kernels_compiled for start in cold):
        raise RuntimeError(f"{name!r} is not compiled cold: all kernels came from a cache")
    if any(start.kernels_compiled for start in warm):
        raise RuntimeError(f"{name!r} does not start warm: kernels were compiled again")
    shortest = operator.attrgetter("seconds")
    quickest = min(warm, key=operator.attrgetter("first_call"))
    return CompileTime(name, min(cold, key=shortest), quickest, min(inductor, key=shortest), tuple(further))


def _start(name: str, device: str, folder: str, more: int = 0, modules: tuple[str, ...] = ()) -> Start:
    settings = {"TORCHINDUCTOR_CACHE_DIR": folder, "TRITON_CACHE_DIR": f"{folder}/triton"}
    if device == "cpu":
        settings["INDUCTOR_NPU_PROVIDER"] = "none"  # stock Inductor, as it is without this package
    finished = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), name, device, str(more), *modules],
        env={**os.environ, **settings, "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "0", "INDUCTOR_NPU_CACHE": "on"},
        capture_output=True,
        text=True,
        check=False,
    )
    if finished.returncode != 0:
        raise RuntimeError(f"compiling {name!r} for {device} failed:\n{finished.stderr[-2000:]}")
    told = json.loads(finished.stdout.splitlines()[-1])
    phases = {phase["phase"]: phase["seconds"] for phase in told["phases"]}
    seconds = told["imports"], told["first_call"]
    return Start(*seconds, told["kernels_compiled"], told["kernels_found"], phases, tuple(told["modules"]))
