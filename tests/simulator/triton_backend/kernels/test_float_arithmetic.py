"""Floating point follows IEEE 754 in the dtype of the operands; halves are rounded once, to nearest even."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from .support import (
    FLOATS,
    HALVES,
    assert_same,
    assert_within_ulps,
    dtypes,
    evaluate,
    evaluate_all,
    sample_pairs,
    samples,
    tensor_of,
)

COMPARISONS = {"<": torch.lt, "<=": torch.le, ">": torch.gt, ">=": torch.ge, "==": torch.eq, "!=": torch.ne}


@pytest.mark.parametrize("dtype", dtypes(*FLOATS))
@pytest.mark.parametrize(("symbol", "function"), {"+": torch.add, "-": torch.sub, "*": torch.mul}.items())
def test_sum_difference_product(device, symbol, function, dtype):
    x, y = sample_pairs(dtype)
    assert_same(evaluate(device, f"x {symbol} y", x, y, out=dtype), function(x, y))


@pytest.mark.parametrize("dtype", dtypes(*FLOATS))
def test_division(device, dtype):
    """Halves are divided in fp32, as Triton's promotion says."""
    x, y = sample_pairs(dtype)
    computed = torch.float32 if dtype in HALVES else dtype
    expected = torch.from_numpy(as_numpy(x, computed) / as_numpy(y, computed))
    assert_same(evaluate(device, "x / y", x, y, out=computed), expected)


def as_numpy(tensor: torch.Tensor, dtype: torch.dtype) -> np.ndarray:
    return tensor.to(dtype).numpy()


@pytest.mark.parametrize("dtype", dtypes(torch.int32, torch.int64, torch.uint8))
def test_division_of_integers_is_a_float32(device, dtype):
    x, y = tensor_of([7, 1, 0, 100, 5], dtype), tensor_of([2, 3, 5, 7, 1], dtype)
    expected = torch.from_numpy(x.numpy().astype(np.float32) / y.numpy().astype(np.float32))
    assert_same(evaluate(device, "x / y", x, y, out=torch.float32), expected)


@pytest.mark.parametrize("dtype", dtypes(*FLOATS))
def test_remainder_takes_the_sign_of_the_dividend(device, dtype):
    x, y = sample_pairs(dtype)
    computed = torch.float32 if dtype in HALVES else dtype
    with np.errstate(invalid="ignore"):
        expected = torch.from_numpy(np.fmod(as_numpy(x, computed), as_numpy(y, computed)))
    assert_same(evaluate(device, "x % y", x, y, out=computed), expected)


@pytest.mark.parametrize("dtype", dtypes(*FLOATS))
def test_comparisons_with_nan_are_false_except_not_equal(device, dtype):
    x, y = sample_pairs(dtype)
    got = evaluate_all(device, {f"x {symbol} y": torch.bool for symbol in COMPARISONS}, x, y)
    for symbol, function in COMPARISONS.items():
        assert torch.equal(got[f"x {symbol} y"], function(x, y)), symbol


@pytest.mark.compiled
@pytest.mark.parametrize("dtype", dtypes(*FLOATS))
def test_minimum_and_maximum_prefer_the_number_over_nan(device, dtype):
    x, y = sample_pairs(dtype)
    smallest, largest = evaluate_all(device, {"tl.minimum(x, y)": dtype, "tl.maximum(x, y)": dtype}, x, y).values()
    assert_same(smallest, torch.fmin(x, y), signed_zero=False)
    assert_same(largest, torch.fmax(x, y), signed_zero=False)


@pytest.mark.parametrize("dtype", dtypes(*FLOATS))
def test_minimum_and_maximum_propagate_nan_on_demand(device, dtype):
    x, y = sample_pairs(dtype)
    least, most = (f"tl.{name}(x, y, propagate_nan=tl.PropagateNan.ALL)" for name in ("minimum", "maximum"))
    got = evaluate_all(device, {least: dtype, most: dtype}, x, y)
    assert_same(got[least], torch.minimum(x, y), signed_zero=False)
    assert_same(got[most], torch.maximum(x, y), signed_zero=False)


@pytest.mark.parametrize("dtype", dtypes(*FLOATS))
def test_clamp(device, dtype):
    x = samples(dtype)
    x = x[~x.isnan()]
    low, high = torch.full_like(x, -2.5), torch.full_like(x, 3.0)
    assert_same(evaluate(device, "tl.clamp(x, y, z)", x, low, high, out=dtype), x.clamp(-2.5, 3.0))


