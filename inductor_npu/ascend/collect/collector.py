"""Observes every launch of a program and keeps each distinct kernel once, with its first launch."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from inductor_npu.ascend.collect.arguments import describe, keep_data
from inductor_npu.ascend.collect.collection import Activity, Collection, Omission
from inductor_npu.ascend.collect.source import kernel_source, without_name
from inductor_npu.ascend.kernel import CollectedKernel, Launch, Origin
from inductor_npu.codegen.annotations import provenance
from inductor_npu.diagnostics.explanation.data import Arithmetic
from inductor_npu.diagnostics.explanation.recorder import Recorder
from inductor_npu.errors import UncollectableKernelError
from inductor_npu.simulator.triton_backend.observer import Grid, observe

SAVE_INTERVAL = 1.0  # seconds; a program that is killed loses the kernels since the last time


class Collector:
    """An observer of launches (see triton_backend.observer).

    `folder` gets the collection as it grows; `data_limit` is the most bytes of a launch's storages that are kept, None
    for none at all.
    """

    def __init__(self, folder: Path, data_limit: int | None, origins: dict[str, provenance.Provenance]) -> None:
        self._folder = folder
        self._data_limit = data_limit
        self._origins = origins
        self._kernels: dict[str, CollectedKernel] = {}  # by what a kernel is, its name excepted
        self._launches: dict[str, int] = {}
        self._omissions: dict[str, Omission] = {}
        self._known: dict[int, tuple[Any, str]] = {}  # by the identity of Triton's source, which is kept alive for it
        self._process = os.getpid()
        self.arithmetic: Arithmetic | None = None
        self._lock = threading.Lock()
        self._saved = time.monotonic()

    def __call__(
        self,
        source: Any,
        options: dict[str, Any],
        grid: Grid,
        arguments: dict[str, Any],
        launch: Callable[[], None],
    ) -> None:
        """Launches the kernel, and counts it or keeps it if it is the program's and not a candidate that is timed."""
        from inductor_npu.device_interface.benchmarker import is_benchmarking  # needs torch, which is there by now

        if is_benchmarking() or os.getpid() != self._process:
            launch()
            return
        known = self._known.get(id(source))
        if known is None:
            self._collect(source, options, grid, arguments, launch)
            return
        with self._lock:
            self._launches[known[1]] += 1
        launch()

    def collection(self) -> Collection:
        """What was collected until now."""
        kernels = [dataclasses.replace(kernel, launches=self._launches[key]) for key, kernel in self._kernels.items()]
        eager = [
            Omission(_name(text), _origin(origin), f"its operators run in eager: {origin.failure}")
            for text, origin in self._origins.items()
            if origin.failure is not None
        ]
        return Collection(kernels, [*self._omissions.values(), *eager], _activity(), self.arithmetic)

    def save(self) -> None:
        """Writes what was collected until now."""
        self.collection().save(self._folder)
        self._saved = time.monotonic()

    def _collect(
        self,
        source: Any,
        options: dict[str, Any],
        grid: Grid,
        arguments: dict[str, Any],
        launch: Callable[[], None],
    ) -> None:
        origin = self._origin(source)
        try:
            kernel = kernel_source(source, options)
            described = describe(kernel, arguments)
        except UncollectableKernelError as error:
            name = getattr(source, "name", "?")
            self._omissions[name] = Omission(name, origin, str(error))
            self._remember(source, name)
            launch()
            return
        key = without_name(kernel)
        self._remember(source, key)
        if key in self._kernels:
            launch()
            return
        data = None
        if self._data_limit is None:
            launch()
        else:
            data = keep_data(self._folder, key, self._data_limit, described, arguments, launch)
        self._kernels[key] = CollectedKernel(kernel, origin, Launch(grid, described, data))
        if time.monotonic() - self._saved > SAVE_INTERVAL:
            self.save()

    def _remember(self, source: Any, key: str) -> None:
        with self._lock:
            self._known[id(source)] = (source, key)
            self._launches[key] = self._launches.get(key, 0) + 1

    def _origin(self, source: Any) -> Origin:
        function = getattr(source, "fn", None)
        if function is None:
            return Origin()
        known = self._origins.get(function.src)
        return _origin(known or provenance.Provenance(lines=(provenance.definition(function),)))


@contextlib.contextmanager
def collecting(folder: Path, data_limit: int | None = None) -> Iterator[Collector]:
    """Collects the kernels that are loaded and launched inside the `with` block, and saves them at its end, however it
    ends. What Inductor finds in its caches has no origin.
    """
    recorder = Recorder()
    recorder.start()
    with provenance.record() as origins:
        collector = Collector(folder, data_limit, origins)
        with observe(collector):
            try:
                yield collector
            finally:
                recorder.stop()
                if os.getpid() == collector._process:
                    collector.arithmetic = recorder.arithmetic()
                    collector.save()


def _origin(found: provenance.Provenance) -> Origin:
    lines = (f"{_short_path(line.file)}:{line.line}: {line.text}" for line in found.lines)
    return Origin(found.operators, tuple(lines))


def _short_path(file: str) -> str:
    """`file` from the current directory, or from the folder of packages that it is installed in."""
    path = Path(file)
    for root in (Path.cwd(), *sorted((Path(entry) for entry in sys.path if entry), key=lambda p: -len(p.parts))):
        if path.is_relative_to(root):
            relative = path.relative_to(root)
            if "site-packages" not in relative.parts:
                return relative.as_posix()
    return file


def _name(text: str) -> str:
    return text.removeprefix("def ").partition("(")[0]


def _activity() -> Activity:
    import torch

    dynamo = sys.modules.get("torch._dynamo.utils")
    graphs = dynamo.counters["stats"]["unique_graphs"] if dynamo is not None else 0
    return Activity(torch.npu.is_initialized(), graphs)
