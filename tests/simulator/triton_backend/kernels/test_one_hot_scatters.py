"""Sums of what is zero but where an index equals a place: exact for every index, made place by place."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given
from hypothesis import strategies as st

from tests.triton_features import require

from .support import QUICK, assert_same, triton_name

pytestmark = pytest.mark.compiled

DTYPES = [torch.float16, torch.float32, torch.float64, torch.int32, torch.int64]


@triton.jit
def whole_kernel(index, value, out, first, count, P: tl.constexpr, R: tl.constexpr, LAST: tl.constexpr):
    """Sums along the first or the last axis of a tile, with a mask of indices and one of all elements."""
    r, p = tl.arange(0, R), first + tl.arange(0, P)
    i, v = tl.load(index + r, r < count), tl.load(value + r, r < count)
    flat = tl.reshape(tl.arange(0, P * R) // P, [R, P])
    if LAST:
        picked = tl.where((i == p[:, None]) & (r < count), v, 0)
        tl.store(out + tl.arange(0, P), tl.sum(picked, 1))
    else:
        picked = tl.where(i[:, None] == p, v[:, None], 0)
        tl.store(out + tl.arange(0, P), tl.sum(tl.where(flat < count, picked, 0), 0))


@triton.jit
def loop_kernel(index, value, out, first, count, P: tl.constexpr, R: tl.constexpr, B: tl.constexpr):
    """B rows of indices, R at a time; the tile that the loop adds up has three axes."""
    b, p = tl.arange(0, B), first + tl.arange(0, P)
    total = tl.zeros([B, R, P], value.dtype.element_ty)
    for start in range(0, count, R):
        r = start + tl.arange(0, R)
        at = b[:, None] * count + r[None, :]
        i, v = tl.load(index + at, (r < count)[None, :]), tl.load(value + at, (r < count)[None, :])
        picked = tl.where(i[:, :, None] == p[None, None, :], v[:, :, None], 0)
        total += tl.where((r < count)[None, :, None], picked, 0)
    tl.store(out + b[:, None] * P + tl.arange(0, P)[None, :], tl.sum(total, 1))


@triton.jit
def other_kernel(index, value, out, P: tl.constexpr, R: tl.constexpr, KIND: tl.constexpr):
    """Sums that are something else."""
    r, p = tl.arange(0, R), tl.arange(0, P)
    i, v = tl.load(index + r)[:, None], tl.load(value + r)[:, None]
    if KIND == 0:
        picked = tl.where(i == p[None, :], v, 1)  # not zero elsewhere
    elif KIND == 1:
        picked = tl.where(i <= p[None, :], v, 0)  # another comparison
    elif KIND == 2:
        picked = tl.where(i == (p * 2)[None, :], v, 0)  # places that do not count up by one
    else:
        picked = tl.where(i == p[None, :], v, 0)
    result = tl.max(picked, 0) if KIND == 3 else tl.sum(picked, 0)  # 3: no sum
    tl.store(out + p, result)


def inputs(dtype: torch.dtype, *shape: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Indices below, within and beyond the places, many of them equal, and values whose sums are exact."""
    if dtype == torch.float64:
        require("masked loads of float64")
    generator = torch.Generator().manual_seed(len(shape))
    index = torch.randint(-9, 140, shape, generator=generator)
    index[..., :5] = 37
    return index.int(), torch.randint(-8, 9, shape, generator=generator).to(dtype)


def summed(index: torch.Tensor, value: torch.Tensor, first: int, places: int) -> torch.Tensor:
    wide = value.double() if value.dtype.is_floating_point else value.long()
    equal = index[..., :, None] == first + torch.arange(places)
    return torch.where(equal, wide[..., :, None], torch.zeros((), dtype=wide.dtype)).sum(-2).to(value.dtype)


def is_placed(compiled) -> bool:
    """Whether a kernel's code has a loop over what lies within its places."""
    return "icmp ult <" in compiled.asm["llir"]


