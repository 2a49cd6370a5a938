"""Triton compiles for a GPU in the process of the tests, whose device is the embedded NPU."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from torch._inductor.runtime.hints import DeviceProperties

from inductor_npu.device_interface.properties import device_properties
from tests.cuda.cubins import for_gpu


@pytest.fixture
def cuda_backend() -> Iterator[None]:
    """Triton's backend for target `npu` is the one for GPUs."""
    with for_gpu():
        yield


@pytest.fixture
def for_h100(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Code is generated for an H100. What Inductor, and we, keep of the device is that of another chip."""
    monkeypatch.setenv("INDUCTOR_NPU_TARGET", "H100")
    for kept in (device_properties, DeviceProperties.create):
        kept.cache_clear()
    yield
    for kept in (device_properties, DeviceProperties.create):
        kept.cache_clear()
