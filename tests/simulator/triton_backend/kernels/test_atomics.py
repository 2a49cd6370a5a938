"""Atomics: nothing is lost however many programs meet, the old value comes back, masked-off lanes do nothing."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from tests.triton_features import require

from .support import FLOATS, assert_same, compile_source, dtypes, random_values, samples, tensor_of

INTEGER_WIDTHS = (torch.int32, torch.int64, torch.uint32, torch.uint64)


def atomic_kernel(operation: str):
    """Every program applies the operation to the same `BLOCK` elements and stores the old values it got."""
    return compile_source(
        f"""
@triton.jit
def kernel(target, values, olds, count, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    mask = offsets < count
    place = tl.program_id(0) * BLOCK + offsets
    value = tl.load(values + place, mask=mask)
    old = tl.atomic_{operation}(target + offsets, value, mask=mask)
    tl.store(olds + place, old, mask=mask)
"""
    )["kernel"]


def apply(device: str, operation: str, start: torch.Tensor, values: torch.Tensor, count: int | None = None):
    """Target and old values after as many programs as `values` has rows."""
    if values.dtype is torch.float64:
        require("masked loads of float64")
    programs, block = values.shape
    target, olds = start.clone().to(device), torch.zeros_like(values).to(device)
    kernel = atomic_kernel(operation)
    kernel[(programs,)](target, values.to(device), olds, block if count is None else count, BLOCK=block)
    return target.cpu(), olds.cpu()


@pytest.mark.parametrize("dtype", dtypes(*INTEGER_WIDTHS))
@pytest.mark.parametrize(
    ("operation", "reference"),
    [("add", np.add), ("max", np.maximum), ("min", np.minimum), ("and", np.bitwise_and), ("or", np.bitwise_or),
     ("xor", np.bitwise_xor)],
)  # fmt: skip
def test_integers(device, operation, reference, dtype):
    """64 programs on one tile: the result is that of any order."""
    start, values = random_values(dtype, 16, 1), random_values(dtype, 64 * 16, 2).reshape(64, 16)
    target, _ = apply(device, operation, start, values)
    expected = start.numpy().copy()
    for row in values.numpy():
        expected = reference(expected, row)
    assert_same(target, torch.from_numpy(expected))


@pytest.mark.parametrize("dtype", dtypes(*FLOATS))
def test_add_of_floats(device, dtype):
    """Sums that are exact in each dtype, so that a lost addition shows."""
    values = torch.randint(-2, 3, (60, 16)).to(dtype)
    target, _ = apply(device, "add", torch.zeros(16, dtype=dtype), values)
    assert_same(target, values.double().sum(0).to(dtype), signed_zero=False)


@pytest.mark.parametrize("dtype", dtypes(torch.float32, torch.float64))
@pytest.mark.parametrize("operation", ["max", "min"])
def test_max_and_min_of_floats(device, operation, dtype):
    """Both signs, and zeros."""
    values = torch.randn(50, 16).to(dtype)
    values[::7] = 0.0
    start = torch.randn(16).to(dtype)
    target, _ = apply(device, operation, start, values)
    assert_same(target, getattr(torch.cat([start[None], values]), f"a{operation}")(0), signed_zero=False)


@pytest.mark.compiled
@pytest.mark.parametrize("dtype", dtypes(torch.int32, torch.int64, torch.float32, torch.float64))
def test_exchange_hands_each_value_on_once(device, dtype):
    """Start, and every program's value, is found exactly once among the old values and the target."""
    start, values = torch.zeros(8).to(dtype), torch.arange(1, 41).to(dtype)[:, None].expand(40, 8).contiguous()
    target, olds = apply(device, "xchg", start, values)
    seen = torch.cat([target[None], olds]).sort(0).values
    assert_same(seen, torch.arange(41).to(dtype)[:, None].expand(41, 8).contiguous())


@pytest.mark.parametrize("dtype", dtypes(torch.int32, torch.int64))
def test_old_values_of_add_are_all_different(device, dtype):
    """As a ticket counter: each program gets a number of its own."""
    values = torch.ones(100, 4, dtype=dtype)
    target, olds = apply(device, "add", torch.zeros(4, dtype=dtype), values)
    assert (target == 100).all()
    assert_same(olds.sort(0).values, torch.arange(100).to(dtype)[:, None].expand(100, 4).contiguous())


@pytest.mark.parametrize("dtype", dtypes(torch.float16, torch.bfloat16, torch.float32, torch.float64))
def test_old_values_of_float_add(device, dtype):
    start, values = torch.arange(8).to(dtype), torch.full((1, 8), 2.0).to(dtype)
    target, olds = apply(device, "add", start, values)
    assert_same(olds[0], start)
    assert_same(target, start + 2)


@pytest.mark.parametrize("count", [0, 1, 5, 16])
@pytest.mark.parametrize("dtype", dtypes(torch.int32, torch.float32, torch.float16))
def test_masked_off_lanes_do_nothing(device, dtype, count):
    values = torch.ones(10, 16, dtype=dtype)
    target, _ = apply(device, "add", torch.zeros(16, dtype=dtype), values, count)
    assert_same(target, torch.where(torch.arange(16) < count, 10, 0).to(dtype))


@triton.jit
def histogram_kernel(indices, target, count, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < count
    index = tl.load(indices + offsets, mask=mask, other=0)
    tl.atomic_add(target + index, 1, mask=mask)


@pytest.mark.parametrize("bins", [1, 3, 50])
@pytest.mark.parametrize("dtype", dtypes(torch.int32, torch.float32, torch.float16, torch.int64))
def test_equal_addresses_within_one_tile(device, bins, dtype):
    index = torch.randint(0, bins, (1000,))
    out = torch.zeros(bins, dtype=dtype, device=device)
    histogram_kernel[(triton.cdiv(1000, 128),)](index.to(device), out, 1000, BLOCK=128)
    assert_same(out, index.bincount(minlength=bins).to(dtype))


@triton.jit
def scalar_add_kernel(target, values):
    program = tl.program_id(0)
    old = tl.atomic_add(target, tl.load(values + program))
    tl.store(values + program, old)


@pytest.mark.parametrize("dtype", dtypes(torch.int32, torch.float32, torch.int64))
def test_scalar_add(device, dtype):
    values = torch.full((200,), 3, dtype=dtype)
    target, olds = torch.zeros(1, dtype=dtype, device=device), values.clone().to(device)
    scalar_add_kernel[(200,)](target, olds)
    assert target.item() == 600
    assert_same(olds.cpu().sort().values, torch.arange(0, 600, 3).to(dtype))


@triton.jit
def cas_kernel(target, compare, value, olds, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    old = tl.atomic_cas(target + offsets, tl.load(compare + offsets), tl.load(value + offsets))
    tl.store(olds + offsets, old)


@pytest.mark.parametrize(
    "dtype", dtypes(torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32, torch.uint64)
)
def test_compare_and_swap(device, dtype):
    if not dtype.is_signed:
        require("atomic_cas of unsigned integers")
    start = samples(dtype)[:16]
    compare = torch.cat([start[:8], tensor_of([5] * 8, dtype)])
    value, olds = tensor_of(list(range(100, 116)), dtype), torch.zeros_like(start).to(device)
    target = start.clone().to(device)
    cas_kernel[(1,)](target, compare.to(device), value.to(device), olds, BLOCK=16)
    assert_same(olds, start)
    assert_same(target, torch.from_numpy(np.where(start.numpy() == compare.numpy(), value.numpy(), start.numpy())))


@pytest.mark.compiled
@pytest.mark.parametrize("dtype", dtypes(torch.float16, torch.bfloat16, torch.float32, torch.float64))
def test_compare_and_swap_of_floats(device, dtype):
    if dtype is torch.float64:
        require("atomic_cas of float64")
    start = torch.arange(16).to(dtype)
    compare = torch.where(torch.arange(16) % 2 == 0, start, -1)
    target, olds = start.clone().to(device), torch.empty_like(start, device=device)
    cas_kernel[(1,)](target, compare.to(device), (start + 100).to(device), olds, BLOCK=16)
    assert_same(olds, start)
    assert_same(target, torch.where(torch.arange(16) % 2 == 0, start + 100, start))


@triton.jit
def narrow_kernel(target, BLOCK: tl.constexpr):
    tl.atomic_add(target + tl.arange(0, BLOCK), 1)


@pytest.mark.compiled
@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16])
def test_sums_of_narrow_integers_are_refused_by_triton_or_right(device, dtype):
    """Upstream's Triton does not take them, Ascend's does."""
    target = torch.full((16,), 2, dtype=dtype, device=device)
    with contextlib.suppress(triton.CompilationError):
        narrow_kernel[(64,)](target, BLOCK=16)
        assert_same(target, torch.full((16,), 66, dtype=dtype))
        return
    with pytest.raises(triton.CompilationError, match=r"does not support u?int(8|16)"):
        narrow_kernel[(64,)](target, BLOCK=16)


@triton.jit
def locked_kernel(lock, total, squares):
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    value = tl.load(total) + 1
    tl.store(total, value)
    tl.store(squares, value * value)
    tl.atomic_xchg(lock, 0)


@pytest.mark.compiled
def test_a_spin_lock_protects_plain_accesses(device):
    lock, total, squares = (torch.zeros(1, dtype=torch.int32, device=device) for _ in range(3))
    locked_kernel[(300,)](lock, total, squares)
    assert (lock.item(), total.item(), squares.item()) == (0, 300, 90000)


@triton.jit
def last_program_kernel(values, partials, counter, out, PROGRAMS: tl.constexpr, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    tl.store(partials + program, tl.sum(tl.load(values + program * BLOCK + tl.arange(0, BLOCK)), 0))
    if tl.atomic_add(counter, 1, sem="acq_rel") == PROGRAMS - 1:
        tl.store(out, tl.sum(tl.load(partials + tl.arange(0, PROGRAMS)), 0))


def test_the_last_program_sees_the_stores_of_all(device):
    """The split reduction that needs no second launch."""
    x = torch.randint(-9, 9, (64, 32)).float()
    partials, out = torch.zeros(64, device=device), torch.zeros(1, device=device)
    counter = torch.zeros(1, dtype=torch.int32, device=device)
    last_program_kernel[(64,)](x.to(device), partials, counter, out, PROGRAMS=64, BLOCK=32)
    assert out.item() == x.sum().item()


@pytest.mark.parametrize("scope", ["cta", "gpu", "sys"])
@pytest.mark.parametrize("semantics", ["relaxed", "acquire", "release", "acq_rel"])
def test_memory_orders_and_scopes_are_accepted(device, semantics, scope):
    kernel = compile_source(
        f"""
@triton.jit
def kernel(target):
    tl.atomic_add(target + tl.arange(0, 4), 1, sem="{semantics}", scope="{scope}")
"""
    )["kernel"]
    target = torch.zeros(4, dtype=torch.int32, device=device)
    kernel[(5,)](target)
    assert target.tolist() == [5] * 4
