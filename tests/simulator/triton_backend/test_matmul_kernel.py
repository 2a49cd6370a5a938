"""The product of packed tiles: every shape, operand, accumulator, layout and host."""

from __future__ import annotations

from dataclasses import replace

import llvmlite.binding as llvm
import numpy as np
import pytest

from inductor_npu.simulator.triton_backend.mathlib import (
    HostVectors,
    Library,
    PackedProduct,
    UnknownFunction,
    matmul,
    packed_product,
)

from .mathlib_harness import NUMPY, compile_text, evaluate

GENERATED = np.random.default_rng(0)
THIS = HostVectors.of_features(llvm.get_host_cpu_features())
PLAIN = [HostVectors(512, 32), HostVectors(256, 16), HostVectors(128, 16)]
HOSTS = [*PLAIN, *[THIS] * (THIS not in PLAIN)]


def host_name(host: HostVectors) -> str:
    return f"{host.bits}{'-products' * (host.bf16_products or host.int8_products)}"


def aligned(array: np.ndarray) -> np.ndarray:
    """A copy at an address that vectors want."""
    memory = np.zeros(array.nbytes + 64, np.uint8)
    copy = memory[-memory.ctypes.data % 64 :][: array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def packed_a(a: np.ndarray, product: PackedProduct) -> np.ndarray:
    if product.a_is_offset:
        a = (a.astype(np.int16) + 128).astype(np.uint8)
    if product.a_in_panels:
        a = a.reshape(product.m // product.rows, product.rows, -1, product.group).transpose(0, 2, 1, 3)
    return aligned(a)


def packed_b(b: np.ndarray, product: PackedProduct) -> np.ndarray:
    return aligned(b.reshape(-1, product.group, product.n // product.panel, product.panel).transpose(2, 0, 3, 1))


def converted(x: np.ndarray, element: str, product: PackedProduct) -> np.ndarray:
    """An operand in what packed ones consist of."""
    return x if element == product.element else numbers(x, element).astype(NUMPY[product.element])


def product_of(
    c: np.ndarray, a: np.ndarray, b: np.ndarray, operands, accumulator, host=THIS, panels=False, used=None, **options
) -> np.ndarray:
    """C after one call, over `used`: rows, columns, depth."""
    shape = (a.shape[0], b.shape[1], a.shape[1])
    product = replace(packed_product(shape, operands, accumulator, host), a_in_panels=panels)
    library = Library()
    function = matmul(library, product, partial=used is not None, **options)
    sizes = "i64 %rows, i64 %columns, i64 %depth"
    entry = f"define void @run(ptr %c, ptr %a, ptr %b, {sizes}) {{\n"
    entry += f"  call void @{function.symbol}(ptr %c, ptr %a, ptr %b, {sizes})\n  ret void\n}}\n"
    run = compile_text(entry + library.text())
    result = aligned(c)
    left, right = converted(a, operands[0], product), converted(b, operands[1], product)
    run(result, packed_a(left, product), packed_b(right, product), *(used or shape))
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


def exact(a: np.ndarray, b: np.ndarray, operands) -> np.ndarray:
    return numbers(a, operands[0]).astype(np.float64) @ numbers(b, operands[1]).astype(np.float64)


TYPES = [
    (("f32", "f32"), "f32"),
    (("f16", "f16"), "f32"),
    (("bf16", "bf16"), "f32"),
    (("f16", "f16"), "f16"),
    (("f64", "f64"), "f64"),
    (("i8", "i8"), "i32"),
    (("f8E5M2", "f8E4M3FN"), "f32"),
    (("f8E4M3FN", "f16"), "f32"),
]


@pytest.mark.parametrize("host", HOSTS, ids=host_name)
@pytest.mark.parametrize("panels", [False, True], ids=["rows", "panels"])
@pytest.mark.parametrize(("operands", "accumulator"), TYPES)
def test_operands_and_accumulators_of_every_type(operands, accumulator, panels, host):
    a, b, c = tile(16, 32, operands[0]), tile(32, 64, operands[1]), tile(16, 64, accumulator)
    expected = c + exact(a, b, operands).astype(c.dtype)
    got = product_of(c, a, b, operands, accumulator, host, panels)
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("host", HOSTS, ids=host_name)
@pytest.mark.parametrize("shape", [(1, 1, 1), (16, 16, 1), (2, 4, 8), (1, 128, 2), (64, 1, 16), (4, 32, 1024)])
@pytest.mark.parametrize("element", ["f32", "bf16", "i8"])
def test_any_shape(shape, element, host):
    m, n, k = shape
    accumulator = "i32" if element == "i8" else "f32"
    a, b, c = tile(m, k, element), tile(k, n, element), tile(m, n, accumulator)
    expected = c + exact(a, b, (element, element)).astype(c.dtype)
    np.testing.assert_array_equal(product_of(c, a, b, (element, element), accumulator, host), expected)


@pytest.mark.parametrize("used", [(1, 1, 1), (7, 33, 5), (8, 64, 300), (13, 40, 511), (16, 64, 512)])
@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("element", ["f32", "bf16", "i8"])
def test_a_part_of_the_tile(element, accumulate, used):
    """Rows beyond the part are left as they are; columns and steps are rounded up to whole panels and groups."""
    rows, columns, depth = used
    accumulator = "i32" if element == "i8" else "f32"
    a, b, c = tile(16, 512, element), tile(512, 64, element), tile(16, 64, accumulator)
    a[:, depth:], b[depth:] = 0, 0
    got = product_of(c, a, b, (element, element), accumulator, used=used, accumulate=accumulate)
    expected = (c * accumulate + exact(a, b, (element, element)))[:rows, :columns]
    np.testing.assert_array_equal(got[:rows, :columns], expected)
    np.testing.assert_array_equal(got[rows:], c[rows:])


@pytest.mark.parametrize("panels", [False, True], ids=["rows", "panels"])
@pytest.mark.parametrize("host", HOSTS, ids=host_name)
@pytest.mark.parametrize(("left", "right"), [(-128, -128), (127, -128), (-128, 127)])
def test_int8_sums_are_exact_at_the_extremes(left, right, host, panels):
    a, b, c = np.full((4, 2048), left, np.int8), np.full((2048, 64), right, np.int8), np.full((4, 64), 5, np.int32)
    got = product_of(c, a, b, ("i8", "i8"), "i32", host, panels)
    np.testing.assert_array_equal(got, np.full((4, 64), 5 + 2048 * left * right))


def test_overwriting_ignores_what_was_there():
    a, b, c = tile(8, 1024, "f32"), tile(1024, 16, "f32"), np.full((8, 16), np.nan, np.float32)
    np.testing.assert_array_equal(product_of(c, a, b, ("f32", "f32"), "f32", accumulate=False), a @ b)


@pytest.mark.parametrize("element", ["f32", "f16", "bf16"])
def test_rounding_is_that_of_a_float32_sum(element):
    a, b = (GENERATED.normal(size=(64, 64)).astype(np.float32).ravel() for _ in range(2))
    a, b = ((x if element == "f32" else evaluate(f"convert_to_{element}", x)).reshape(64, 64) for x in (a, b))
    got = product_of(np.zeros((64, 64), np.float32), a, b, (element, element), "f32")
    bound = np.abs(numbers(a, element)).astype(np.float64) @ np.abs(numbers(b, element))
    assert np.max(np.abs(got - exact(a, b, (element, element)))) <= 2**-24 * 64 * np.max(bound)


@pytest.mark.parametrize("element", ["f32", "f16", "bf16"])
def test_infinity_and_nan_pass_through(element):
    a, b = np.ones((16, 32), np.float32), np.ones((32, 32), np.float32)
    a[3, 4], a[5, 6], b[7, 2], b[9, 2] = np.nan, np.inf, np.inf, -np.inf
    a, b = (x if element == "f32" else evaluate(f"convert_to_{element}", x.ravel()).reshape(x.shape) for x in (a, b))
    got = product_of(np.zeros((16, 32), np.float32), a, b, (element, element), "f32")
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(got, exact(a, b, (element, element)).astype(np.float32))


@pytest.mark.parametrize(
    ("operands", "accumulator"), [(("i8", "f32"), "f32"), (("f64", "f32"), "f64"), (("i8", "i8"), "f32")]
)
def test_other_combinations_are_refused(operands, accumulator):
    with pytest.raises(UnknownFunction, match=r"tl\.dot of"):
        packed_product((4, 4, 4), operands, accumulator)
