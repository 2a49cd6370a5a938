"""What helps to find mistakes: assertions on the device and at compile time, printing from both."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from tests.triton_features import needs_feature

from .support import assert_same

pytestmark = pytest.mark.compiled


@triton.jit
def checked_kernel(source, out, limit, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(source + offsets)
    tl.device_assert(x < limit, "value over the limit")
    tl.store(out + offsets, x)


def test_a_failed_device_assert_surfaces_at_synchronize_with_its_message(device):
    x, out = torch.arange(64, dtype=torch.int32, device=device), torch.zeros(64, dtype=torch.int32, device=device)
    checked_kernel[(4,)](x, out, 50, BLOCK=16, debug=True)
    with pytest.raises(RuntimeError, match="value over the limit") as failure:
        torch.npu.synchronize()
    assert "checked_kernel" in str(failure.value)


def test_the_device_goes_on_after_a_failed_assert(device):
    x, out = torch.arange(64, dtype=torch.int32, device=device), torch.zeros(64, dtype=torch.int32, device=device)
    checked_kernel[(4,)](x, out, 0, BLOCK=16, debug=True)
    with pytest.raises(RuntimeError, match="value over the limit"):
        torch.npu.synchronize()
    checked_kernel[(4,)](x, out, 64, BLOCK=16, debug=True)
    torch.npu.synchronize()
    assert_same(out, torch.arange(64, dtype=torch.int32))


@triton.jit
def masked_assert_kernel(source, count, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(source + offsets, mask=offsets < count, other=-1)
    tl.device_assert(x >= 0, "negative", mask=offsets < count)


@needs_feature("masks of device_assert")
def test_masked_off_lanes_are_not_asserted(device):
    masked_assert_kernel[(1,)](torch.arange(8, dtype=torch.int32, device=device), 5, BLOCK=8, debug=True)
    torch.npu.synchronize()


def test_asserts_are_off_without_debug(device):
    x, out = torch.arange(64, dtype=torch.int32, device=device), torch.zeros(64, dtype=torch.int32, device=device)
    checked_kernel[(4,)](x, out, 0, BLOCK=16)
    torch.npu.synchronize()


@triton.jit
def printing_kernel(source, BLOCK: tl.constexpr):
    x = tl.load(source + tl.arange(0, BLOCK))
    tl.device_print("values", x)
    tl.device_print("total", tl.sum(x, 0))


@pytest.mark.parametrize("dtype", [torch.int32, torch.float32, torch.bfloat16, torch.uint8], ids=str)
def test_device_print_shows_prefix_and_values(device, dtype, capfd):
    printing_kernel[(1,)](torch.tensor([3, 5, 11, 42]).to(dtype).to(device), BLOCK=4)
    torch.npu.synchronize()
    lines = capfd.readouterr().out.splitlines()
    values, totals = ([line for line in lines if name in line] for name in ("values", "total"))
    assert len(values) == 4 and len(totals) == 1
    for number, line in zip((3, 5, 11, 42), values):
        assert str(number) in line
    assert "61" in totals[0]


@triton.jit
def static_kernel(out, N: tl.constexpr):
    tl.static_assert(N % 8 == 0, "N must be a multiple of 8")
    tl.static_print("compiling for N =", N)
    tl.store(out, N)


def test_static_assert_stops_the_compilation(device):
    with pytest.raises(triton.CompilationError, match="N must be a multiple of 8"):
        static_kernel[(1,)](torch.zeros(1, device=device), N=12)


def test_static_print_prints_while_compiling(device, capfd, monkeypatch):
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")
    out = torch.zeros(1, device=device)
    static_kernel[(1,)](out, N=24)
    assert out.item() == 24
    assert "compiling for N = 24" in capfd.readouterr().out


@triton.jit
def hints_kernel(out, n, BLOCK: tl.constexpr):
    tl.assume(n >= 0)
    tl.debug_barrier()
    tl.store(out + tl.arange(0, BLOCK), n)


def test_assumptions_and_barriers_are_accepted(device):
    out = torch.zeros(8, device=device)
    hints_kernel[(1,)](out, 3, BLOCK=8)
    assert out.tolist() == [3.0] * 8
