"""INDUCTOR_NPU_FILL_MEMORY: memory that nobody has written is NaN, wherever it comes from."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from inductor_npu import config
from inductor_npu.device import allocator_settings
from inductor_npu.device.npu.runtime import extension
from tests.compile.helpers import assert_equal, code_of

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.float8_e4m3fn, torch.float8_e5m2]


@pytest.fixture(autouse=True)
def _filled() -> Iterator[None]:
    extension().fill_allocations(True)
    with config.patch(fill_memory=True):
        yield
    extension().fill_allocations(allocator_settings.fills_allocations())


@pytest.mark.parametrize("dtype", FLOATS)
def test_what_is_allocated_is_nan_of_every_type(dtype: torch.dtype) -> None:
    tensors = [torch.empty(3, 5, dtype=dtype, device="npu"), torch.empty_strided((2,), (7,), dtype=dtype, device="npu")]
    assert all(tensor.float().cpu().isnan().all() for tensor in tensors)


def test_integers_are_negative_and_what_has_no_elements_stays_empty() -> None:
    assert_equal(torch.empty(4, dtype=torch.int32, device="npu"), torch.full((4,), -1, dtype=torch.int32))
    assert torch.empty(0, 3, device="npu").shape == (0, 3)


def test_a_block_of_the_cache_is_filled_after_the_work_that_still_reads_it() -> None:
    x = torch.randn(1 << 16)
    doubled = torch.compile(lambda x: x * 2)
    results = []
    for _ in range(20):
        moved = x.npu()
        results.append(doubled(moved))
        del moved
        assert torch.empty_like(results[-1]).isnan().all()
    assert_equal(results, [x * 2] * 20)


def test_a_graph_that_uses_memory_again_fills_it_and_computes_the_same() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        sums = x.cumsum(0).sum(1)
        return (sums @ x).sin().cumsum(0), x.cumsum(1).flip(0) @ x

    x = torch.randn(8, 8)
    (module,) = code_of(function, x.npu())
    assert module.count("fill_as_fresh_npu(") > 0
    assert_equal(torch.compile(function)(x.npu()), function(x))


def test_a_captured_graph_fills_what_it_allocates_and_computes_the_same() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.sin().sum() + x, x.cumsum(0)

    x = torch.randn(100)
    compiled = torch.compile(function, mode="reduce-overhead")
    for _ in range(3):
        assert_equal(compiled(x.npu()), function(x))
