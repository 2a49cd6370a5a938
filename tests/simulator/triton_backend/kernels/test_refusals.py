"""What the compiler refuses, it refuses with a name, a line and a limit; the device stays usable."""

from __future__ import annotations

import inspect

import pytest
import torch
import triton
import triton.language as tl
from triton.compiler import errors
from triton.runtime.errors import OutOfResources

pytestmark = pytest.mark.compiled

UNIFIED_BUFFER = 192 * 1024
# Ascend's Triton puts what a stage of the compiler raises into the text of an error of its own.
REFUSALS = (errors.CompilationError, getattr(errors, "MLIRCompilationError", errors.CompilationError))


@triton.jit
def two_tiles_kernel(x, out, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    value = tl.load(x + offsets)
    tl.store(out + offsets, value - tl.max(value, 0))


def line_of(kernel, text: str) -> int:
    """The line in this file of the kernel's line that contains `text`."""
    lines, first = inspect.getsourcelines(kernel.fn)
    return first + next(number for number, line in enumerate(lines) if text in line)


def test_a_kernel_over_the_unified_buffer_is_out_of_resources(device):
    """The message names bytes needed, bytes there, and the lines that make the largest tiles."""
    x = torch.zeros(2**18, device=device)
    with pytest.raises(OutOfResources) as refusal:
        two_tiles_kernel[(1,)](x, torch.empty_like(x), BLOCK=2**18)
    assert refusal.value.limit == UNIFIED_BUFFER
    assert refusal.value.required >= 2**18 * 4
    message = str(refusal.value)
    assert str(refusal.value.required) in message and str(UNIFIED_BUFFER) in message
    assert f"test_refusals.py:{line_of(two_tiles_kernel, 'tl.load')}" in message


def test_a_refusal_is_repeated_and_harms_no_other_kernel(device):
    x = torch.rand(2**18, device=device)
    for _ in range(2):
        with pytest.raises(OutOfResources):
            two_tiles_kernel[(1,)](x, torch.empty_like(x), BLOCK=2**18)
    out = torch.empty(256, device=device)
    two_tiles_kernel[(1,)](x, out, BLOCK=256)
    assert out.max().item() == 0


@triton.jit
def fits_kernel(x, out, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(out + offsets, tl.load(x + offsets) + 1)


@pytest.mark.parametrize("block", [4096, 16384])
def test_a_kernel_that_fits_runs(device, block):
    x, out = torch.rand(block, device=device), torch.empty(block, device=device)
    fits_kernel[(1,)](x, out, BLOCK=block)
    assert torch.equal(out.cpu(), x.cpu() + 1)


@pytest.mark.parametrize("grid", [(65536,), (256, 256), (1, 1, 70000)], ids=str)
def test_a_grid_over_the_limit_names_the_limit(device, grid):
    x = torch.zeros(64, device=device)
    with pytest.raises((ValueError, RuntimeError), match=r"65535|less than 65536"):
        fits_kernel[grid](x, torch.empty_like(x), BLOCK=64)


@triton.jit
def assembler_kernel(out, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    y = tl.inline_asm_elementwise("mov.u32 $0, $1;", "=r,r", [offsets], dtype=tl.int32, is_pure=True, pack=1)
    tl.store(out + offsets, y)


def test_an_operation_that_is_not_supported_is_named_with_its_line(device):
    out = torch.zeros(32, dtype=torch.int32, device=device)
    with pytest.raises(REFUSALS) as refusal:
        assembler_kernel[(1,)](out, BLOCK=32)
    message = str(refusal.value)
    assert "inline_asm" in message
    assert f"test_refusals.py:{line_of(assembler_kernel, 'inline_asm_elementwise')}" in message


@triton.jit
def unsigned_dot_kernel(x, out, N: tl.constexpr):
    where = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out + where, tl.dot(tl.load(x + where), tl.load(x + where)))


def test_a_product_of_unsigned_tiles_is_refused_by_triton(device):
    """TTIR does not tell uint8 from int8; Triton's front end lets only int8 through."""
    x = torch.full((16, 16), 200, dtype=torch.uint8, device=device)
    with pytest.raises(triton.CompilationError, match=r"tl\.dot[\s\S]*only int8 supported"):
        unsigned_dot_kernel[(1,)](x, torch.zeros(16, 16, dtype=torch.int32, device=device), N=16)


def test_a_cpu_tensor_is_refused(device):
    x = torch.zeros(64, device=device)
    with pytest.raises((ValueError, RuntimeError), match=r"(?i)cpu"):
        fits_kernel[(1,)](x, torch.empty(64), BLOCK=64)


@triton.jit
def mismatched_kernel(out):
    tl.store(out + tl.arange(0, 8), tl.arange(0, 16))


def test_mistakes_in_a_kernel_are_tritons_compilation_errors(device):
    with pytest.raises(triton.CompilationError):
        mismatched_kernel[(1,)](torch.zeros(8, device=device))
