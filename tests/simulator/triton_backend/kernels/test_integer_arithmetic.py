"""Integers compute as in C: they wrap, divide toward zero, and signedness decides shifts, division and order."""

from __future__ import annotations

import operator

import numpy as np
import pytest
import torch

from tests.triton_features import require

from .support import (
    INTEGERS,
    INTERPRETED,
    SIGNED,
    UNSIGNED,
    assert_same,
    bits,
    dtypes,
    evaluate,
    evaluate_all,
    random_values,
    sample_pairs,
    samples,
    tensor_of,
    triton_name,
)

COMPARISONS = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal}
COMPARISONS["!="] = np.not_equal


def exact(function, *tensors: torch.Tensor) -> torch.Tensor:
    """`function` on Python integers, element by element, wrapped to the dtype of the first tensor."""
    dtype = tensors[0].dtype
    modulus = 1 << bits(dtype)
    values = [function(*row) % modulus for row in zip(*(tensor.numpy().tolist() for tensor in tensors))]
    unsigned = np.array(values, dtype=np.uint64).astype(f"uint{bits(dtype)}")
    return torch.from_numpy(unsigned.view(triton_name(dtype)))


def divisible_pairs(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Pairs whose quotient is defined: no zero divisor, and not the smallest number over -1."""
    dividend, divisor = sample_pairs(dtype)
    rows = [
        (x, y)
        for x, y in zip(dividend.numpy().tolist(), divisor.numpy().tolist())
        if y != 0 and not (y == -1 and x == torch.iinfo(dtype).min)
    ]
    return tensor_of([x for x, _ in rows], dtype), tensor_of([y for _, y in rows], dtype)


def quotient_toward_zero(x: int, y: int) -> int:
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


@pytest.mark.parametrize("dtype", dtypes(*INTEGERS))
@pytest.mark.parametrize("symbol", ["+", "-", "*", "&", "|", "^"])
def test_arithmetic_and_bit_operations_wrap(device, symbol, dtype):
    x, y = sample_pairs(dtype)
    function = {"+": operator.add, "-": operator.sub, "*": operator.mul, "&": operator.and_, "|": operator.or_}
    expected = exact(function.get(symbol, operator.xor), x, y)
    assert_same(evaluate(device, f"x {symbol} y", x, y, out=dtype), expected)


@pytest.mark.parametrize("dtype", dtypes(*INTEGERS))
def test_division_and_remainder_round_toward_zero(device, dtype):
    x, y = divisible_pairs(dtype)
    if INTERPRETED and dtype is torch.int64:
        pytest.skip("the interpreter divides int64 through floating point")
    got = evaluate_all(device, {"x // y": dtype, "x % y": dtype}, x, y)
    assert_same(got["x // y"], exact(quotient_toward_zero, x, y))
    assert_same(got["x % y"], exact(lambda a, b: a - b * quotient_toward_zero(a, b), x, y))


@pytest.mark.parametrize("divisor", [1, 2, 3, 7, 8, 10, 64, 641, -1, -3, -8])
@pytest.mark.parametrize("dtype", dtypes(torch.int32, torch.int64, torch.uint32))
def test_division_by_a_constant(device, dtype, divisor):
    x = samples(dtype)
    if dtype in UNSIGNED and divisor < 0:
        pytest.skip("a negative divisor is not unsigned")
    x = x if divisor != -1 else x[x != torch.iinfo(dtype).min]
    got = evaluate_all(device, {f"x // {divisor}": dtype, f"x % {divisor}": dtype}, x)
    quotient, remainder = got.values()
    assert_same(quotient, exact(lambda a: quotient_toward_zero(a, divisor), x))
    assert_same(remainder, exact(lambda a: a - divisor * quotient_toward_zero(a, divisor), x))


@pytest.mark.compiled
@pytest.mark.parametrize("dtype", dtypes(*INTEGERS))
def test_undefined_division_never_stops_the_program(device, dtype):
    """By zero, and of the smallest number by -1: any value will do, also in lanes that a mask switches off."""
    x = tensor_of([0, 1, torch.iinfo(dtype).min, torch.iinfo(dtype).max] * 3, dtype)
    y = tensor_of([0] * 8 + [2] * 4 if dtype in UNSIGNED else [0] * 4 + [-1] * 4 + [2] * 4, dtype)
    got = evaluate_all(device, {"x // y": dtype, "x % y": dtype}, x, y, block=64)
    assert_same(got["x // y"][8:], exact(quotient_toward_zero, x[8:], y[8:]))


@pytest.mark.parametrize("dtype", dtypes(*INTEGERS))
def test_shifts(device, dtype):
    """A right shift copies the sign of a signed number and fills an unsigned one with zeros."""
    x = samples(dtype)
    count = tensor_of((np.arange(x.numel()) % bits(dtype)).tolist(), dtype)
    got = evaluate_all(device, {"x << y": dtype, "x >> y": dtype, "x >> 3": dtype, "x << 2": dtype}, x, count)
    assert_same(got["x << y"], exact(operator.lshift, x, count))
    assert_same(got["x >> y"], exact(operator.rshift, x, count))
    assert_same(got["x >> 3"], exact(lambda a: a >> 3, x))
    assert_same(got["x << 2"], exact(lambda a: a << 2, x))


@pytest.mark.parametrize("dtype", dtypes(*INTEGERS, torch.bool))
def test_comparisons_follow_signedness(device, dtype):
    x, y = sample_pairs(dtype)
    got = evaluate_all(device, {f"x {symbol} y": torch.bool for symbol in COMPARISONS}, x, y)
    for symbol, function in COMPARISONS.items():
        expected = torch.from_numpy(function(x.numpy(), y.numpy()))
        assert torch.equal(got[f"x {symbol} y"], expected), symbol


@pytest.mark.parametrize("dtype", dtypes(*INTEGERS))
def test_minimum_maximum_and_select(device, dtype):
    x, y = sample_pairs(dtype)
    expressions = {"tl.minimum(x, y)": dtype, "tl.maximum(x, y)": dtype, "tl.where(x > y, x, y - x)": dtype}
    smallest, largest, selected = evaluate_all(device, expressions, x, y).values()
    assert_same(smallest, exact(min, x, y))
    assert_same(largest, exact(max, x, y))
    assert_same(selected, exact(lambda a, b: a if a > b else b - a, x, y))


@pytest.mark.parametrize("dtype", dtypes(*INTEGERS))
def test_unary(device, dtype):
    x = samples(dtype)
    expressions = {"0 - x": dtype, "tl.abs(x)": dtype, "x != 0": torch.bool}
    negated, magnitude, truth = evaluate_all(device, expressions, x).values()
    assert_same(negated, exact(operator.neg, x))
    assert_same(magnitude, exact(abs, x))
    assert torch.equal(truth, torch.from_numpy(x.numpy() != 0))


@pytest.mark.compiled
@pytest.mark.parametrize("dtype", dtypes(*INTEGERS))
def test_inversion_flips_every_bit(device, dtype):
    x = samples(dtype)
    assert_same(evaluate(device, "~x", x, out=dtype), exact(operator.invert, x))


@pytest.mark.parametrize("dtype", dtypes(*SIGNED))
def test_negation_of_signed_numbers(device, dtype):
    x = samples(dtype)
    assert_same(evaluate(device, "-x", x, out=dtype), exact(operator.neg, x))


def test_logic_on_booleans(device):
    x, y = torch.tensor([False, False, True, True] * 9), torch.tensor([False, True, False, True] * 9)
    got = evaluate_all(
        device, {"x & y": torch.bool, "x | y": torch.bool, "x ^ y": torch.bool, "x == 0": torch.bool}, x, y
    )
    assert torch.equal(got["x & y"], x & y)
    assert torch.equal(got["x | y"], x | y)
    assert torch.equal(got["x ^ y"], x ^ y)
    assert torch.equal(got["x == 0"], ~x)


@pytest.mark.compiled
def test_not_and_python_logic_on_booleans(device):
    x, y = torch.tensor([False, False, True, True] * 9), torch.tensor([False, True, False, True] * 9)
    assert torch.equal(evaluate(device, "~x", x, out=torch.bool), ~x)
    assert torch.equal(evaluate(device, "tl.where(x, ~y, y)", x, y, out=torch.bool), x ^ y)


@pytest.mark.parametrize("dtype", dtypes(torch.int32, torch.int64, torch.uint32, torch.uint64))
def test_high_half_of_an_unsigned_product(device, dtype):
    if dtype.itemsize == 8:
        require("high half of 64-bit products")
    x, y = sample_pairs(dtype)
    if INTERPRETED and dtype in SIGNED:
        pytest.skip("the interpreter multiplies signed numbers")
    mask = (1 << bits(dtype)) - 1
    expected = exact(lambda a, b: ((a & mask) * (b & mask)) >> bits(dtype), x, y)
    assert_same(evaluate(device, "tl.umulhi(x, y)", x, y, out=dtype), expected)


@pytest.mark.parametrize(
    ("left", "right", "result"),
    [
        (torch.int8, torch.int32, torch.int32),
        (torch.int32, torch.int64, torch.int64),
        (torch.uint8, torch.int32, torch.int32),
        (torch.uint32, torch.int64, torch.int64),
        (torch.int16, torch.uint16, torch.uint16),
        (torch.bool, torch.int32, torch.int32),
    ],
    ids=str,
)
def test_promotion_of_mixed_integers(device, left, right, result):
    x, y = random_values(left, 200, seed=1), random_values(right, 200, seed=2)
    wide_x, wide_y = (torch.tensor(v.numpy().astype(np.int64).tolist()).numpy() for v in (x, y))
    total, difference = evaluate_all(device, {"x + y": result, "x - y": result}, x, y).values()
    numpy_result = triton_name(result)
    assert_same(total, torch.from_numpy((wide_x + wide_y).astype(numpy_result)))
    assert_same(difference, torch.from_numpy((wide_x - wide_y).astype(numpy_result)))


@pytest.mark.parametrize("constant", [0, 1, -1, 100, -128])
def test_python_numbers_take_the_dtype_of_the_tensor(device, constant):
    x = samples(torch.int8)
    assert_same(evaluate(device, f"x + ({constant})", x, out=torch.int8), exact(lambda a: a + constant, x))
