"""32-bit indices beyond 2**31: whatever is compared, divided, converted or loaded from is the number that wrapped."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given, settings
from hypothesis import strategies as st

from .support import QUICK, assert_same
from .test_index_arithmetic import BLOCK, evaluate_index, meaning

LARGEST, LEAST = 2**31 - 1, -(2**31)

# Scalars from which a chunk, a row of a tile, or the next program passes the border.
BORDERS = (
    LARGEST,
    LARGEST - 15,
    LARGEST - 16,
    LARGEST - 40,
    LARGEST - BLOCK,
    LARGEST - 2 * BLOCK + 7,
    LEAST,
    LEAST + 30,
)
borders = st.sampled_from((*BORDERS, 2**30))
COMPARISONS = {
    "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal, "!=": np.not_equal
}  # fmt: skip
factors = st.sampled_from([1, -1, 3, 4096, 40503, 2**20, 16777216, 2**30])
sums = st.recursive(
    st.sampled_from(["i", "i", "p", "n"]),
    lambda inner: st.one_of(
        st.builds("({} + {})".format, inner, inner),
        st.builds("({} - {})".format, inner, inner),
        st.builds("({} * {})".format, inner, factors),
        st.builds("({} + {})".format, inner, st.sampled_from([1, -1, 2**31 - 100, 2**30])),
    ),
    max_leaves=4,
)
whole = settings(QUICK, max_examples=40)


@whole
@given(expression=sums, scalar=borders, operator=st.sampled_from(list(COMPARISONS)), bound=sums)
def test_any_comparison(device, expression, scalar, operator, bound):
    got = evaluate_index(device, f"(({expression}) {operator} ({bound})).to(tl.int32) + i * 0", scalar)
    left, right = (meaning(f"({side} + i * 0)", scalar).numpy() for side in (expression, bound))
    assert_same(got, torch.from_numpy(COMPARISONS[operator](left, right).astype(np.int32)))


@whole
@given(
    expression=sums, scalar=borders, divisor=st.sampled_from([2, 3, 7, 16, 64, 1000, 65536]),
    operator=st.sampled_from(["//", "%", ">>", "&"]),
)  # fmt: skip
def test_any_quotient(device, expression, scalar, divisor, operator):
    text = f"(({expression} + i * 0) {operator} {divisor if operator != '>>' else divisor.bit_length()})"
    assert_same(evaluate_index(device, text, scalar), meaning(text, scalar))


@whole
@given(expression=sums, scalar=borders)
def test_any_conversion(device, expression, scalar):
    text = f"({expression} + i * 0)"
    expected = meaning(text, scalar)
    wide = evaluate_index(device, f"{text}.to(tl.int64)", scalar, dtype=torch.int64)
    assert_same(wide, expected.to(torch.int64))
    assert_same(evaluate_index(device, f"{text}.to(tl.int8)", scalar, dtype=torch.int8), expected.to(torch.int8))
    real = evaluate_index(device, f"{text}.to(tl.float64)", scalar, dtype=torch.float64)
    assert_same(real, expected.to(torch.float64))


@triton.jit
def counting_kernel(out, first, last, limit, BLOCK: tl.constexpr):
    """How many numbers of the blocks from `first` on are below `limit`, and the sum of their remainders."""
    below = tl.zeros((BLOCK,), tl.int32)
    rest = tl.zeros((BLOCK,), tl.int32)
    for start in range(first, last, BLOCK):
        index = start + tl.arange(0, BLOCK)
        below += (index < limit).to(tl.int32)
        rest += index % 7
    tl.store(out, tl.sum(below, 0))
    tl.store(out + 1, tl.sum(rest, 0))


@pytest.mark.parametrize("first", [0, 5, LARGEST - 3 * 64 - 9, LARGEST - 2 * 64, LEAST, LEAST + 100])
@pytest.mark.parametrize("limit", [10, LARGEST, LARGEST - 70, LEAST, LEAST + 150])
def test_blocks_of_a_loop_near_the_border(device, first, limit):
    last = first + 2 * 64 - 1
    out = torch.empty(2, dtype=torch.int32, device=device)
    counting_kernel[(1,)](out, first, last, limit, BLOCK=64)
    index = np.arange(first, first + 128).astype(np.int32)
    expected = [int((index < limit).sum()), int(np.fmod(index, 7).sum())]
    assert out.tolist() == expected


@triton.jit
def shifted_load_kernel(x, out, base, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    index = base + i
    start = x - base.to(tl.int64)
    tl.store(out + i, tl.load(start + index, mask=index >= base, other=-1))
    tl.store(out + BLOCK + i, tl.load(start + index.to(tl.int64), mask=index >= base, other=-1))


@pytest.mark.compiled
@pytest.mark.parametrize("room", [64, 63, 48, 40, 1])
def test_what_would_wrap_may_be_masked_off(device, room):
    """The index of element `room` is no longer above the base: it and all after it must not be read."""
    x = torch.arange(1, 65, dtype=torch.int32)
    out = torch.empty(128, dtype=torch.int32, device=device)
    shifted_load_kernel[(1,)](x.to(device), out, 2**31 - room, BLOCK=64)
    expected = torch.where(torch.arange(64) < room, x, -1)
    assert_same(out, torch.cat([expected, expected]))


@triton.jit
def far_load_kernel(x, out, STRIDE: tl.constexpr, BLOCK: tl.constexpr):
    p = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    wrapped = p * STRIDE + i
    tl.store(out + p * BLOCK + i, tl.load(x - (p * STRIDE).to(tl.int64) + wrapped))


@pytest.mark.compiled
@pytest.mark.parametrize("stride", [2**30, 2**31 - 64, 1000 * 1000 * 1000])
def test_whole_tiles_may_lie_beyond_the_border(device, stride):
    x = torch.randn(64)
    out = torch.empty(4 * 64, device=device)
    far_load_kernel[(4,)](x.to(device), out, stride, BLOCK=64)
    assert_same(out, x.repeat(4))


@triton.jit
def descending_kernel(x, out, last, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x - (last - BLOCK + 1).to(tl.int64) + (last - i)))


@pytest.mark.compiled
@pytest.mark.parametrize("last", [63, 0, LARGEST, LEAST + 63, LEAST + 64])
def test_addresses_may_descend_to_the_border(device, last):
    x = torch.randn(64)
    out = torch.empty(64, device=device)
    descending_kernel[(1,)](x.to(device), out, last, BLOCK=64)
    assert_same(out, x.flip(0))


@triton.jit
def narrow_index_kernel(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + 128 + (i * 3).to(tl.int8)))


def test_addresses_moved_by_eight_bits_wrap_as_such(device):
    x = torch.arange(256, dtype=torch.int32)
    out = torch.empty(128, dtype=torch.int32, device=device)
    narrow_index_kernel[(1,)](x.to(device), out, BLOCK=128)
    assert_same(out, 128 + (torch.arange(128) * 3).to(torch.int8).to(torch.int32))


@triton.jit
def contiguous_kernel(x, out, lengths, starts, stride, BLOCK: tl.constexpr):
    """Rows that begin where memory says, as in attention over sequences of several lengths."""
    p = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    place = tl.load(starts + p) * stride + i
    value = tl.load(x + place, mask=i < tl.load(lengths + p), other=0)
    tl.store(out + p * BLOCK + i, value + tl.load(x + place.to(tl.int64), mask=i < tl.load(lengths + p), other=0))


@pytest.mark.compiled
def test_rows_at_loaded_places_are_read_as_vectors(device):
    """Bounds prove nothing here, and the tile is contiguous all the same."""
    x, lengths, starts = torch.randn(100), torch.tensor([3, 64, 10]).int(), torch.tensor([2, 0, 5]).int()
    out = torch.empty(192, device=device)
    arguments = (x.to(device), out, lengths.to(device), starts.to(device), 7)
    assert "gather" not in contiguous_kernel[(3,)](*arguments, BLOCK=64).asm["llir"]
    rows = [torch.where(torch.arange(64) < n, torch.nn.functional.pad(x, (0, 64))[s * 7 : s * 7 + 64], 0.0) for n, s in
            zip(lengths.tolist(), starts.tolist())]  # fmt: skip
    assert_same(out, 2 * torch.cat(rows))
