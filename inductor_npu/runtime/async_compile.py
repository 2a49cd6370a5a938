"""Compiles generated kernels in this process.

Inductor's worker processes pay off when a kernel takes seconds in an external assembler. Here a kernel takes
milliseconds, less than sending it to a worker and loading the result, and a worker has to import torch first.
ahead_of_time.py describes how other cores take part instead.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from torch._inductor.async_compile import AsyncCompile, CompiledTritonKernels
from torch._inductor.codecache import _load_triton_kernel_from_source

from inductor_npu.cache import kernels
from inductor_npu.diagnostics.compile_time.phases import Phase, timed


class NpuAsyncCompile(AsyncCompile):
    """What the generated module calls to get its kernels; all but Triton kernels is compiled as Inductor does."""

    @classmethod
    def use_process_pool(cls) -> bool:
        return False

    def triton(self, kernel_name: str, source_code: str, device_str: str = "cuda") -> Any:
        """The kernel called `kernel_name` in `source_code`: from this process, from the compile cache, or compiled."""
        compile_kernel = functools.partial(super().triton, kernel_name, source_code, device_str)
        if device_str != "npu" or CompiledTritonKernels.get(source_code) is not None:
            return compile_kernel()
        with timed(Phase.KERNEL_CACHE), _quiet_about_failure():
            return kernels.find_or_compile(kernel_name, source_code, compile_kernel)


class _CompiledKernel(Future):
    """A kernel that is compiled already, in the shape Inductor's table of running compilations holds."""

    def __init__(self, kernel: Any) -> None:
        super().__init__()
        self.set_result(kernel)


def compile_in_process(name: str, source: str) -> Exception | None:
    """Compiles the kernel called `name` in `source` and keeps it for the module that will ask for the same source.

    Returns None, or the exception that made it impossible. Raises CacheMissError where nothing may be compiled.
    """
    kernels.refuse_new_graph(name, source)
    if CompiledTritonKernels.get(source) is not None:
        return None
    try:
        kernel = NpuAsyncCompile().triton(name, source, device_str="npu")
    except Exception as failure:  # noqa: BLE001 - handed to the caller, who reports it or raises it
        return failure
    CompiledTritonKernels.save(source, _CompiledKernel(kernel))
    return None


def compile_into_cache(name: str, source: str) -> Exception | None:
    """Compiles the kernel called `name` in `source` for another process, which finds it in the compile cache: this one
    does not load it. Returns None, or the exception that made it impossible.
    """
    try:
        with _quiet_about_failure():
            kernels.compile_for_parent(name, source, functools.partial(_compiled_only, name, source))
    except Exception as failure:  # noqa: BLE001 - handed to the caller
        return failure
    return None


def _compiled_only(name: str, source: str) -> Any:
    kernel = _load_triton_kernel_from_source(name, source)
    kernel.precompile(warm_cache_only=True)
    return kernel


@contextmanager
def _quiet_about_failure() -> Iterator[None]:
    """Holds back the stack trace that Inductor logs for a kernel that does not compile: whoever handles the failure
    reports it once, or, of several candidates of a user's autotuner, takes the next.
    """
    logger = logging.getLogger("torch._inductor.runtime.triton_heuristics")

    def is_not_compile_failure(record: logging.LogRecord) -> bool:
        return not str(record.msg).startswith("Triton compilation failed")

    logger.addFilter(is_not_compile_failure)
    try:
        yield
    finally:
        logger.removeFilter(is_not_compile_failure)
