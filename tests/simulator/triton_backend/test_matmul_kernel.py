"""The product of tiles: every shape, operand and accumulator."""

from __future__ import annotations

import numpy as np
import pytest

from inductor_npu.simulator.triton_backend.mathlib import HostVectors, Library, UnknownFunction, matmul

from .mathlib_harness import NUMPY, compile_text, evaluate

GENERATED = np.random.default_rng(0)


def product(c: np.ndarray, a: np.ndarray, b: np.ndarray, operands, accumulator: str, **options) -> np.ndarray:
    """C after one call."""
    library = Library()
    function = matmul(library, (a.shape[0], b.shape[1], a.shape[1]), operands, accumulator, **options)
    entry = "define void @run(ptr %c, ptr %a, ptr %b, ptr %s) {\n"
    entry += f"  call void @{function.symbol}(ptr %c, ptr %a, ptr %b, ptr %s)\n  ret void\n}}\n"
    run = compile_text(entry + library.text())
    scratch = np.zeros(function.scratch_bytes + 64, np.uint8)
    result = c.copy()
    run(result, a, b, scratch[-scratch.ctypes.data % 64 :])
    return result


def tile(rows: int, columns: int, element: str) -> np.ndarray:
    """Small integers, so that every sum is exact in every format."""
    whole = GENERATED.integers(-4, 5, (rows, columns))
    if element in ("bf16", "f8E4M3FN", "f8E5M2"):
        return evaluate(f"convert_to_{element}", whole.astype(np.float32).ravel()).reshape(rows, columns)
    return whole.astype(NUMPY[element])


def numbers(x: np.ndarray, element: str) -> np.ndarray:
    if element in ("bf16", "f8E4M3FN", "f8E5M2"):
        return evaluate("convert_to_f32", x.ravel(), elements=(element,)).reshape(x.shape)
    return x


HOSTS = [HostVectors(512, 32), HostVectors(256, 16), HostVectors(128, 16)]


@pytest.mark.parametrize("host", HOSTS, ids=lambda h: str(h.bits))
@pytest.mark.parametrize(
    "shape", [(1, 1, 1), (16, 16, 16), (64, 64, 32), (3, 5, 7), (17, 33, 9), (1, 100, 3), (29, 63, 600), (13, 1, 40)]
)
def test_any_shape(shape, host):
    m, n, k = shape
    a, b, c = tile(m, k, "f32"), tile(k, n, "f32"), tile(m, n, "f32")
    np.testing.assert_array_equal(product(c, a, b, ("f32", "f32"), "f32", host=host), c + a @ b)


@pytest.mark.parametrize(
    ("operands", "accumulator"),
    [
        (("f16", "f16"), "f32"),
        (("bf16", "bf16"), "f32"),
        (("f16", "f16"), "f16"),
        (("f64", "f64"), "f64"),
        (("i8", "i8"), "i32"),
        (("f8E5M2", "f8E4M3FN"), "f32"),
        (("f8E4M3FN", "f16"), "f32"),
    ],
)
def test_operand_and_accumulator_types(operands, accumulator):
    m, n, k = 20, 37, 45
    a, b, c = tile(m, k, operands[0]), tile(k, n, operands[1]), tile(m, n, accumulator)
    expected = c + (numbers(a, operands[0]).astype(np.float64) @ numbers(b, operands[1])).astype(c.dtype)
    np.testing.assert_array_equal(product(c, a, b, operands, accumulator), expected)


def test_int8_sums_are_exact_at_the_extremes():
    a, b, c = np.full((4, 2048), -128, np.int8), np.full((2048, 20), -128, np.int8), np.full((4, 20), 5, np.int32)
    np.testing.assert_array_equal(product(c, a, b, ("i8", "i8"), "i32"), np.full((4, 20), 5 + 2048 * 2**14))


def test_overwriting_ignores_what_was_there():
    a, b, c = tile(8, 700, "f32"), tile(700, 16, "f32"), np.full((8, 16), np.nan, np.float32)
    np.testing.assert_array_equal(product(c, a, b, ("f32", "f32"), "f32", accumulate=False), a @ b)


def test_rounding_is_that_of_a_float32_sum():
    a, b = GENERATED.normal(size=(64, 64)).astype(np.float32), GENERATED.normal(size=(64, 64)).astype(np.float32)
    got = product(np.zeros((64, 64), np.float32), a, b, ("f32", "f32"), "f32")
    exact = a.astype(np.float64) @ b
    assert np.max(np.abs(got - exact)) <= 2**-24 * 64 * np.max(np.abs(a).astype(np.float64) @ np.abs(b))


@pytest.mark.parametrize(
    ("operands", "accumulator"), [(("i8", "f32"), "f32"), (("f64", "f32"), "f64"), (("i8", "i8"), "f32")]
)
def test_other_combinations_are_refused(operands, accumulator):
    with pytest.raises(UnknownFunction, match=r"tl\.dot of"):
        matmul(Library(), (4, 4, 4), operands, accumulator)
