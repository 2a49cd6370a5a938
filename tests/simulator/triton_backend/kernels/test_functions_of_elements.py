"""Functions of scalars inside an operation, with real control flow: combine functions and `tl.map_elementwise`."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from .support import assert_same, needs

pytestmark = pytest.mark.compiled
maps = needs("map_elementwise")


@triton.jit
def farther(a, b):
    if tl.abs(a) > tl.abs(b):
        chosen = a
    else:
        chosen = b
        if a == -b:
            chosen = tl.abs(a)
    return chosen


@triton.jit
def reduce_kernel(x, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr, AXIS: tl.constexpr):
    r, c = tl.arange(0, ROWS)[:, None], tl.arange(0, COLUMNS)[None, :]
    result = tl.reduce(tl.load(x + r * COLUMNS + c), AXIS, farther)
    tl.store(out + tl.arange(0, COLUMNS if AXIS == 0 else ROWS), result)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", [torch.int32, torch.float32, torch.float16])
def test_a_reduction_whose_function_branches(device, axis, dtype):
    x = torch.randint(-100, 101, (16, 32)).to(dtype)
    out = torch.empty(32 if axis == 0 else 16, dtype=dtype, device=device)
    reduce_kernel[(1,)](x.to(device), out, 16, 32, axis)
    largest, least = x.amax(axis), x.amin(axis)
    assert_same(out, torch.where(largest.abs() >= least.abs(), largest, least))


@triton.jit
def restart(value, began, next_value, next_begins):
    """A running sum that begins anew at marked places."""
    if next_begins != 0:
        return next_value, next_begins
    return value + next_value, began


@triton.jit
def scan_kernel(x, marks, out, N: tl.constexpr):
    i = tl.arange(0, N)
    sums, _ = tl.associative_scan((tl.load(x + i), tl.load(marks + i)), 0, restart)
    tl.store(out + i, sums)


def test_a_scan_whose_function_returns_early(device):
    x, marks = torch.randint(-5, 6, (64,)).int(), (torch.arange(64) % 10 == 3).int()
    out = torch.empty_like(x, device=device)
    scan_kernel[(1,)](x.to(device), marks.to(device), out, N=64)
    expected, total = [], 0
    for value, begins in zip(x.tolist(), marks.tolist()):
        total = value if begins else total + value
        expected.append(total)
    assert out.tolist() == expected


@triton.jit
def selu_of_one(x, alpha):
    if x > 0:
        return x
    return alpha * (tl.exp(x) - 1)


@triton.jit
def selu_kernel(x, out, alpha, COUNT, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out + i, tl.map_elementwise(selu_of_one, tl.load(x + i, mask=i < COUNT), alpha), mask=i < COUNT)


@maps
def test_a_map_with_a_return_inside_of_an_if(device):
    x = torch.randn(100)
    out = torch.empty(100, device=device)
    selu_kernel[(2,)](x.to(device), out, 1.5, 100, N=64)
    torch.testing.assert_close(out.cpu(), torch.where(x > 0, x, 1.5 * (x.exp() - 1)))


@triton.jit
def collatz_step(n, limit):
    if n % 2 == 0:
        following = n // 2
    elif n < limit:
        following = 3 * n + 1
    else:
        following = n
    return following, following > n


@triton.jit
def several_results_kernel(n, out, grew, limits, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    r, c = tl.arange(0, ROWS)[:, None], tl.arange(0, COLUMNS)[None, :]
    following, larger = tl.map_elementwise(collatz_step, tl.load(n + r * COLUMNS + c), tl.load(limits + r))
    tl.store(out + r * COLUMNS + c, following)
    tl.store(grew + r * COLUMNS + c, larger)


@maps
def test_a_map_of_broadcast_tiles_with_several_results(device):
    n, limits = torch.randint(1, 1000, (8, 16)), torch.randint(1, 1000, (8, 1))
    out, grew = torch.empty_like(n, device=device), torch.empty(8, 16, dtype=torch.bool, device=device)
    several_results_kernel[(1,)](n.to(device), out, grew, limits.to(device), 8, 16)
    expected = torch.where(n % 2 == 0, n // 2, torch.where(n < limits, 3 * n + 1, n))
    assert_same(out, expected)
    assert_same(grew, expected > n)


@triton.jit
def sum_and_difference(a0, a1, b0, b1):
    return a0 + b0, a1 - b1, a0 * b1, a1 * b0


@triton.jit
def rotate(a, b, c, d):
    return b, c, d, a


@triton.jit
def packed_kernel(x, y, first, second, rotated, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.map_elementwise(sum_and_difference, tl.load(x + i), tl.load(y + i), pack=2)
    tl.store(first + i, a)
    tl.store(second + i, b)
    (c,) = tl.map_elementwise(rotate, tl.load(x + i), pack=4)
    tl.store(rotated + i, c)


@maps
def test_a_map_of_several_neighbours_at_once(device):
    x, y = torch.randint(-9, 10, (64,)).int(), torch.randint(-9, 10, (64,)).int()
    first, second, rotated = (torch.empty_like(x, device=device) for _ in range(3))
    packed_kernel[(1,)](x.to(device), y.to(device), first, second, rotated, N=64)
    even = torch.arange(64) % 2 == 0
    assert_same(first, torch.where(even, x + y, x - y))
    assert_same(second, torch.where(even, x * y.roll(-1), x * y.roll(1)))
    assert_same(rotated, x.view(16, 4).roll(-1, 1).flatten())


@triton.jit
def halved_until_small(x):
    while x > 1.0:
        x = x * 0.5
    return x


@triton.jit
def loop_kernel(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.map_elementwise(halved_until_small, tl.load(x + i)))


@maps
def test_a_loop_for_each_element_is_refused(device):
    x = torch.rand(64, device=device)
    with pytest.raises(triton.CompilationError, match=r"test_functions_of_elements\.py:\d+[\s\S]*scf\.while.*loop"):
        loop_kernel[(1,)](x, torch.empty_like(x), N=64)


@triton.jit
def loaded(pointer):
    return tl.load(pointer + 1)


@triton.jit
def load_kernel(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.map_elementwise(loaded, x + i))


@maps
def test_a_load_for_each_element_is_refused(device):
    x = torch.rand(64, device=device)
    with pytest.raises(triton.CompilationError, match=r"_of_elements\.py:\d+[\s\S]*tt\.load.*load before"):
        load_kernel[(1,)](x, torch.empty_like(x), N=32)
