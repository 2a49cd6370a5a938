"""Element by element: every arithmetic operation that Inductor generates code for, over dtypes and awkward shapes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from tests.compile.helpers import check, code_of, kernel_count
from tests.triton_features import require

FLOATS = [torch.float32, torch.float16, torch.bfloat16, torch.float64]
INTEGERS = [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64]
SHAPES = [(), (1,), (7,), (0,), (3, 0, 5), (1000,), (33, 65), (2, 3, 5, 7), (4096, 17)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_any_shape(shape: tuple[int, ...]) -> None:
    check(lambda x, y: torch.relu(x * 2 + y) - x, torch.randn(shape), torch.randn(shape))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_float_arithmetic(dtype: torch.dtype) -> None:
    if dtype is torch.float64:
        require("masked loads of float64")
    x, y = torch.randn(100, dtype=dtype), torch.rand(100, dtype=dtype) + 0.5
    check(lambda x, y: (x + y, x - y, x * y, x / y, x.abs(), -x, torch.maximum(x, y), torch.minimum(x, y)), x, y)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integer_arithmetic(dtype: torch.dtype) -> None:
    x, y = torch.randint(0, 100, (101,)).to(dtype), torch.randint(1, 10, (101,)).to(dtype)
    check(lambda x, y: (x + y, x - y, x * y, x // y, x % y, x & y, x | y, x ^ y, x << (y % 3), x >> (y % 3)), x, y)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_shifts_by_any_amount(dtype: torch.dtype) -> None:
    limits = torch.iinfo(dtype)
    x = torch.tensor([limits.min, 1, 127, limits.max // 2 + 1, limits.max], dtype=dtype)
    amounts = [amount for amount in (-9, -1, 0, 3, 7, 8, 15, 16, 31, 32, 63, 64, 100) if amount >= limits.min]

    def shifted(x: torch.Tensor, amount: torch.Tensor) -> list[torch.Tensor]:
        by_constants = [result for amount in (-8, *amounts) for result in (x >> amount, x << amount)]
        return [*by_constants, x >> amount, x << amount, amount >> x[0], amount << x[1]]

    check(shifted, x, torch.tensor(amounts, dtype=dtype)[:, None])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_zeros_keep_their_signs(dtype: torch.dtype) -> None:
    def signs(x: torch.Tensor) -> list[torch.Tensor]:
        y = x * -1.0
        limited = [torch.relu(y), y.clamp(0, 1), y.clamp(min=0), F.relu6(y), F.hardtanh(y, 0, 3), -torch.relu(x)]
        odd = [
            torch.log1p(y),
            torch.expm1(y),
            torch.tanh(y),
            torch.special.bessel_j1(y.float()),
            torch.special.log_ndtr(y.float()),
        ]
        return [torch.signbit(each) for each in (*limited, *odd, y, y.round(), y / 3, torch.sin(y), F.silu(y))]

    check(signs, torch.tensor([0.0, -0.0, 0.5, -0.5], dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
def test_division_of_negative_integers(dtype: torch.dtype) -> None:
    x = torch.tensor([-7, -7, 7, 7, -1, 0], dtype=dtype)
    y = torch.tensor([2, -2, 2, -2, 5, 3], dtype=dtype)
    check(lambda x, y: (x // y, x % y, torch.div(x, y, rounding_mode="trunc"), torch.fmod(x, y)), x, y)


@pytest.mark.parametrize("divisor", [1, 7, 8, -7, 1023, 1024, 30522, 2**19 - 1, 2**19, -(2**40)])
def test_remainders_of_any_int64_by_constants(divisor: int) -> None:
    x = torch.randint(-(2**63), 2**63 - 1, (1000,)) >> torch.randint(0, 63, (1000,))
    x[:6] = torch.tensor([0, -1, 1, -(2**63), 2**63 - 1, divisor])
    check(lambda x: (x % divisor, torch.fmod(x, divisor), (x % divisor + 5) * 3, (x % divisor).float()), x)


@pytest.mark.parametrize("dtype", [*INTEGERS, torch.float32, torch.float64], ids=str)
def test_remainders_of_operands_that_lack_axes(dtype: torch.dtype) -> None:
    if dtype is torch.float64:
        require("masked loads of float64")
    x, row, column = (torch.randint(1, 10, shape).to(dtype) for shape in ((10, 5), (5,), (10, 1)))
    check(lambda x, row, column: (x % row, row % x, column % row, row % column, x % column, column % x), x, row, column)


def test_remainders_of_operands_of_three_axes() -> None:
    x, y = torch.randint(-9, 9, (6, 1, 10)), torch.randint(1, 9, (5, 1))
    check(lambda x, y: (x % y, (x // y) % y, y % x.abs().add(1)), x, y)


@pytest.mark.parametrize("mode", ["trunc", "floor"])
@pytest.mark.parametrize("divisor", [7, -4])
def test_quotients_of_indices_are_computed_further(mode: str, divisor: int) -> None:
    """What Inductor knows of the bounds of an index it keeps to through each operator."""

    def quotients(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        difference = torch.arange(5, device=x.device) - torch.arange(33, device=x.device)[:, None]
        quotient = torch.div(difference, divisor, rounding_mode=mode)
        return quotient * 3 - 1, quotient * quotient + x, torch.where(x > 0, quotient, difference), -quotient.abs()

    check(quotients, torch.randint(-9, 9, (33, 5)))


def sums_and_products_of_indices(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    i = torch.arange(x.shape[0], device=x.device)
    large = i * 10**9
    return large, -large - 7, i + 2**31 - 4, 10**10 + i + x, large * i[:, None] + x, i * 10**18 * 10, large * x.shape[0]


def powers_of_indices(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    i = torch.arange(100, device=x.device)
    return i**5, (i**5).double(), torch.pow((i - i[:, None]) ** 2, 3), i << 40


def divisions_of_indices(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    i = torch.arange(x.shape[0], device=x.device)
    large = i * 10**9 + 3
    return large // 7, large % 1000, (i // 2) * 10**10, torch.div(large, 7, rounding_mode="trunc") * 5, large >> 3


def selections_of_indices(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    i = torch.arange(x.shape[0], device=x.device)
    large = i * 10**9
    extremes = torch.minimum(large, 5 * 10**9 - i), large.clamp(5, 3 * 10**9), (large - 4 * 10**9).abs()
    return *extremes, torch.where(large > 3 * 10**9, x, -x), large & 0xFFFFFFFFF, torch.cat([large, x])


def reductions_of_indices(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    large = torch.arange(x.shape[0], device=x.device) * 10**9
    return large.sum(), large.argmax(), large.cumsum(0)


@pytest.mark.parametrize(
    "values",
    [
        sums_and_products_of_indices,
        powers_of_indices,
        divisions_of_indices,
        selections_of_indices,
        reductions_of_indices,
    ],
)
@pytest.mark.parametrize("dynamic", [False, True])
def test_indices_as_values_have_64_bits(values: Callable[..., tuple[torch.Tensor, ...]], dynamic: bool) -> None:
    check(values, torch.arange(9) * 3 - 7, dynamic=dynamic)


def test_indices_as_values_wrap_in_their_own_type() -> None:
    check(lambda x: torch.arange(9, device=x.device, dtype=torch.int32) * 10**9 + x, torch.arange(9, dtype=torch.int32))


def test_unravelled_indices() -> None:
    check(lambda x: torch.unravel_index(x, (4, 5)), torch.tensor([[3, 8, 13], [0, 5, 10]]))


UNARY = [
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan", "sinh", "cosh",
    "tanh", "asinh", "atan", "sigmoid", "erf", "erfc", "lgamma", "floor", "ceil", "round", "trunc", "sign",
    "reciprocal", "square", "isnan", "isinf", "signbit",
]  # fmt: skip


@pytest.mark.slow
def test_unary_functions() -> None:
    x = torch.rand(300) * 3 + 0.1
    check(lambda x: [getattr(torch, name)(x) for name in UNARY], x)


def test_inverse_functions_on_their_domain() -> None:
    x = torch.rand(300) * 1.8 - 0.9
    check(lambda x: (torch.asin(x), torch.acos(x), torch.atanh(x), torch.erfinv(x), torch.acosh(x.abs() + 1)), x)


def test_activations() -> None:
    functional = torch.nn.functional
    names = [
        "gelu",
        "silu",
        "mish",
        "elu",
        "leaky_relu",
        "softplus",
        "hardswish",
        "hardsigmoid",
        "relu6",
        "selu",
        "celu",
    ]
    check(lambda x: [getattr(functional, name)(x) for name in names], torch.randn(257) * 3)


def test_binary_functions() -> None:
    x, y = torch.rand(300) + 0.1, torch.rand(300) * 2 + 0.1
    names = ["pow", "atan2", "fmod", "remainder", "hypot", "copysign", "nextafter", "logaddexp"]
    check(lambda x, y: [getattr(torch, name)(x, y) for name in names], x, y)


def test_special_values() -> None:
    x = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e-40, 3e38])
    check(lambda x: (x + 1, x.exp(), x.abs(), x.clamp(-1, 1), torch.maximum(x, -x), x.nan_to_num(), x.isfinite()), x)


def test_comparisons_and_logic() -> None:
    x, y = torch.randint(0, 3, (64,)), torch.randint(0, 3, (64,))
    check(lambda x, y: (x == y, x != y, x < y, x <= y, x > y, x >= y, (x > 1) & (y > 1), (x > 1) | ~(y > 1)), x, y)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_conditions_compared_as_whole_numbers(dtype: torch.dtype) -> None:
    def compared(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a, b = (x > 0).to(dtype), (y > 0).to(dtype)
        chosen = torch.where(z > 0, a, b)
        rows = torch.stack(torch.broadcast_tensors(a, b, chosen))
        places = rows.argmax(0), rows.max(0).indices
        return (a > b, a >= b, a < b, a <= b, a == b, a != b, chosen > a, chosen == b, chosen * 3, *places)

    check(compared, torch.randn(100), torch.randn(100), torch.randn(100))
    check(compared, torch.randn(7, 40), torch.randn(40), torch.randn(7, 1))


def test_where_and_clamp() -> None:
    x, y = torch.randn(10, 30), torch.randn(30)
    check(lambda x, y: (torch.where(x > 0, x, y), x.clamp(-0.5, 0.5), x.clamp(max=y), x.masked_fill(x > 1, 7.0)), x, y)


@pytest.mark.parametrize("alpha", [0, 1, 2])
def test_sums_of_conditions(alpha: int) -> None:
    """They are disjunctions, and remain conditions for what uses them."""

    def fn(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
        either = torch.add(a, b, alpha=alpha)
        return torch.logical_not(either + a), either + torch.arange(4, device=a.device), either * a

    check(fn, torch.tensor([True, True, False, False]), torch.tensor([True, False, True, False]))


@pytest.mark.parametrize("source", [*FLOATS, *INTEGERS, torch.bool], ids=str)
def test_conversions(source: torch.dtype) -> None:
    if source is torch.float64:
        require("masked loads of float64")
    x = torch.randint(0, 2, (99,)).to(source) if source == torch.bool else (torch.rand(99) * 100).to(source)
    check(lambda x: [x.to(dtype) for dtype in (*FLOATS, *INTEGERS, torch.bool)], x)


def test_type_promotion() -> None:
    x, y = torch.arange(12, dtype=torch.int32), torch.rand(12, dtype=torch.float16)
    check(
        lambda x, y: (
            x + y,
            x / 3,
            x * 2.5,
            y + 1,
            (x > 3) + x,
            y + torch.ones(12, dtype=torch.bfloat16, device=y.device),
        ),
        x,
        y,
    )


def test_broadcasting() -> None:
    check(lambda a, b, c: (a + b) * c, torch.randn(5, 1, 7), torch.randn(3, 1), torch.randn(7))


def test_bit_reinterpretation() -> None:
    check(lambda x: (x.view(torch.int32) & 0x7FFFFFFF).view(torch.float32), torch.randn(50))


def test_scalar_arguments() -> None:
    check(lambda x, k, f: x * k + f, torch.randn(20), 3, 0.25)


def test_zero_dimensional_cpu_tensor_joins_in() -> None:
    scale = torch.tensor(2.5)
    x = torch.randn(40)
    actual = torch.compile(lambda x, s: x * s + s, fullgraph=True)(x.to("npu"), scale)
    torch.testing.assert_close(actual.cpu(), x * scale + scale)


@pytest.mark.slow
def test_a_long_chain_is_one_kernel() -> None:
    def chain(x: torch.Tensor) -> torch.Tensor:
        for _ in range(30):
            x = torch.sin(x) * 1.1 + 0.1
        return x

    check(chain, torch.randn(5000))
    assert kernel_count(code_of(chain, torch.randn(5000).to("npu"))) == 1
