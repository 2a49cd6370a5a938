"""Caches of a test's own, and a process that forgets what it has compiled as if it were a new one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch._functorch import config as functorch_config
from torch._inductor import config as inductor_config
from torch._inductor.utils import clear_caches

from inductor_npu.cache import location


def forget() -> None:
    """Forgets in this process what was compiled, so that what comes next is found on disk or compiled."""
    torch._dynamo.reset()
    clear_caches()
    torch._dynamo.utils.counters.clear()


@pytest.fixture
def own_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of Inductor's caches and ours, empty; caches are on.

    The user's own cache, thousands of entries on a machine in use, is neither read nor written.
    """
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    monkeypatch.delenv("INDUCTOR_NPU_CACHE_DIR", raising=False)
    monkeypatch.setattr(
        location, "cache_directory", lambda: Path(os.environ.get("INDUCTOR_NPU_CACHE_DIR", tmp_path / "user"))
    )
    forget()
    with inductor_config.patch(force_disable_caches=False), functorch_config.patch(enable_autograd_cache=True):
        yield tmp_path / "inductor"
    forget()


@pytest.fixture
def graphs_anew() -> Iterator[None]:
    """Inductor generates its code each time: only kernels are found again."""
    with inductor_config.patch(fx_graph_cache=False), functorch_config.patch(enable_autograd_cache=False):
        yield


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """A function after whose call nothing can be compiled in this process: neither Triton nor LLVM run, and no kernel's
    module is loaded.
    """

    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("a kernel was compiled, or its source loaded")

    def take_away() -> None:
        monkeypatch.setattr("triton.compile", refuse)
        monkeypatch.setattr("triton.compiler.compile", refuse)
        monkeypatch.setattr("inductor_npu.simulator.triton_backend.object_code.compile_object", refuse)
        monkeypatch.setattr("torch._inductor.codecache._load_triton_kernel_from_source", refuse)
        monkeypatch.setattr("torch._inductor.async_compile._load_triton_kernel_from_source", refuse)

    return take_away
