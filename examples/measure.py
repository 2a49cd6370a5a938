"""What the examples measure and show about a compiled function: operators in eager, kernels in the generated code, time
per call.
"""

from __future__ import annotations

import re
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

# Operators that only describe memory in another way: eager runs no kernel for them.
_FREE = frozenset(
    """view _unsafe_view t transpose permute expand unsqueeze squeeze slice select detach alias as_strided split
    split_with_sizes unbind reshape _reshape_alias""".split()  # noqa: SIM905 - a list of them would be a page
)


class OperatorCounter(TorchDispatchMode):
    """Counts the operators that eager PyTorch runs; views are not counted."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.count += func.overloadpacket.__name__ not in _FREE
        return func(*args, **(kwargs or {}))


@dataclass(frozen=True)
class GeneratedCode:
    """One graph's output of Inductor: a Python file with the Triton source of its kernels and the calls that launch
    them.
    """

    path: Path
    text: str

    @property
    def launches(self) -> int:
        """Launches of generated kernels in one run of the graph."""
        return len(re.findall(r"^ +(?:\w+\.run|cpp_\w+)\(", self.text, re.MULTILINE))

    @property
    def library_calls(self) -> int:
        """Calls of eager operators (matrix products, convolutions, ...) in one run of the graph."""
        return len(re.findall(r"^ +(?:\w+ = )?(?:extern_kernels|torch\.ops\.\w+|aten)\.", self.text, re.MULTILINE))

    def first_kernel(self) -> str:
        """Source of the first Triton kernel, from its decorator on; "" where the graph has none."""
        match = re.search(r"^@triton\.jit\n.*?(?=^''')", self.text, re.MULTILINE | re.DOTALL)
        return match.group(0).rstrip() if match else ""


def generated_code() -> list[GeneratedCode]:
    """The graphs that Inductor has compiled or loaded in this process, in order."""
    from torch._inductor.codecache import PyCodeCache

    return [
        GeneratedCode(Path(path), Path(path).read_text())
        for module in PyCodeCache.modules
        if (path := _source_of(module)) and hasattr(module, "call")
    ]


def _source_of(module: ModuleType) -> str | None:
    return getattr(module, "__file__", None)


def synchronize(device: str) -> None:
    """Waits until all work queued on `device` is done."""
    torch.get_device_module(device).synchronize()


def seconds_per_call(*sides: tuple[Callable[[], Any], str], calls: int = 10) -> list[float]:
    """Median wall-clock seconds of one call of each function, until its results are there on its device.

    The functions take turns, so that a slow moment of the machine hits all of them. Their first calls are not counted.
    """
    times: list[list[float]] = [[] for _ in sides]
    for _ in range(calls + 1):
        for (function, device), taken in zip(sides, times):
            start = time.perf_counter()
            function()
            synchronize(device)
            taken.append(time.perf_counter() - start)
    return [statistics.median(taken[1:]) for taken in times]


def first_call(function: Callable[[], Any], device: str) -> tuple[Any, float]:
    """The result of calling `function` and the seconds it took: for a compiled function, its cold compile time."""
    sys.stdout.flush()
    start = time.perf_counter()
    result = function()
    synchronize(device)
    return result, time.perf_counter() - start
