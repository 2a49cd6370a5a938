"""Kernels that are run as Ascend's compiler understands them: good ones of each kind, and ones that it gets wrong."""

import triton
import triton.language as tl


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


@triton.jit
def gelu(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n).to(tl.float32)
    tl.store(out + at, value * 0.5 * (1.0 + tl.erf(value * 0.7071067811865476)), mask=at < n)


@triton.jit
def cancel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n, other=1.0)
    tl.store(out + at, tl.exp(-value) + tl.log(value), mask=at < n)


@triton.jit
def select(x, flags, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    chosen = tl.load(flags + at, mask=at < n, other=0).to(tl.int1)
    tl.store(out + at, tl.where(chosen & (value > 0), value, -1.0), mask=at < n)


@triton.jit
def softmax(x, out, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, COLUMNS)
    inside = (row[:, None] < rows) & (column[None, :] < columns)
    value = tl.load(x + row[:, None] * columns + column[None, :], mask=inside, other=-float("inf"))
    power = tl.exp(value - tl.max(value, 1)[:, None])
    tl.store(out + row[:, None] * columns + column[None, :], power / tl.sum(power, 1)[:, None], mask=inside)


@triton.jit
def best(x, out, places, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row, column = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    tile = tl.load(x + row[:, None] * COLUMNS + column[None, :])
    tl.store(out + row, tl.max(tile, 1))
    tl.store(places + row, tl.argmax(tile, 1))


@triton.jit
def scan(x, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr, REVERSE: tl.constexpr):
    at = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    tl.store(out + at, tl.cumsum(tl.load(x + at), 1, reverse=REVERSE))


@triton.jit
def gather(x, index, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + tl.load(index + at, mask=at < n, other=0)), mask=at < n)


@triton.jit
def count(index, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out + tl.load(index + at, mask=at < n, other=0), 1, mask=at < n)


@triton.jit
def accumulate(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out, tl.sum(tl.load(x + at, mask=at < n, other=0.0), 0))


@triton.jit
def matmul(a, b, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr):
    row, column, depth = tl.arange(0, ROWS), tl.arange(0, COLUMNS), tl.arange(0, DEPTH)
    left = tl.load(a + row[:, None] * DEPTH + depth[None, :])
    right = tl.load(b + depth[:, None] * COLUMNS + column[None, :])
    tl.store(out + row[:, None] * COLUMNS + column[None, :], tl.dot(left, right))


@triton.jit
def transpose(x, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row, column = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    tile = tl.load(x + row[:, None] * COLUMNS + column[None, :])
    tl.store(out + column[:, None] * ROWS + row[None, :], tl.trans(tile))


@triton.jit
def sums_of_rows(x, out, n, COLUMNS: tl.constexpr):
    total = tl.zeros((COLUMNS,), tl.float32)
    for row in range(n):
        total += tl.load(x + row * COLUMNS + tl.arange(0, COLUMNS))
    tl.store(out + tl.arange(0, COLUMNS), total)


@triton.jit
def sort(x, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    at = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    tl.store(out + at, tl.sort(tl.load(x + at)))


@triton.jit
def divide(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) // tl.load(y + at, mask=at < n, other=1), mask=at < n)


# From here on: kernels that Ascend's compiler accepts and gets wrong.


@triton.jit
def reversed_mask(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=n > at) + 1.0, mask=n > at)


@triton.jit
def data_dependent_mask(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    tl.store(out + at, value, mask=(at < n) & (value > 0))


@triton.jit
def random(out, seed, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.rand(seed, at), mask=at < n)


@triton.jit
def shift_unsigned(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    bits = tl.load(x + at, mask=at < n).to(tl.uint32, bitcast=True)
    tl.store(out + at, (bits >> 3).to(tl.int32, bitcast=True), mask=at < n)
