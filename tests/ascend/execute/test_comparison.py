"""When two results of the same kernel count as the same."""

from __future__ import annotations

import numpy as np
import pytest

from inductor_npu.ascend.execute.comparison import ELEMENT_TYPES, FUNCTION_UNITS, compare, moved


def fp32(*values: float) -> bytes:
    return np.array(values, np.float32).tobytes()


def bf16(*values: float) -> bytes:
    return (np.array(values, np.float32).view(np.uint32) >> 16).astype(np.uint16).tobytes()


FP32, BF16, I32 = ELEMENT_TYPES["fp32"], ELEMENT_TYPES["bf16"], ELEMENT_TYPES["i32"]


def test_nan_equals_nan_and_infinities_equal_themselves() -> None:
    special = fp32(np.nan, np.inf, -np.inf, 0.0)
    other = fp32(-np.nan, np.inf, -np.inf, -0.0)
    assert compare(special, other, FP32, None) is None
    assert compare(fp32(np.inf), fp32(-np.inf), FP32, None) is not None
    assert compare(fp32(np.nan), fp32(1.0), FP32, None) is not None
    assert compare(fp32(np.inf), fp32(1.0), FP32, None) is not None


@pytest.mark.parametrize("size", [1e-30, 1.0, 1e30])
def test_floats_may_differ_by_what_functions_differ(size: float) -> None:
    eps = 2.0**-23
    assert compare(fp32(size), fp32(size * (1 + (FUNCTION_UNITS - 2) * eps)), FP32, None) is None
    assert compare(fp32(size), fp32(size * (1 + (FUNCTION_UNITS + 2) * eps)), FP32, None) is not None


def test_short_floats_may_differ_in_their_last_place() -> None:
    assert compare(bf16(1.0), bf16(1.0 + 2**-7), BF16, None) is None
    assert compare(bf16(1.0), bf16(1.0 + 2**-5), BF16, None) is not None


def test_a_measured_rounding_error_is_allowed_where_it_was_measured() -> None:
    spread = moved(fp32(1e-9, 1.0), fp32(2e-9, 1.0), FP32)
    assert compare(fp32(1e-9, 1.0), fp32(3e-9, 1.0), FP32, spread) is None
    mismatch = compare(fp32(1e-9, 1.0), fp32(1e-9, 1.1), FP32, spread)
    assert mismatch is not None and mismatch.first == 1


def test_integers_must_be_equal() -> None:
    a, b = np.array([1, 2, 3, 4], np.int32), np.array([1, 2, 5, -4], np.int32)
    mismatch = compare(a.tobytes(), b.tobytes(), I32, None)
    assert mismatch is not None
    assert (mismatch.first, mismatch.expected, mismatch.found) == (2, 3, 5)
    assert (mismatch.count, mismatch.elements, mismatch.largest, mismatch.tolerance) == (2, 4, 8, 0.0)