@pytest.mark.compiled
@pytest.mark.parametrize("mode", ["NONE", "ALL"])
def test_clamp_of_nan(device, mode):
    """Without propagation the answer lies in the range; with it, it is NaN."""
    x, low, high = torch.tensor([float("nan"), 1.0]), torch.tensor([-1.0, -1.0]), torch.tensor([2.0, 2.0])
    got = evaluate(device, f"tl.clamp(x, y, z, propagate_nan=tl.PropagateNan.{mode})", x, low, high, out=torch.float32)
    assert got[1] == 1.0
    assert got[0].isnan() if mode == "ALL" else -1.0 <= got[0] <= 2.0


@pytest.mark.parametrize("dtype", dtypes(*FLOATS))
def test_negation_and_absolute_value(device, dtype):
    x = samples(dtype)
    negated, magnitude = evaluate_all(device, {"-x": dtype, "tl.abs(x)": dtype}, x).values()
    assert_same(negated, -x, signed_zero=False)
    assert_same(magnitude, x.abs())


@pytest.mark.parametrize("dtype", dtypes(*FLOATS))
def test_where_takes_values_unchanged(device, dtype):
    x, y = sample_pairs(dtype)
    assert_same(evaluate(device, "tl.where(x < y, x, y)", x, y, out=dtype), torch.where(x < y, x, y))


@pytest.mark.parametrize("dtype", dtypes(torch.float32, torch.float64))
def test_fused_multiply_add(device, dtype):
    """One rounding or two: within one unit of the exact result (no cancellation in these samples)."""
    x, y, z = (samples(dtype, seed=seed)[25:].abs() for seed in (1, 2, 3))
    exact = x.numpy().astype(np.longdouble) * y.numpy() + z.numpy()
    assert_within_ulps(evaluate(device, "tl.fma(x, y, z)", x, y, z, out=dtype), exact, 1)


@pytest.mark.compiled
def test_fused_multiply_add_rounds_once(device):
    step = 2.0**-12
    x = torch.tensor([1 + step], dtype=torch.float32)
    z = torch.tensor([-(1 + 2 * step)], dtype=torch.float32)
    assert evaluate(device, "tl.fma(x, x, y)", x, z, out=torch.float32).item() == step * step


def test_products_and_sums_round_separately_without_fusion(device):
    """`enable_fp_fusion` (on by default, as on every target of Triton) allows x * y + z to round once."""
    x, y, z = (samples(torch.float32, seed=seed) for seed in (1, 2, 3))
    y, z = y.flip(0), z.roll(40)
    got = evaluate(device, "x * y + z", x, y, z, out=torch.float32, enable_fp_fusion=False)
    assert_same(got, x * y + z)


def test_fusion_changes_the_last_place_only(device):
    x, y, z = (samples(torch.float32, seed=seed)[25:].abs() for seed in (1, 2, 3))
    exact = x.double() * y.double() + z.double()
    assert_within_ulps(evaluate(device, "x * y + z", x, y, z, out=torch.float32), exact, 1.5)


@pytest.mark.parametrize("dtype", dtypes(*HALVES))
def test_halves_round_after_each_operation(device, dtype):
    x, y = (samples(dtype, seed=seed)[25:] for seed in (1, 2))
    assert_same(evaluate(device, "x * y + x", x, y, out=dtype, enable_fp_fusion=False), x * y + x)


@pytest.mark.parametrize(
    ("left", "right", "result"),
    [
        (torch.float16, torch.float32, torch.float32),
        (torch.float32, torch.float64, torch.float64),
        pytest.param(torch.bfloat16, torch.float32, torch.float32, marks=pytest.mark.compiled),
        pytest.param(torch.float16, torch.bfloat16, torch.bfloat16, marks=pytest.mark.compiled),
        (torch.int32, torch.float32, torch.float32),
        (torch.int64, torch.float16, torch.float16),
        (torch.bool, torch.float32, torch.float32),
    ],
    ids=str,
)
def test_promotion_of_mixed_types(device, left, right, result):
    x, y = torch.arange(-40, 40).to(left), (torch.arange(80) * 0.25).to(right)
    assert_same(evaluate(device, "x + y", x, y, out=result), x.to(result) + y.to(result))


def test_python_numbers_take_the_dtype_of_the_tensor(device):
    x = samples(torch.float16)
    assert_same(evaluate(device, "x * 0.5 + 1", x, out=torch.float16), x * 0.5 + 1)
