"""Arithmetic on float8: each operation computes in float32 and rounds once, or is refused by name and line."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton.compiler.errors import CompilationError

from tests.triton_features import needs_feature

from .support import as_float64, compile_source, evaluate_all

pytestmark = [pytest.mark.compiled, needs_feature("arithmetic of float8")]

FLOAT8 = [torch.float8_e4m3fn, torch.float8_e5m2]

# What Triton's language does with two float8 of one type, and what it means in float32.
ARITHMETIC = {
    "x + y": torch.add,
    "x - y": torch.sub,
    "x * y": torch.mul,
    "x / y": torch.div,
    "x % y": torch.fmod,
    "-x": lambda x, y: 0 - x,
    "tl.abs(x)": lambda x, y: x.abs(),
    "tl.maximum(x, y)": torch.fmax,
    "tl.minimum(x, y)": torch.fmin,
    "tl.where(x < y, x, y)": lambda x, y: torch.where(x < y, x, y),
    "tl.fma(x, y, x)": lambda x, y: torch.addcmul(x.double(), x.double(), y.double()).float(),
    "tl.clamp(x, y, tl.abs(y))": lambda x, y: torch.fmin(torch.fmax(x, y), y.abs()),
    "libdevice.pow(x, y)": lambda x, y: torch.pow(x, y),
    "libdevice.fmod(x, y)": torch.fmod,
}
COMPARISONS = {
    "x == y": torch.eq,
    "x != y": torch.ne,
    "x < y": torch.lt,
    "x <= y": torch.le,
    "x > y": torch.gt,
    "x >= y": torch.ge,
    "x != x": lambda x, y: x.isnan(),
}


def all_bits(dtype: torch.dtype) -> torch.Tensor:
    return torch.arange(256, dtype=torch.int16).to(torch.uint8).view(dtype)


def pairs(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Every number of the type beside many others of it."""
    x = all_bits(dtype).repeat(16)
    moved = (torch.arange(256)[None, :] * 7 + torch.arange(16)[:, None] * 17) % 256
    return x, all_bits(dtype)[moved.flatten()]


@pytest.mark.parametrize("dtype", FLOAT8, ids=str)
def test_arithmetic_is_that_of_float32_rounded_once(device, dtype):
    x, y = pairs(dtype)
    got = evaluate_all(device, dict.fromkeys([f"({text}).to(x.dtype)" for text in ARITHMETIC], dtype), x, y)
    for (text, meaning), value in zip(ARITHMETIC.items(), got.values()):
        exact = meaning(x.float(), y.float())
        # How a conversion treats what is beyond the type's range is a matter of conversions, and tested with them.
        within = ~(exact.abs() > torch.finfo(dtype).max)
        np.testing.assert_array_equal(as_float64(value)[within], as_float64(exact.to(dtype))[within], err_msg=text)


@pytest.mark.parametrize("dtype", FLOAT8, ids=str)
def test_comparisons_are_those_of_numbers(device, dtype):
    x, y = pairs(dtype)
    got = evaluate_all(device, dict.fromkeys(COMPARISONS, torch.bool), x, y)
    for text, value in got.items():
        assert torch.equal(value, COMPARISONS[text](x.float(), y.float())), text


REDUCTIONS = """
@triton.jit
def product(a, b):
    return a * b

@triton.jit
def kernel(x, signs, sorted, largest, numbers, scanned, running, N: tl.constexpr):
    i = tl.arange(0, N)
    value = tl.load(x + i)
    tl.store(sorted + i, tl.sort(value))
    tl.store(sorted + N + i, tl.sort(value, descending=True))
    tl.store(largest + tl.arange(0, 8), tl.topk(value, 8))
    tl.store(numbers, tl.max(value, 0).to(tl.float32))
    tl.store(numbers + 1, tl.min(value, 0).to(tl.float32))
    tl.store(numbers + 2, tl.argmax(value, 0).to(tl.float32))
    tl.store(numbers + 3, tl.sum(tl.dot(tl.reshape(value, [1, N]), tl.reshape(value, [N, 1]))))
    sign = tl.load(signs + i)
    tl.store(scanned + i, tl.associative_scan(sign, 0, product))
    tl.store(running + i, tl.cumsum(sign, 0))
"""


@pytest.mark.parametrize("dtype", FLOAT8, ids=str)
def test_sorts_reductions_and_scans_of_float8(device, dtype):
    generator = torch.Generator().manual_seed(3)
    x = (torch.randn(64, generator=generator)).to(dtype)
    signs = torch.tensor([1.0, 1.0, -1.0, -1.0, 1.0, -1.0, -1.0, 1.0]).repeat(8).to(dtype)  # whose sums are exact
    both, largest, scanned, running = (torch.empty(n, dtype=dtype, device=device) for n in (128, 8, 64, 64))
    numbers = torch.empty(4, device=device)
    compile_source(REDUCTIONS)["kernel"][(1,)](
        x.to(device), signs.to(device), both, largest, numbers, scanned, running, N=64
    )
    wide = x.float()
    ascending = wide.sort()[0]
    assert torch.equal(both.cpu().float(), torch.cat([ascending, ascending.flip(0)]))
    assert torch.equal(largest.cpu().float(), ascending.flip(0)[:8])
    assert numbers.tolist()[:3] == [wide.max().item(), wide.min().item(), wide.argmax().item()]
    assert numbers[3].item() == pytest.approx(wide.double().square().sum().item(), rel=1e-6)
    assert torch.equal(scanned.cpu().float(), signs.float().cumprod(0))
    assert torch.equal(running.cpu().float(), signs.float().cumsum(0))


@triton.jit
def printed(x):
    tl.device_print("x", tl.load(x + tl.arange(0, 16)))


@triton.jit
def widened(x, out):
    i = tl.arange(0, 16)
    tl.store(out + i, tl.load(x + i).to(tl.float32))


def test_what_is_not_supported_is_refused_by_name_and_line(device):
    with pytest.raises(CompilationError, match=r"(?s)test_fp8.py:\d+.*tt.print.*f8E5M2 is not supported; convert"):
        printed[(1,)](torch.zeros(16).to(torch.float8_e5m2).to(device))
    other = torch.zeros(16).to(torch.float8_e4m3fnuz).to(device)
    with pytest.raises(CompilationError, match="fp8e4b8 not supported"):  # by Triton
        widened[(1,)](other, torch.empty(16, device=device))
    if triton.__version__.startswith("3.2"):
        pytest.skip("Ascend's Triton lowers such types itself")
    with pytest.raises(
        CompilationError, match=r"(?s)test_fp8.py:\d+.*tt.load.*the format f8E4M3FNUZ are not supported"
    ):
        widened[(1,)](other, torch.empty(16, device=device), supported_fp8_dtypes=("fp8e4b8",))
