"""Conversions: integers wrap, floats round to nearest even, float to integer truncates, bit casts keep the bits."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from .support import (
    DTYPES,
    FLOATS,
    HALVES,
    INTEGERS,
    NUMBERS,
    UNSIGNED,
    assert_same,
    bits,
    dtypes,
    evaluate,
    evaluate_all,
    random_values,
    samples,
    tensor_of,
    triton_name,
)


def to(dtype: torch.dtype) -> str:
    return f"x.to(tl.{triton_name(dtype)})"


def wrapped(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return torch.from_numpy(x.numpy().astype(triton_name(dtype)))


@pytest.mark.parametrize("source", dtypes(*INTEGERS))
def test_integer_to_integer_wraps_or_extends_by_the_sign_of_the_source(device, source):
    x = samples(source)
    got = evaluate_all(device, {to(target): target for target in INTEGERS if target is not source}, x)
    for result in got.values():
        assert_same(result, wrapped(x, result.dtype))


@pytest.mark.parametrize("source", dtypes(*DTYPES))
def test_to_bool_asks_for_not_zero(device, source):
    x = samples(source)
    expected = torch.from_numpy(x.float().numpy() != 0) if source in HALVES else torch.from_numpy(x.numpy() != 0)
    assert torch.equal(evaluate(device, "x != 0", x, out=torch.bool), expected)
    assert torch.equal(evaluate(device, to(torch.bool), x, out=torch.bool), expected)


@pytest.mark.parametrize("target", dtypes(*NUMBERS))
def test_bool_is_zero_or_one(device, target):
    x = samples(torch.bool)
    expected = x.to(target) if target not in UNSIGNED else torch.from_numpy(x.numpy().astype(triton_name(target)))
    assert_same(evaluate(device, to(target), x, out=target), expected)


@pytest.mark.parametrize("source", dtypes(*INTEGERS))
def test_integer_to_float_rounds_to_nearest_even(device, source):
    x = samples(source)
    got = evaluate_all(device, {to(target): target for target in (torch.float32, torch.float64)}, x)
    for result in got.values():
        assert_same(result, torch.from_numpy(x.numpy().astype(triton_name(result.dtype))))


@pytest.mark.parametrize("target", dtypes(*HALVES))
@pytest.mark.parametrize("source", dtypes(*INTEGERS))
def test_integer_to_half_rounds_to_nearest_even(device, source, target):
    values = [0, 1, 2, 3, 127, 100] if bits(source) == 8 else [0, 1, 255, 257, 2047, 2049, 2051, 4099, 32767]
    x = tensor_of(values, source)
    assert_same(evaluate(device, to(target), x, out=target), torch.tensor(values, dtype=torch.float64).to(target))


@pytest.mark.parametrize("source", dtypes(*FLOATS))
def test_float_to_integer_truncates(device, source):
    limits = {target: torch.iinfo(target) for target in INTEGERS}
    x = torch.cat([torch.tensor([0.0, -0.0, 0.5, -0.5, 0.99, -0.99, 1.5, 2.5, 126.9, -127.9]), torch.randn(100) * 40])
    for signed in (True, False):
        values = (x if signed else x.abs()).clamp(-127, 127).to(source)
        targets = [target for target in INTEGERS if (limits[target].min < 0) == signed]
        for result in evaluate_all(device, {to(target): target for target in targets}, values).values():
            assert_same(result, wrapped(torch.from_numpy(values.double().numpy()), result.dtype))


@pytest.mark.parametrize("target", dtypes(torch.int32, torch.int64, torch.uint32, torch.uint64))
@pytest.mark.parametrize("source", dtypes(torch.float32, torch.float64))
def test_large_float_to_integer(device, source, target):
    info = torch.iinfo(target)
    inside = [info.max / 2, info.max * 0.75, 2.0**31 - 256, 1e9, info.min / 2, float(info.min)]
    x = torch.tensor(inside, dtype=source)
    assert_same(evaluate(device, to(target), x, out=target), wrapped(x, target))


@pytest.mark.parametrize("source", dtypes(*FLOATS))
def test_widening_is_exact(device, source):
    x = samples(source)
    wider = [target for target in (torch.float32, torch.float64) if bits(target) > bits(source)]
    if not wider:
        pytest.skip("nothing is wider than float64")
    for result in evaluate_all(device, {to(target): target for target in wider}, x).values():
        assert_same(result, x.to(result.dtype))


def halfway_points(source: torch.dtype, target: torch.dtype) -> torch.Tensor:
    """Values exactly between two neighbours of the target, and one step of the source to either side."""
    neighbours = samples(target)[:-3]
    neighbours = neighbours[neighbours.isfinite()].to(source)
    unit = torch.finfo(target).eps
    middle = neighbours * (1 + unit / 2)
    step = torch.finfo(source).eps
    return torch.cat([middle, middle * (1 + step), middle * (1 - step), samples(source)])


@pytest.mark.compiled
@pytest.mark.parametrize("target", dtypes(*HALVES))
def test_float32_to_half_rounds_to_nearest_even(device, target):
    """Ties, subnormals, overflow to infinity, NaN."""
    x = halfway_points(torch.float32, target)
    assert_same(evaluate(device, to(target), x, out=target), x.to(target))


def test_float64_to_float32_rounds_to_nearest_even(device):
    x = halfway_points(torch.float64, torch.float32)
    assert_same(evaluate(device, to(torch.float32), x, out=torch.float32), x.to(torch.float32))


def test_float64_to_float16_rounds_once(device):
    """Just above a tie of float16, by less than float32 can see."""
    x = torch.cat([halfway_points(torch.float64, torch.float16), torch.tensor([1 + 2.0**-11 + 2.0**-40]).double()])
    with np.errstate(over="ignore"):
        expected = torch.from_numpy(x.numpy().astype(np.float16))
    assert_same(evaluate(device, to(torch.float16), x, out=torch.float16), expected)


@pytest.mark.compiled
def test_float64_to_bfloat16(device):
    x = halfway_points(torch.float32, torch.bfloat16).double()
    assert_same(evaluate(device, to(torch.bfloat16), x, out=torch.bfloat16), x.to(torch.bfloat16))


@pytest.mark.compiled
@pytest.mark.parametrize(("source", "target"), [HALVES, HALVES[::-1]], ids=str)
def test_half_to_the_other_half(device, source, target):
    x = samples(source)
    assert_same(evaluate(device, to(target), x, out=target), x.to(target))


@pytest.mark.compiled
@pytest.mark.parametrize("target", dtypes(*HALVES))
def test_rounding_toward_zero_on_demand(device, target):
    x = random_values(torch.float32, 300)
    got = evaluate(device, f'x.to(tl.{triton_name(target)}, fp_downcast_rounding="rtz")', x, out=target)
    nearest = x.to(target)
    away = nearest.float().abs() > x.abs()
    lower = (nearest.view(torch.int16) - 1).view(target)
    assert_same(got, torch.where(away, lower, nearest))


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (torch.float32, torch.int32),
        (torch.int32, torch.float32),
        (torch.float64, torch.int64),
        (torch.uint64, torch.float64),
        (torch.float16, torch.int16),
        (torch.int16, torch.bfloat16),
        (torch.bfloat16, torch.uint16),
        (torch.int8, torch.uint8),
    ],
    ids=str,
)
def test_bitcast_keeps_the_bits(device, source, target):
    x = samples(source)
    got = evaluate(device, f"x.to(tl.{triton_name(target)}, bitcast=True)", x, out=target)
    assert_same(got, x.view(target))


def test_stores_convert_to_the_dtype_of_the_pointer(device):
    x = torch.tensor([1.9, -1.9, 100.5, 0.0, -7.25])
    got = evaluate_all(device, {"x": torch.int32, "x + 0": torch.float16, "x * 1": torch.float64}, x)
    assert_same(got["x"], x.to(torch.int32))
    assert_same(got["x + 0"], x.half())
    assert_same(got["x * 1"], x.double())
