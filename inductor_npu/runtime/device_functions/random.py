"""Random numbers: Philox 4x32-10, with the values of Triton's own `tl.rand`, `tl.randn` and `tl.randint4x`.

Triton multiplies unsigned 32-bit numbers to 64 bits; Ascend's compiler does so element by element, and signed. Here all
arithmetic is int32 that wraps. On the chip, right shifts copy the sign for every type, so a mask follows each shift.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .integers import upper_product


def _signed(value: int) -> int:
    """The int32 with the bits of `value`."""
    return value - 2**32 if value >= 2**31 else value


_KEY_A = tl.constexpr(_signed(0x9E3779B9))
_KEY_B = tl.constexpr(_signed(0xBB67AE85))
_ROUND_A = tl.constexpr(_signed(0xD2511F53))
_ROUND_B = tl.constexpr(_signed(0xCD9E8D57))
_ROUNDS = tl.constexpr(10)
_TO_UNIT = tl.constexpr(4.6566127342e-10)  # Triton's: the largest int32 times it is below 1


@triton.jit
def _philox(seed: tl.tensor, offset: tl.tensor) -> tuple[tl.tensor, tl.tensor, tl.tensor, tl.tensor]:
    """Four int32 for each `offset`. `seed` is one int64."""
    seed = seed.to(tl.int64)
    key_0 = seed.to(tl.int32)
    key_1 = (seed >> 32).to(tl.int32)
    c0 = offset.to(tl.int32)
    c1 = tl.full([], 0, tl.int32)
    c2 = c1
    c3 = c1
    for _ in tl.static_range(_ROUNDS):
        before_0, before_2 = c0, c2
        c0 = upper_product(_ROUND_B, before_2) ^ c1 ^ key_0
        c2 = upper_product(_ROUND_A, before_0) ^ c3 ^ key_1
        c1 = before_2 * _ROUND_B
        c3 = before_0 * _ROUND_A
        key_0 += _KEY_A
        key_1 += _KEY_B
    return c0, c1, c2, c3


@triton.jit
def _to_unit(x: tl.tensor) -> tl.tensor:
    """An int32 as an fp32 from 0 to below 1; negative numbers count from -1 downwards."""
    return (x ^ (x >> 31)) * _TO_UNIT


@triton.jit
def uniform(seed: tl.tensor, offset: tl.tensor) -> tl.tensor:
    """`tl.rand(seed, offset)`: fp32, evenly distributed from 0 to below 1."""
    first, _, _, _ = _philox(seed, offset)
    return _to_unit(first)


@triton.jit
def normal(seed: tl.tensor, offset: tl.tensor) -> tl.tensor:
    """`tl.randn(seed, offset)`: fp32, normally distributed, by Box and Muller."""
    first, second, _, _ = _philox(seed, offset)
    radius = tl.sqrt(-2.0 * tl.log(tl.maximum(_to_unit(first), 1.0e-7, propagate_nan=tl.PropagateNan.ALL)))
    return radius * tl.cos(6.283185307179586 * _to_unit(second))


@triton.jit
def random_integers(seed: tl.tensor, offset: tl.tensor, low: tl.tensor, high: tl.tensor) -> tl.tensor:
    """int64 from `low` to below `high`: 64 random bits modulo `high - low`, which is at most 2^62.

    Unsigned numbers of 64 bits cannot be divided: the bits but the last are divided as a number that is not negative.
    """
    first, second, _, _ = _philox(seed, offset)
    size = (high - low).to(tl.int64)
    upper = second.to(tl.int64) & 0xFFFFFFFF
    lower = first.to(tl.int64) & 0xFFFFFFFF
    half = (upper << 31) | (lower >> 1)
    rest = (half % size) * 2 + (lower & 1)
    return tl.where(rest >= size, rest - size, rest) + low


@triton.jit
def random_integers_below(seed: tl.tensor, offset: tl.tensor, size: tl.constexpr) -> tl.tensor:
    """int32 from 0 to below `size`, at most 2^23: `random_integers` with 0 and `size`.

    The 64 bits are taken eight at a time: rest * 256 + byte is below 2^31.
    """
    first, second, _, _ = _philox(seed, offset)
    rest = tl.full([], 0, tl.int32)
    for byte in tl.static_range(8):
        source = second if byte < 4 else first
        digit = (source >> (24 - 8 * (byte % 4))) & 0xFF
        dividend = rest * 256 + digit
        # The guess is off by one at most: the dividend and its quotient are rounded, to 24 bits.
        quotient = (dividend.to(tl.float32) * (1.0 / size)).to(tl.int32)
        rest = dividend - quotient * size
        rest = tl.where(rest < 0, rest + size, rest)
        rest = tl.where(rest >= size, rest - size, rest)
    return rest
