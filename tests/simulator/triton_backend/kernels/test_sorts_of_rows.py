"""`sort_with_index` of generated kernels, which the embedded NPU's runtime sorts: exact, stable, NaN above all."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from inductor_npu.runtime import device_functions
from inductor_npu.simulator.triton_backend import compiler
from inductor_npu.simulator.triton_backend.host_functions import Sort, sort_of
from tests.triton_features import forget

from .support import INTEGERS, assert_same, triton_name

pytestmark = pytest.mark.compiled

ROWS = 2


@triton.jit
def sort_kernel(
    x, index, values, places, length, DIM: tl.constexpr, R: tl.constexpr, N: tl.constexpr, DESCENDING: tl.constexpr
):
    """Rows of N elements, along the last axis of a tile or along its first one."""
    r, n = tl.arange(0, R), tl.arange(0, N)
    at = r[:, None] * N + n[None, :] if DIM == 1 else r[None, :] * N + n[:, None]
    value, place = device_functions.sort_with_index(tl.load(x + at), tl.load(index + at), length, DIM, DESCENDING)
    tl.store(values + at, value)
    tl.store(places + at, place)


def numbers(dtype: torch.dtype, length: int) -> torch.Tensor:
    """Rows with many equal numbers; of floats both zeros, infinities and NaN."""
    generator = torch.Generator().manual_seed(length)
    x = torch.randint(-60, 60, (ROWS, length), generator=generator)
    if dtype is torch.bool:
        return x > 0
    if not dtype.is_floating_point:
        wide = x * (torch.iinfo(dtype).max // 60)
        return torch.from_numpy(wide.numpy().astype(triton_name(dtype)))
    x = (x / 7).to(dtype)
    special = torch.tensor([float("nan"), float("inf"), float("-inf"), 0.0, -0.0, torch.finfo(dtype).tiny]).to(dtype)
    places = torch.randint(0, length, (ROWS, 12), generator=generator)
    return x.scatter(1, places, special.repeat(2).expand(ROWS, 12))


def comparable(x: torch.Tensor) -> torch.Tensor:
    """The same order in a type that PyTorch sorts."""
    if x.dtype is torch.uint64:
        return x.view(torch.int64) ^ torch.iinfo(torch.int64).min
    return x.to(torch.float64 if x.dtype.is_floating_point else torch.int64)


@pytest.mark.parametrize("dtype", [torch.bool, *INTEGERS, torch.float16, torch.float32, torch.float64], ids=triton_name)
def test_rows_are_sorted_exactly_and_equal_elements_stay_in_order(device, dtype):
    for extent, length in ((16, 16), (64, 49), (256, 256), (256, 131)):
        x = numbers(dtype, extent)
        index = torch.arange(extent, dtype=torch.int16 if extent < 256 else torch.int32).expand(ROWS, extent).clone()
        for dim, descending in ((1, False), (0, True)):
            values, places = torch.empty_like(x, device=device), torch.empty_like(index, device=device)
            sort_kernel[(1,)](
                x.to(device), index.to(device), values, places, length, DIM=dim, R=ROWS, N=extent, DESCENDING=descending
            )
            order = comparable(x[:, :length]).sort(dim=-1, stable=True, descending=descending)[1]
            expected = torch.cat([order, torch.arange(length, extent).expand(ROWS, -1)], -1)
            assert torch.equal(places.cpu().long(), expected)
            bits = getattr(torch, f"int{8 * dtype.itemsize}")  # what PyTorch picks from in every dtype
            assert_same(values, x.view(bits).gather(1, expected).view(dtype))


@pytest.mark.skipif(not hasattr(triton, "knobs"), reason="this Triton's names of functions lack the module")
def test_the_runtime_sorts_and_the_footprint_is_that_of_the_chip(device, monkeypatch):
    x = torch.randn(ROWS, 64)
    index = torch.arange(64, dtype=torch.int16).expand(ROWS, 64).clone()
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")
    footprints = []
    for keeps_calls in (True, False):
        if not keeps_calls:
            monkeypatch.setattr(compiler, "sort_of", lambda function: None)
        forget(sort_kernel)
        values, places = torch.empty_like(x, device=device), torch.empty_like(index, device=device)
        kernel = sort_kernel[(1,)](
            x.to(device), index.to(device), values, places, 64, DIM=1, R=ROWS, N=64, DESCENDING=False
        )
        assert ("npu_sort_rows" in kernel.asm["llir"]) is keeps_calls
        assert torch.equal(values.cpu(), x.sort(-1)[0])
        footprints.append(kernel.metadata.shared)
    forget(sort_kernel)
    assert footprints[0] == footprints[1] > 0


def test_a_sort_is_known_by_the_name_of_its_function():
    name = "inductor_npu.runtime.device_functions.scans.sort_with_index__"
    upstream = "fp16S2_512S_i16S2_512S_i32__(3,)cconstexpr_1__(4,)cconstexpr_True_"
    assert sort_of(name + upstream) == Sort("f", 1, True)
    fixed = "u8S8_64S_i16S8_64S__(2,)cconstexpr_50__(3,)cconstexpr_0__(4,)cconstexpr_False_"
    assert sort_of(name + fixed) == Sort("u", 0, False, 50)
    ascend = "sort_with_index__fp32S2_512S_i16S2_512S_i32__3cconstexpr_1__4cconstexpr_False_"
    assert sort_of(ascend) is None
    assert sort_of(name + upstream.replace("fp16S2", "fp8e5S2")) is None
    assert sort_of("mine." + name + upstream) is None and sort_of(name.replace("sort_", "no_sort_")) is None
