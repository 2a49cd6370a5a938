"""Arithmetic on `arange`, `program_id` and scalar arguments: the numbers are those of the dtype, also where they wrap.

A compiler keeps such values as formulas instead of tiles; none of its short cuts may show.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given, settings
from hypothesis import strategies as st

from .support import INTERPRETED, QUICK, assert_same, compile_source

PROGRAMS, BLOCK = 3, 64


def evaluate_index(device: str, expression: str, scalar: int = 5, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    """`expression` of i (the flat int32 index), p (the program), n (an int32 argument), for all programs."""
    kernel = compile_source(
        f"""
@triton.jit
def kernel(out, n, BLOCK: tl.constexpr):
    p = tl.program_id(0)
    i = p * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, {expression})
"""
    )["kernel"]
    out = torch.empty(PROGRAMS * BLOCK, dtype=dtype, device=device)
    kernel[(PROGRAMS,)](out, scalar, BLOCK=BLOCK)
    return out.cpu()


def meaning(expression: str, scalar: int = 5, dtype: str = "int32") -> torch.Tensor:
    """The same in numpy; `//` and `%` round toward zero there too."""
    i = np.arange(PROGRAMS * BLOCK, dtype=np.int32)
    with np.errstate(all="ignore"):
        names = {"i": Truncating(i), "p": Truncating(i // BLOCK), "n": Truncating(np.full_like(i, scalar)), "np": np}
        value = eval(expression, names)
    return torch.from_numpy(np.asarray(getattr(value, "array", value)).astype(dtype))


class Truncating:
    """An int32 array with C's division."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array.astype(np.int32)

    def _with(self, other, function) -> Truncating:
        other = other.array if isinstance(other, Truncating) else np.int32(other)
        return Truncating(function(self.array, other))

    def __add__(self, other):
        return self._with(other, np.add)

    def __sub__(self, other):
        return self._with(other, np.subtract)

    def __mul__(self, other):
        return self._with(other, np.multiply)

    def __and__(self, other):
        return self._with(other, np.bitwise_and)

    def __or__(self, other):
        return self._with(other, np.bitwise_or)

    def __xor__(self, other):
        return self._with(other, np.bitwise_xor)

    def __rshift__(self, other):
        return self._with(other, np.right_shift)

    def __lshift__(self, other):
        return self._with(other, np.left_shift)

    def __mod__(self, other):
        return self._with(other, np.fmod)

    def __floordiv__(self, other):
        return self._with(other, lambda a, b: np.trunc(a.astype(np.float64) / b))

    def __lt__(self, other):
        return self._with(other, np.less)

    def __ge__(self, other):
        return self._with(other, np.greater_equal)

    def __eq__(self, other):
        return self._with(other, np.equal)

    __hash__ = None


@pytest.mark.parametrize(
    "expression",
    [
        "i // 7", "i % 7", "i // 64", "i % 64", "i // 16 % 4", "i % 48 // 3", "(i + 3) // 16", "(i * 6) // 4",
        "(i - 50) // 8", "(i - 50) % 8", "(i * -3) // 5", "(i * -3) % 16", "i // (n - 9)", "i % n",
        "(p * 10) // 3 + i % 10",
        "(i + n) % 16", "(i * 2 + 1) // 2", "(i * 4 + n) % 4", "i >> 3", "(i - 70) >> 2", "i << 4", "i & 7", "i & -8",
        "i | 1", "i ^ 5", "(i & 15) // 4", "(i // 16) * 16 + i % 16",
    ],
)  # fmt: skip
def test_division_and_bits(device, expression):
    assert_same(evaluate_index(device, expression), meaning(expression))


@pytest.mark.parametrize(
    "expression",
    [
        "(i * 1664525 + 2013904223) >> 16",
        "(i * 1664525 + 2013904223) % 1000",
        "(i * 1664525 + 2013904223) // 1000",
        "(i * 1664525 + 2013904223) % 1024",
        "(i * 1000 * 1000 * 100) // 64",
        "(i + 2147483600) // 2",
        "(i - 2147483600 - 100) // 2",
        "(i * 65536 * 65536) % 10 + i",
        "(p * 1000003 * 1000003 + i) % 97",
        "(i * 40000000) // 3",
        "(i * 16777216) % 77",
        "(n * 1000000 * 1000) // 7 + i",
        "((i << 26) >> 24) + i",
        "(i * 100000007) & 255",
    ],
)
def test_products_wrap_at_32_bits(device, expression):
    """Hashes and congruential generators live on it."""
    assert_same(evaluate_index(device, expression), meaning(expression))


