"""Runs a package on inputs of its own making, and times it, for the command `inductor-npu run`."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from inductor_npu.errors import PackageError
from inductor_npu.export.loading import LoadedPackage, load_package
from inductor_npu.export.values import type_name


@dataclass(frozen=True)
class Measured:
    """inputs, results: a line each. Times in seconds: loading, the first run, the median of those after it."""

    package: LoadedPackage
    inputs: tuple[str, ...]
    results: tuple[str, ...]
    loading: float
    first: float
    median: float


def run_package(path: Path, sizes: Mapping[str, int], repeats: int, weights: Path | None = None) -> Measured:
    """Loads and runs the package. Numbers are random, integers 0 and booleans false, as nothing says which are valid.

    sizes: those that vary, by their names in the package (by default what the model was exported with).

    Raises PackageError, and ValueError for sizes that the package does not take.
    """
    began = time.perf_counter()
    package = load_package(path, weights=weights)
    loading = time.perf_counter() - began
    inputs = _inputs(package, sizes)
    times = []
    results: list[Any] = []
    for _ in range(repeats + 1):
        torch.npu.synchronize(package.device)
        began = time.perf_counter()
        results = package.run_flat(list(inputs.values()))
        torch.npu.synchronize(package.device)
        times.append(time.perf_counter() - began)
    described = tuple(f"{name}: {_described(tensor)}" for name, tensor in inputs.items())
    shown = tuple(_described(result) for result in results)
    return Measured(package, described, shown, loading, times[0], statistics.median(times[1:]))


def _inputs(package: LoadedPackage, sizes: Mapping[str, int]) -> dict[str, torch.Tensor]:
    signature = package.manifest["signature"]
    values = {symbol["name"]: symbol["example"] for symbol in signature["symbols"]}
    if unknown := sizes.keys() - values.keys():
        known = ", ".join(values) or "none"
        raise PackageError(message=f"no size of this package is called {min(unknown)}; those that vary: {known}")
    values.update(sizes)
    return {described["name"]: _input(described, values, package.device) for described in signature["inputs"]}


def _input(described: Mapping[str, Any], values: Mapping[str, int], device: torch.device) -> torch.Tensor:
    shape = [
        size if isinstance(size, int) else size["times"] * values[size["symbol"]] + size["plus"]
        for size in described["size"]
    ]
    dtype = getattr(torch, described["dtype"])
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(shape).to(dtype).to(device)
    return torch.zeros(shape, dtype=dtype, device=device)


def _described(value: Any) -> str:
    return f"{type_name(value.dtype)} {tuple(value.shape)}" if isinstance(value, torch.Tensor) else repr(value)
