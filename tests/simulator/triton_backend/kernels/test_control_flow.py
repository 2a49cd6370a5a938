"""Loops, branches, early returns and calls; values carried through them are scalars, tiles or pointers."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from tests.triton_features import needs_feature

from .support import assert_same


@triton.jit
def for_kernel(out, start, stop, step, BLOCK: tl.constexpr):
    tile = tl.zeros((BLOCK,), tl.int32)
    count = 0
    for i in range(start, stop, step):
        tile += i * tl.arange(0, BLOCK)
        count += 1
    tl.store(out + tl.arange(0, BLOCK), tile)
    tl.store(out + BLOCK, count)


@pytest.mark.parametrize(
    ("start", "stop", "step"), [(0, 10, 1), (3, 20, 4), (5, 5, 1), (7, 2, 1), (-6, 6, 5), (0, 1, 9)]
)
def test_for_with_runtime_bounds(device, start, stop, step):
    out = torch.zeros(17, dtype=torch.int32, device=device)
    for_kernel[(1,)](out, start, stop, step, BLOCK=16)
    steps = range(start, stop, step)
    assert out.tolist() == [sum(steps) * lane for lane in range(16)] + [len(steps)]


@triton.jit
def count_down_kernel(out, start):
    place = 0
    for i in range(start, 0, -2):
        tl.store(out + place, i)
        place += 1  # noqa: SIM113 (a Triton loop has no enumerate)


def test_for_counts_down(device):
    out = torch.zeros(5, dtype=torch.int32, device=device)
    count_down_kernel[(1,)](out, 9)
    assert out.tolist() == [9, 7, 5, 3, 1]


@triton.jit
def tl_range_kernel(out, n, BLOCK: tl.constexpr):
    tile = tl.zeros((BLOCK,), tl.float32)
    for i in tl.range(0, n, num_stages=3):
        tile += i
    for i in tl.range(n, loop_unroll_factor=2):
        tile += i * 100
    for i in tl.static_range(0, 3):
        tile += i * 10000
    tl.store(out + tl.arange(0, BLOCK), tile)


def test_tl_range_and_static_range(device):
    out = torch.empty(8, device=device)
    tl_range_kernel[(1,)](out, 5, BLOCK=8)
    assert out.tolist() == [31010.0] * 8


@triton.jit
def nested_kernel(source, out, rows, columns, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    largest = float("-inf")
    for r in range(rows):
        row = 0.0
        for start in range(0, columns, BLOCK):
            offsets = start + tl.arange(0, BLOCK)
            x = tl.load(source + r * columns + offsets, mask=offsets < columns, other=0.0)
            total += x
            row += tl.sum(x, 0)
        largest = tl.maximum(largest, row)
    tl.store(out, tl.sum(total, 0))
    tl.store(out + 1, largest)


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (5, 40), (7, 16), (3, 100)])
def test_nested_loops_carry_tiles_and_scalars(device, rows, columns):
    x = torch.randint(-9, 9, (rows, columns)).float()
    out = torch.empty(2, device=device)
    nested_kernel[(1,)](x.to(device), out, rows, columns, BLOCK=16)
    assert out.tolist() == [x.sum().item(), x.sum(1).max().item()]


@triton.jit
def while_kernel(out, numbers, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    n = tl.load(numbers + program)
    steps = 0
    trail = tl.zeros((BLOCK,), tl.int64)
    while n != 1:
        n = tl.where(n % 2 == 0, n // 2, 3 * n + 1)
        trail = tl.where(tl.arange(0, BLOCK) == steps % BLOCK, n, trail)
        steps += 1
    tl.store(out + program * (BLOCK + 1) + tl.arange(0, BLOCK), trail)
    tl.store(out + program * (BLOCK + 1) + BLOCK, steps)


@pytest.mark.compiled
def test_while_until_a_value_says_stop(device):
    """Collatz: every program runs as long as its own number asks."""
    numbers = torch.tensor([1, 2, 6, 7, 27, 97])
    out = torch.empty(6, 9, dtype=torch.int64, device=device)
    while_kernel[(6,)](out, numbers.to(device), BLOCK=8)
    for number, row in zip(numbers.tolist(), out.tolist()):
        trail, steps = [0] * 8, 0
        while number != 1:
            number = number // 2 if number % 2 == 0 else 3 * number + 1
            trail[steps % 8] = number
            steps += 1
        assert row == [*trail, steps]


@triton.jit
def while_condition_kernel(source, out, limit, count):
    i = 0
    total = 0.0
    while (i < count) & (total < limit):
        total += tl.load(source + i)
        i += 1
    tl.store(out, total)
    tl.store(out + 1, i.to(tl.float32))


@pytest.mark.compiled
def test_while_on_two_conditions(device):
    out = torch.empty(2, device=device)
    while_condition_kernel[(1,)](torch.arange(1.0, 11.0).to(device), out, 12.0, 10)
    assert out.tolist() == [15.0, 5.0]


@triton.jit
def branch_kernel(source, out, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    offsets = program * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(source + offsets)
    scale = 1.0
    if program % 3 == 0:
        y = x + 1
    elif program % 3 == 1:
        y = x * 2
        scale = 10.0
    else:
        y = tl.exp(x)
        tl.store(out + offsets, y)
    tl.store(out + offsets, y * scale)


@pytest.mark.compiled
def test_branches_yield_tiles_and_scalars(device):
    x, out = torch.randn(6, 16), torch.empty(6, 16, device=device)
    branch_kernel[(6,)](x.to(device), out, BLOCK=16)
    expected = torch.stack([[row + 1, row * 20, row.exp()][i % 3] for i, row in enumerate(x)])
    torch.testing.assert_close(out.cpu(), expected)


@triton.jit
def branch_on_data_kernel(source, out, BLOCK: tl.constexpr):
    x = tl.load(source + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    if tl.sum(x, 0) > 0:
        result = tl.max(x, 0)
    else:
        result = tl.min(x, 0)
    tl.store(out + tl.program_id(0), result)


@pytest.mark.compiled
def test_branches_on_loaded_data(device):
    x, out = torch.randn(20, 16), torch.empty(20, device=device)
    branch_on_data_kernel[(20,)](x.to(device), out, BLOCK=16)
    assert_same(out, torch.where(x.sum(1) > 0, x.amax(1), x.amin(1)))


@triton.jit
def loop_with_branches_kernel(source, out, count, BLOCK: tl.constexpr):
    even = tl.zeros((BLOCK,), tl.float32)
    odd = tl.zeros((BLOCK,), tl.float32)
    for i in range(count):
        x = tl.load(source + i * BLOCK + tl.arange(0, BLOCK))
        if i % 2 == 0:
            even += x
        else:
            odd += x
        if i == 3:
            even, odd = odd, even
    tl.store(out + tl.arange(0, BLOCK), even)
    tl.store(out + BLOCK + tl.arange(0, BLOCK), odd)


@pytest.mark.compiled
@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 8])
def test_branches_in_loops_swap_carried_tiles(device, count):
    x, out = torch.randint(-9, 9, (8, 16)).float(), torch.empty(2, 16, device=device)
    loop_with_branches_kernel[(1,)](x.to(device), out, count, BLOCK=16)
    even, odd = torch.zeros(16), torch.zeros(16)
    for i in range(count):
        even, odd = (even + x[i], odd) if i % 2 == 0 else (even, odd + x[i])
        if i == 3:
            even, odd = odd, even
    assert_same(out, torch.stack([even, odd]), signed_zero=False)


@triton.jit
def fibonacci_kernel(out, count, BLOCK: tl.constexpr):
    a = tl.arange(0, BLOCK)
    b = tl.full((BLOCK,), 1, tl.int32)
    for _ in range(count):
        a, b = b, a + b
    tl.store(out + tl.arange(0, BLOCK), a)


@pytest.mark.parametrize("count", [0, 1, 2, 10])
def test_carried_tiles_may_trade_places(device, count):
    out = torch.empty(32, dtype=torch.int32, device=device)
    fibonacci_kernel[(1,)](out, count, BLOCK=32)
    a, b = torch.arange(32, dtype=torch.int32), torch.ones(32, dtype=torch.int32)
    for _ in range(count):
        a, b = b, a + b
    assert_same(out, a)


@triton.jit
def early_return_kernel(out, limit):
    program = tl.program_id(0)
    if program >= limit:
        return
    tl.store(out + program, program + 100)


@pytest.mark.compiled
@pytest.mark.parametrize("limit", [0, 3, 8])
def test_early_return(device, limit):
    out = torch.zeros(8, dtype=torch.int32, device=device)
    early_return_kernel[(8,)](out, limit)
    assert out.tolist() == [i + 100 if i < limit else 0 for i in range(8)]


@triton.jit
def return_both_ways_kernel(source, out, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    x = tl.load(source + program * BLOCK + tl.arange(0, BLOCK))
    if program % 2 == 0:
        tl.store(out + program * BLOCK + tl.arange(0, BLOCK), x)
        return
    else:  # noqa: RET505 (both ways are the point)
        tl.store(out + program * BLOCK + tl.arange(0, BLOCK), -x)


@pytest.mark.compiled
def test_return_from_one_branch(device):
    x, out = torch.randn(4, 16), torch.empty(4, 16, device=device)
    return_both_ways_kernel[(4,)](x.to(device), out, BLOCK=16)
    assert_same(out, x * torch.tensor([1.0, -1.0, 1.0, -1.0])[:, None])


@triton.jit
def square(x):
    return x * x


@triton.jit(noinline=True)
def add_noinline(x, y):
    return x + y


@triton.jit(noinline=True)
def load_pair(pointer, place):
    x = tl.load(pointer + place)
    return x, add_noinline(x, x)


@triton.jit
def power(x, N: tl.constexpr):
    if N == 0:
        return x * 0 + 1
    else:  # noqa: RET505 (Triton compiles what follows an `if` on a constexpr otherwise)
        return x * power(x, N - 1)


@triton.jit
def pick(x, flag):
    if flag > 0:
        return x + 1
    return x - 1


@triton.jit
def calls_kernel(source, out, flag, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(source + offsets)
    tl.store(out + offsets, power(square(x), 3) + pick(x, flag))


@needs_feature("functions that call themselves")
@pytest.mark.compiled
@pytest.mark.parametrize("flag", [0, 1])
def test_calls_of_other_functions(device, flag):
    """Nested, recursive over a constexpr, and with two returns."""
    x, out = torch.randint(-3, 4, (32,)).float(), torch.empty(32, device=device)
    calls_kernel[(1,)](x.to(device), out, flag, BLOCK=32)
    assert_same(out, x**6 + x + (1 if flag else -1))


@triton.jit
def noinline_kernel(source, out, scale):
    x, y = load_pair(source, tl.program_id(0))
    tl.store(out + tl.program_id(0), add_noinline(y, scale) + x)


def test_calls_of_functions_that_are_not_inlined(device):
    """Triton lets them take and return scalars only; they may call one another."""
    x, out = torch.randn(8), torch.empty(8, device=device)
    noinline_kernel[(8,)](x.to(device), out, 0.5)
    assert_same(out, x + x + 0.5 + x)


@triton.jit
def pointer_walk_kernel(source, out, count, BLOCK: tl.constexpr):
    pointers = source + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for _ in range(count):
        total += tl.load(pointers)
        pointers += BLOCK
    tl.store(out + tl.arange(0, BLOCK), total)


@pytest.mark.parametrize("count", [0, 1, 7])
def test_pointers_are_carried(device, count):
    x, out = torch.randint(-9, 9, (7, 16)).float(), torch.empty(16, device=device)
    pointer_walk_kernel[(1,)](x.to(device), out, count, BLOCK=16)
    assert_same(out, x[:count].sum(0), signed_zero=False)


@triton.jit
def carried_2d_kernel(source, out, count, N: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    state = tl.load(source + i * N + j)
    for _ in range(count):
        state = tl.trans(state) + tl.sum(state, 1)[:, None]
    tl.store(out + i * N + j, state)


def test_a_carried_tile_is_transposed_and_reduced(device):
    x, out = torch.randint(-2, 3, (8, 8)).float(), torch.empty(8, 8, device=device)
    carried_2d_kernel[(1,)](x.to(device), out, 3, N=8)
    for _ in range(3):
        x = x.T + x.sum(1, keepdim=True)
    assert_same(out, x, signed_zero=False)


@triton.jit
def overwritten_in_loop_kernel(source, out, count, N: tl.constexpr, SWAPPED: tl.constexpr, TURNED: tl.constexpr):
    place = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    a = tl.zeros((N, N), tl.float32) + place
    b = tl.full((N, N), 1.0, tl.float32)
    for _ in range(count):
        x = tl.load(source + place)
        tl.store(source + place, tl.trans(a) if TURNED else x + 1)
        if SWAPPED:
            a, b = b, a + x
        else:
            a = a + x
    tl.store(out + place, a)
    tl.store(out + N * N + place, b)


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("turned", [False, True])
def test_a_carried_tile_takes_what_was_there_before_the_loop_wrote_it(device, swapped, turned):
    """Also where the next tiles cannot be written together with what the loop stores, which needs the last ones."""
    x, out = torch.randint(-9, 9, (8, 8)).float(), torch.empty(2, 8, 8, device=device)
    source = x.clone().to(device)
    overwritten_in_loop_kernel[(1,)](source, out, 3, 8, swapped, turned)
    a, b = torch.arange(64.0).view(8, 8), torch.ones(8, 8)
    for _ in range(3):
        total, x = a + x, a.T if turned else x + 1
        a, b = (b, total) if swapped else (total, b)
    assert_same(source, x.contiguous())
    assert_same(out, torch.stack([a, b]))


@triton.jit
def overwritten_in_every_region_kernel(source, out, count, N: tl.constexpr):
    offsets = tl.arange(0, N)
    looped = tl.zeros((N,), tl.float32)
    for _ in range(count):
        x = tl.load(source + offsets)
        tl.store(source + offsets, x + 1)
        looped += x
    chosen = looped
    if count > 1:
        x = tl.load(source + offsets)
        tl.store(source + offsets, x * 2)
        chosen += x
    repeated, times = chosen, 0
    while times < count:
        x = tl.load(source + offsets)
        tl.store(source + offsets, x - 3)
        repeated += x
        times += 1
    tl.store(out + offsets, looped)
    tl.store(out + N + offsets, chosen)
    tl.store(out + 2 * N + offsets, repeated)


@pytest.mark.parametrize("size", [1, 2, 64])
def test_what_a_region_hands_on_is_of_what_was_there_before_it_wrote(device, size):
    x, out = torch.arange(size) + 5.0, torch.empty(3, size, device=device)
    source = x.to(device)
    overwritten_in_every_region_kernel[(1,)](source, out, 2, size)
    looped = 2 * x + 1
    chosen = looped + x + 2
    assert_same(out, torch.stack([looped, chosen, chosen + 2 * (x + 2) * 2 - 3]))
    assert_same(source, (x + 2) * 2 - 6)


@triton.jit
def first_of_a_carried_tile_kernel(out, count, N: tl.constexpr):
    state = tl.arange(0, N) + 1.0
    total = tl.zeros((1,), tl.float32)
    for _ in range(count):
        total += tl.gather(state, tl.zeros((1,), tl.int32), 0)
        state = state * 2
    tl.store(out + tl.arange(0, 1), total)
    tl.store(out + 1 + tl.arange(0, N), state)


def test_one_element_of_a_carried_tile_is_of_this_turn(device):
    out = torch.empty(17, device=device)
    first_of_a_carried_tile_kernel[(1,)](out, 4, N=16)
    assert out.tolist() == [1 + 2 + 4 + 8, *((i + 1) * 16 for i in range(16))]


@triton.jit
def stores_in_loop_kernel(x, count, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    for i in range(count):
        value = tl.load(x + i * BLOCK + offsets)
        tl.store(x + (i + 1) * BLOCK + offsets, value + 1)


def test_a_loop_reads_what_its_last_turn_wrote(device):
    x = torch.zeros(6, 16, device=device)
    stores_in_loop_kernel[(1,)](x, 5, BLOCK=16)
    assert_same(x, torch.arange(6.0)[:, None].expand(6, 16).contiguous())


@triton.jit
def invariant_kernel(source, out, count, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.exp(tl.load(source + offsets))
    for i in range(count):
        tl.store(out + i * BLOCK + offsets, x + i)
        tl.store(source + offsets, x * 0)


def test_a_value_from_before_the_loop_stays(device):
    """Also when the loop overwrites the memory that it came from."""
    x, out = torch.randn(16), torch.empty(3, 16, device=device)
    invariant_kernel[(1,)](x.clone().to(device), out, 3, BLOCK=16)
    torch.testing.assert_close(out.cpu(), x.exp() + torch.arange(3.0)[:, None])