@pytest.mark.parametrize("dtype", DTYPES, ids=triton_name)
def test_values_are_added_where_their_index_says(device, vectors, dtype):
    for last, places, first, length, count in ((False, 64, 0, 64, 64), (True, 64, 7, 32, 21), (False, 128, 64, 16, 3)):
        index, value = inputs(dtype, length)
        out = torch.empty(places, dtype=dtype, device=device)
        compiled = whole_kernel[(1,)](
            index.to(device), value.to(device), out, first, count, P=places, R=length, LAST=last
        )
        assert is_placed(compiled)
        assert_same(out, summed(index[:count], value[:count], first, places))


@pytest.mark.parametrize("dtype", DTYPES, ids=triton_name)
def test_a_loop_carries_the_sums_of_each_row(device, vectors, dtype):
    index, value = inputs(dtype, 4, 40)
    out = torch.empty(4, 32, dtype=dtype, device=device)
    compiled = loop_kernel[(1,)](index.to(device), value.to(device), out, 30, 40, P=32, R=16, B=4)
    assert is_placed(compiled)
    assert_same(out, summed(index, value, 30, 32))


@pytest.mark.slow
def test_any_values_are_added_in_the_order_of_their_indices(device, vectors):
    number = st.floats(width=32) | st.sampled_from([-0.0, 1e30, -1e30, float("nan"), float("inf")])
    place = st.integers(25, 70) | st.sampled_from([-(1 << 31), (1 << 31) - 1, 0])

    @QUICK
    @given(
        index=st.lists(place, min_size=4 * 40, max_size=4 * 40),
        value=st.lists(number, min_size=4 * 40, max_size=4 * 40),
    )
    def check(index: list[int], value: list[float]) -> None:
        indices, values = np.array(index, np.int32).reshape(4, 40), np.array(value, np.float32).reshape(4, 40)
        expected = np.zeros((4, 32), np.float32)
        with np.errstate(all="ignore"):
            for row, position in np.ndindex(4, 40):
                if 30 <= indices[row, position] < 62:
                    expected[row, indices[row, position] - 30] += values[row, position]
        out = torch.empty(4, 32, device=device)
        operands = (torch.from_numpy(each).to(device) for each in (indices, values))
        loop_kernel[(1,)](*operands, out, 30, 40, P=32, R=16, B=4)
        assert_same(out, torch.from_numpy(expected))

    check()


def test_what_is_not_a_number_stays_at_its_place(device):
    index = torch.arange(32, dtype=torch.int32) * 2
    value = torch.full((32,), float("inf"))
    value[::3] = float("nan")
    out = torch.empty(64, device=device)
    whole_kernel[(1,)](index.to(device), value.to(device), out, 0, 32, P=64, R=32, LAST=False)
    assert_same(out, torch.zeros(64).index_put((index.long(),), value))


def test_other_sums_are_left_as_they_are(device):
    index, value = torch.arange(32, dtype=torch.int32).repeat(2), torch.randn(64)
    i, v, p = index.numpy()[:, None], value.numpy()[:, None], np.arange(32)[None, :]
    expected = [
        np.where(i == p, v, 1).sum(0), np.where(i <= p, v, 0).sum(0),
        np.where(i == 2 * p, v, 0).sum(0), np.where(i == p, v, 0).max(0),
    ]  # fmt: skip
    for kind, wanted in enumerate(expected):
        out = torch.empty(32, device=device)
        compiled = other_kernel[(1,)](index.to(device), value.to(device), out, P=32, R=64, KIND=kind)
        assert not is_placed(compiled)
        torch.testing.assert_close(out.cpu(), torch.from_numpy(wanted).float())
    few = torch.empty(8, device=device)
    compiled = other_kernel[(1,)](index.to(device), value.to(device), few, P=8, R=64, KIND=4)
    assert not is_placed(compiled), "for so few places all are compared"
    torch.testing.assert_close(few.cpu(), torch.from_numpy(np.where(i == p, v, 0).sum(0)[:8]).float())