@pytest.mark.parametrize(
    "expression", ["i * 40000000", "i * 1664525 + 2000000000", "(p * 2000000000) + i", "n * 1000000000 + i"]
)
def test_widening_extends_the_wrapped_value(device, expression):
    got = evaluate_index(device, f"({expression}).to(tl.int64)", dtype=torch.int64)
    assert_same(got, meaning(expression).to(torch.int64))


@pytest.mark.compiled
@pytest.mark.parametrize("expression", ["i * 40000000", "i - 100", "(i - 100) * 3"])
def test_the_same_bits_read_as_unsigned(device, expression):
    got = evaluate_index(device, f"({expression}).to(tl.uint32).to(tl.int64)", dtype=torch.int64)
    assert_same(got, torch.from_numpy(meaning(expression).numpy().view(np.uint32).astype(np.int64)))
    got = evaluate_index(device, f"(({expression}).to(tl.uint32) // 7).to(tl.int64)", dtype=torch.int64)
    assert_same(got, torch.from_numpy((meaning(expression).numpy().view(np.uint32) // 7).astype(np.int64)))


@pytest.mark.parametrize("expression", ["i", "i - 100", "i * 40000000", "i * 3 % 50"])
def test_narrowing_and_floats(device, expression):
    expected = meaning(expression)
    assert_same(evaluate_index(device, f"({expression}).to(tl.int8)", dtype=torch.int8), expected.to(torch.int8))
    assert_same(evaluate_index(device, f"({expression}).to(tl.float32)", dtype=torch.float32), expected.float())
    assert_same(
        evaluate_index(device, f"({expression}).to(tl.int8).to(tl.int32) * 2"),
        expected.to(torch.int8).to(torch.int32) * 2,
    )


@pytest.mark.parametrize(
    "mask",
    [
        "i < n", "i >= n", "i == n", "n > i", "n <= i", "i * 2 < n", "i - 3 < n", "i % 8 < 5", "(i < n) & (i >= 7)",
        "(i < n) | (i > 150)", "i // 16 == 2", "(i - 100) < (n - 100)", "-i > -n", "i != n", "(i < n) ^ (i < 20)",
        "(i & 1) == 0", "p * 50 < n", "i * 40000000 < n",
        "i * 1000 * 30000 < n", "(i + 2147483600) < n",
    ],
)  # fmt: skip
@pytest.mark.parametrize("scalar", [0, 1, 63, 64, 65, 100, 191, 192, 1000])
def test_masks(device, mask, scalar):
    """Any comparison may guard a store; what it switches off stays."""
    if INTERPRETED and scalar not in (0, 65):
        pytest.skip("slow on the interpreter")
    kernel = compiled_mask(mask)
    out = torch.zeros(PROGRAMS * BLOCK, dtype=torch.int32, device=device)
    kernel[(PROGRAMS,)](out, scalar, BLOCK=BLOCK)
    i = np.arange(PROGRAMS * BLOCK, dtype=np.int32)
    with np.errstate(all="ignore"):
        expected = eval(mask, {"i": i, "n": np.int32(scalar), "p": i // BLOCK})
    assert_same(out, torch.from_numpy(expected.astype(np.int32)))


_masks: dict[str, object] = {}


def compiled_mask(mask: str):
    if mask not in _masks:
        _masks[mask] = compile_source(
            f"""
@triton.jit
def kernel(out, n, BLOCK: tl.constexpr):
    p = tl.program_id(0)
    i = p * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, 1, mask={mask})
"""
        )["kernel"]
    return _masks[mask]


constants = st.sampled_from([1, 2, 3, 5, 7, 8, 16, 60, 64, 1000, 65536, 1664525, -1, -4, -7])
positive = st.sampled_from([1, 2, 3, 7, 8, 16, 48, 64, 100, 4096])
expressions = st.recursive(
    st.sampled_from(["i", "i", "p", "n"]),
    lambda inner: st.one_of(
        st.builds("({} + {})".format, inner, inner),
        st.builds("({} - {})".format, inner, inner),
        st.builds("({} + {})".format, inner, constants),
        st.builds("({} * {})".format, inner, constants),
        st.builds("({} // {})".format, inner, positive),
        st.builds("({} % {})".format, inner, positive),
        st.builds("({} & {})".format, inner, st.sampled_from([1, 7, 15, 48, -8])),
        st.builds("({} >> {})".format, inner, st.integers(0, 5)),
        st.builds("({} << {})".format, inner, st.integers(0, 5)),
    ),
    max_leaves=6,
)


@settings(QUICK, max_examples=60)
@given(expression=expressions, scalar=st.sampled_from([0, 1, 16, 77, -3, 2**30]))
def test_any_expression_of_indices(device, expression, scalar):
    assert_same(evaluate_index(device, f"{expression} + i * 0", scalar), meaning(f"({expression} + i * 0)", scalar))


@triton.jit
def flat_kernel(source, out, count, D1: tl.constexpr, D2, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < count
    c, b, a = i % D2, i // D2 % D1, i // (D1 * D2)
    tl.store(out + i, tl.load(source + a * (D1 * D2) + c * D1 + b, mask=mask), mask=mask)


@pytest.mark.parametrize(("a", "b", "c"), [(2, 3, 5), (4, 8, 16), (3, 64, 7), (1, 1, 100), (5, 16, 64)])
def test_flat_indices_taken_apart_permute_a_tensor(device, a, b, c):
    x = torch.randn(a, c, b)
    out = torch.empty(a, b, c, device=device)
    flat_kernel[(triton.cdiv(a * b * c, 64),)](x.to(device), out, a * b * c, b, c, BLOCK=64)
    assert_same(out, x.transpose(1, 2).contiguous())


@triton.jit
def reflect_kernel(source, out, size, pad, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < size + 2 * pad
    j = tl.abs(i - pad)
    place = size - 1 - tl.abs(size - 1 - j)
    tl.store(out + i, tl.load(source + place, mask=mask), mask=mask)


@pytest.mark.parametrize(("size", "pad"), [(5, 2), (64, 10), (100, 99)])
def test_reflection_padding(device, size, pad):
    x = torch.randn(size)
    out = torch.empty(size + 2 * pad, device=device)
    reflect_kernel[(triton.cdiv(size + 2 * pad, 64),)](x.to(device), out, size, pad, BLOCK=64)
    assert_same(out, torch.nn.functional.pad(x[None, None], (pad, pad), mode="reflect")[0, 0])


def wrapped(numbers: np.ndarray) -> np.ndarray:
    """64-bit numbers as int32 holds them."""
    return (numbers + 2**31) % 2**32 - 2**31


@triton.jit
def seeded_kernel(out, seed, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    k = i + seed
    tl.store(out + i, k % 97 + (k < 0).to(tl.int32) * 5000 + k // 1000)


@triton.jit
def hashed_program_kernel(out, FACTOR: tl.constexpr, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    k = tl.program_id(0) * FACTOR + 7
    tl.store(out + i, k // 3 + (k > 0).to(tl.int32) + tl.where(k + tl.arange(0, N) > 100, 5, 6))


def test_a_seed_near_the_limit_wraps(device):
    seed, count = 2**31 - 1000, 4096
    out = torch.zeros(count, dtype=torch.int32, device=device)
    seeded_kernel[(count // 64,)](out, seed, N=64)
    k = wrapped(np.arange(count, dtype=np.int64) + seed)
    expected = np.fmod(k, 97) + (k < 0) * 5000 + np.trunc(k / 1000).astype(np.int64)
    np.testing.assert_array_equal(out.cpu().numpy(), expected)


@pytest.mark.parametrize("factor", [2654435, 40503 * 1000, 2**31 - 1])
def test_products_of_a_program_id_that_are_hashes_wrap(device, factor):
    count = 64 * 2000
    out = torch.zeros(count, dtype=torch.int32, device=device)
    hashed_program_kernel[(2000,)](out, FACTOR=factor, N=64)
    i = np.arange(count, dtype=np.int64)
    k = wrapped(i // 64 * factor + 7)
    expected = np.trunc(k / 3).astype(np.int64) + (k > 0) + np.where(wrapped(k + i % 64) > 100, 5, 6)
    np.testing.assert_array_equal(out.cpu().numpy(), expected)
