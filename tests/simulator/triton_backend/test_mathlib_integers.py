"""Conversions, integer division and libdevice's integer functions."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from .mathlib_harness import evaluate
from .mathlib_reference import inputs_f32

TORCH = {"f16": torch.float16, "bf16": torch.bfloat16, "f8E4M3FN": torch.float8_e4m3fn, "f8E5M2": torch.float8_e5m2}
BITS = {"f16": np.uint16, "bf16": np.uint16, "f8E4M3FN": np.uint8, "f8E5M2": np.uint8}


def torch_bits(x: np.ndarray, element: str) -> np.ndarray:
    if element == "f8E4M3FN":  # PyTorch saturates from 2.13 on, before it made NaN of what is too large
        x = np.clip(x, np.float32(-448), np.float32(448))
    converted = torch.from_numpy(x).to(TORCH[element])
    return converted.view(torch.int16 if BITS[element] is np.uint16 else torch.int8).numpy().view(BITS[element])


def nan_mask(bits: np.ndarray, element: str) -> np.ndarray:
    magnitude = bits & (np.iinfo(bits.dtype).max >> 1)
    return magnitude > {"f16": 0x7C00, "bf16": 0x7F80, "f8E4M3FN": 0x7E, "f8E5M2": 0x7C}[element]


def every_value(element: str) -> tuple[np.ndarray, np.ndarray]:
    """All bit patterns of a narrow format and their values in f32."""
    bits = np.arange(2 ** (8 * np.dtype(BITS[element]).itemsize), dtype=np.uint32).astype(BITS[element])
    signed = torch.from_numpy(bits.view(np.int16 if BITS[element] is np.uint16 else np.int8))
    return bits, signed.view(TORCH[element]).to(torch.float32).numpy()


@pytest.mark.parametrize("element", TORCH)
def test_f32_to_narrow_formats_rounds_to_nearest_even(element):
    exact = every_value(element)[1]
    finite = np.sort(exact[np.isfinite(exact)])
    ties = (finite[1:].astype(np.float64) + finite[:-1]) / 2
    x = np.concatenate([inputs_f32(step=50021, count=1000), exact, ties.astype(np.float32)])
    with np.errstate(all="ignore"):
        x = np.concatenate([x, np.nextafter(x, np.float32(np.inf)), np.nextafter(x, np.float32(-np.inf))])
    got = evaluate(f"convert_to_{element}", x).view(BITS[element])
    expected = torch_bits(x, element)
    isnan = nan_mask(expected, element)
    np.testing.assert_array_equal(nan_mask(got, element), isnan)
    np.testing.assert_array_equal(got[~isnan], expected[~isnan])


@pytest.mark.parametrize("element", TORCH)
def test_narrow_formats_to_f32_exactly(element):
    bits, expected = every_value(element)
    source = bits.view(np.float16) if element == "f16" else bits
    np.testing.assert_array_equal(evaluate("convert_to_f32", source, elements=(element,)), expected)


@pytest.mark.parametrize("element", TORCH)
def test_f64_to_narrow_formats_rounds_once(element):
    exact = every_value(element)[1]
    finite = np.unique(exact[np.isfinite(exact)]).astype(np.float64)
    ties = (finite[1:] + finite[:-1]) / 2
    above = evaluate(f"convert_to_{element}", np.nextafter(ties, np.inf)).view(BITS[element])
    below = evaluate(f"convert_to_{element}", np.nextafter(ties, -np.inf)).view(BITS[element])
    np.testing.assert_array_equal(_values(above, element), finite[1:])
    np.testing.assert_array_equal(_values(below, element), finite[:-1])


def _values(bits: np.ndarray, element: str) -> np.ndarray:
    return evaluate("convert_to_f32", bits.view(np.float16) if element == "f16" else bits, elements=(element,))


@pytest.mark.parametrize("element", TORCH)
@pytest.mark.parametrize("source", [np.float32, np.float64])
def test_toward_zero_never_grows_a_magnitude(element, source):
    exact = every_value(element)[1]
    finite = np.unique(np.abs(exact[np.isfinite(exact)])).astype(source)
    between = np.nextafter(finite[1:], source(0))
    exactly = evaluate(f"convert_rtz_to_{element}", finite).view(BITS[element])
    np.testing.assert_array_equal(_values(exactly, element), finite)
    got = _values(evaluate(f"convert_rtz_to_{element}", -between).view(BITS[element]), element)
    np.testing.assert_array_equal(got, -finite[:-1])


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_float_to_integer_saturates(bits, signed):
    limits = np.iinfo(f"{'' if signed else 'u'}int{bits}")
    x = np.array([0.0, 1.9, -1.9, 100.5, 1e30, -1e30, np.inf, -np.inf, np.nan], np.float32)
    expected = [0, 1, -1 if signed else 0, 100, limits.max, limits.min, limits.max, limits.min, 0]
    got = evaluate(f"convert_to_{'' if signed else 'unsigned_'}i{bits}", x).view(limits.dtype)
    np.testing.assert_array_equal(got, np.array(expected, limits.dtype))


def dividends(dtype: type, count: int = 3000) -> tuple[np.ndarray, np.ndarray]:
    limits = np.iinfo(dtype)
    random = np.random.default_rng(3)
    edge = [limits.min, limits.min + 1, limits.max, limits.max - 1, 0, 1, 2, 3, 7, limits.max // 2, limits.max // 2 + 1]
    edge = np.array(edge + ([-1, -2, -7] if limits.min else []), dtype)
    whole = random.integers(limits.min, limits.max, (2, count), dtype, endpoint=True)
    small = whole[1] >> random.integers(0, limits.bits - 1, count, np.uint8).astype(dtype)
    multiples = (small * (whole[0] >> dtype(limits.bits // 2))).astype(dtype)
    x = np.concatenate([whole[0], whole[0], multiples, multiples - dtype(1), np.repeat(edge, len(edge))])
    y = np.concatenate([whole[1], small, small, small, np.tile(edge, len(edge))])
    return x, y


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64])
def test_division_truncates_and_never_traps(dtype, lanes):
    x, y = dividends(dtype)
    prefix = "" if np.iinfo(dtype).min else "unsigned_"
    signed = np.dtype(dtype).name.lstrip("u")
    got = evaluate(f"{prefix}int_divide", x.view(signed), y.view(signed), lanes=lanes).view(dtype)
    rest = evaluate(f"{prefix}int_remainder", x.view(signed), y.view(signed), lanes=lanes).view(dtype)
    for a, d, q, r in zip(x.tolist(), y.tolist(), got.tolist(), rest.tolist()):
        expected = 0 if d == 0 else abs(a) // abs(d) * (1 if (a < 0) == (d < 0) else -1)
        wrapped = int(np.array([expected % (1 << 64)], np.uint64).astype(dtype)[0])
        assert q == wrapped, f"{a} / {d} gave {q}"
        assert r == (a - expected * d if d else a), f"{a} % {d} gave {r}"


def test_division_by_a_shared_reciprocal_is_exact():
    x, y = dividends(np.int32)
    with np.errstate(divide="ignore"):
        reciprocal = 1.0 / y.astype(np.float64)
    got = evaluate("divide_by_reciprocal", x, y, reciprocal)
    np.testing.assert_array_equal(got, evaluate("int_divide", x, y))


def test_high_products():
    x, y = dividends(np.int64)
    high = [(a * d) >> 64 for a, d in zip(x.tolist(), y.tolist())]
    np.testing.assert_array_equal(evaluate("mulhi", x, y), np.array(high, np.int64))
    unsigned = [(a * d) >> 64 for a, d in zip(x.view(np.uint64).tolist(), y.view(np.uint64).tolist())]
    np.testing.assert_array_equal(evaluate("umulhi", x, y).view(np.uint64), np.array(unsigned, np.uint64))


def test_bit_functions():
    x = np.array([0, 1, -1, 2**31 - 1, -(2**31), 0x12345678], np.int32)
    words = [int(v) & 0xFFFFFFFF for v in x]
    np.testing.assert_array_equal(evaluate("popc", x), [bin(w).count("1") for w in words])
    np.testing.assert_array_equal(evaluate("clz", x), [32 - w.bit_length() for w in words])
    np.testing.assert_array_equal(evaluate("ffs", x), [(w & -w).bit_length() for w in words])
    np.testing.assert_array_equal(evaluate("brev", x).view(np.uint32), [int(f"{w:032b}"[::-1], 2) for w in words])
    y, selector = np.full_like(x, 0x0A0B0C0D), np.full_like(x, 0x7531)
    assert evaluate("byte_perm", x, y, selector)[-1] == 0x0A0C1256
    np.testing.assert_array_equal(evaluate("hadd", x, x[::-1].copy()), (x.astype(np.int64) + x[::-1]) >> 1)
    np.testing.assert_array_equal(evaluate("rhadd", x, x[::-1].copy()), (x.astype(np.int64) + x[::-1] + 1) >> 1)
