"""Triton compiles for a GPU in the process of the tests, whose device is the embedded NPU."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cuda.cubins import for_gpu


@pytest.fixture
def cuda_backend() -> Iterator[None]:
    """Triton's backend for target `npu` is the one for GPUs."""
    with for_gpu():
        yield
