"""Convolutions are always kernels here, also where the embedded NPU's library is faster."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import inductor_npu.config as config


@pytest.fixture(autouse=True)
def _kernels_of_ours() -> Iterator[None]:
    with config.patch(templates="all"):
        yield
