"""Kernels compiled for a GPU, and what ptxas made of them."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import triton
from torch._inductor.codecache import PyCodeCache
from triton import backends
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from inductor_npu.cuda.triton_backend.compiler import CudaNpuBackend

H100 = GPUTarget("npu", "H100", 32)

_TOOL = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
_USAGE = re.compile(r"REG:(\d+) STACK:\d+ SHARED:\d+ LOCAL:(\d+)")


@dataclass(frozen=True)
class Usage:
    """Registers of a thread; bytes of its memory that hold what registers do not."""

    registers: int
    spilled: int


@contextmanager
def for_gpu() -> Iterator[None]:
    """Inside, Triton's backend for target `npu` is the one for GPUs; its driver is that of the device there is."""
    known = backends.backends
    with patch.dict(known, {"npu": replace(known["npu"], compiler=CudaNpuBackend)}):
        yield


def usage_of(cubin: bytes) -> Usage:
    """What the only kernel of `cubin` takes."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [_TOOL, "-res-usage", file.name]
        found = _USAGE.search(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert found is not None, "no kernel"
    return Usage(*map(int, found.groups()))


def compiled(function: Any, types: dict[str, str], constants: dict[str, Any], **options: Any) -> Any:
    """Triton's CompiledKernel of `function` for an H100."""
    types = {**types, **dict.fromkeys(constants, "constexpr")}
    return triton.compile(ASTSource(function, types, constants), target=H100, options=options)


def compiled_text(source: str) -> Any:
    """Triton's CompiledKernel of a generated kernel, the text of a module, as launches of it compile it."""
    (autotuner,) = (value for value in vars(PyCodeCache.load(source)).values() if hasattr(value, "_precompile_config"))
    with for_gpu():
        return autotuner._precompile_config(autotuner.configs[0]).kernel
