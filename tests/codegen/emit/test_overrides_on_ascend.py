"""What Ascend's compiler makes of elementwise operations: vector instructions, with the results of the embedded NPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from inductor_npu.ascend.environment import AscendEnvironment
from tests.codegen.on_ascend import assert_vector_and_right

pytestmark = [pytest.mark.ascend, pytest.mark.compiled, pytest.mark.slow]

N = 2000
INF, NAN = float("inf"), float("nan")


def floats() -> torch.Tensor:
    x = torch.randn(N) * 10
    x[:9] = torch.tensor([INF, -INF, NAN, -0.0, 0.0, 1e20, 2.5, -2.5, 1e-8])
    return x


def integers(dtype: torch.dtype) -> torch.Tensor:
    limits = torch.iinfo(dtype)
    numbers = torch.randint(limits.min, limits.max, (N,), dtype=torch.int64)
    return (numbers >> torch.randint(0, dtype.itemsize * 8 - 1, (N,))).to(dtype)


def divisors(dtype: torch.dtype) -> torch.Tensor:
    numbers = integers(dtype)
    return torch.where(numbers == 0, 3, numbers)


def cases_of_floats() -> list[tuple]:
    x, y = floats(), floats().roll(3)
    unit = torch.rand(N) * 2 - 1
    unary = [
        torch.expm1, torch.tanh, torch.sinh, torch.cosh, torch.asinh, torch.atan, torch.erfc, torch.sigmoid,
        torch.round, torch.trunc, torch.floor, torch.sign, torch.signbit, torch.isnan, torch.isinf, torch.neg,
        torch.relu, torch.special.i0, torch.special.erfcx,
    ]  # fmt: skip
    return [
        *((function, x) for function in unary),
        *((function, unit) for function in (torch.asin, torch.acos, torch.atanh, torch.erfinv, torch.log1p)),
        *((function, 30 * unit) for function in (torch.special.bessel_j0, torch.special.bessel_j1)),
        *((function, 30 * unit.abs()) for function in (torch.special.bessel_y0, torch.special.bessel_y1)),
        *((function, x, y) for function in (torch.maximum, torch.minimum, torch.copysign, torch.atan2, torch.hypot)),
        (lambda x: x.clamp(-1, 1), x),
        (lambda x, y: torch.fmod(x, y), x, y),
        (lambda x, y: torch.remainder(x, y), x, y),
        (lambda x, y: x.abs() ** y, unit, unit.roll(1)),
        (lambda x: x.nan_to_num(0).clamp(-100, 100).to(torch.int8), x),
        (lambda x, y: (x > 0) == (y > 0), x, y),
    ]


def cases_of_integers() -> list[tuple]:
    x, y = integers(torch.int32), divisors(torch.int32)
    wide, other = integers(torch.int64), integers(torch.int64).roll(1)
    amount = torch.randint(0, 31, (N,), dtype=torch.int32)
    return [
        (lambda x, y: x // y, x, y),
        (lambda x, y: x % y, x, y),
        (lambda x, y: torch.div(x, y, rounding_mode="trunc"), x, y),
        (torch.fmod, x, y),
        (lambda x: x // 7, x),
        (lambda x: x % 8, x),
        (lambda x, n: x << n, x, amount),
        (lambda x, n: x >> n, x, amount),
        (lambda x, y: x + y, wide, other),
        (lambda x, y: x - y, wide, other),
        (lambda x, y: x < y, wide, other),
        (lambda x, y: x == y, wide, other),
        (lambda x, y: torch.maximum(x, y), wide, other),
        (lambda x: torch.where(x < 0, x + 30522, x), wide),
        (lambda x: x % 7, wide),
        (lambda x: x % 30522, wide),
        (lambda x: torch.fmod(x, -640), wide),
        (lambda x, y: x < y, integers(torch.int16), integers(torch.int16)),
        (lambda x, y: x + y, integers(torch.int8), integers(torch.int8)),
        (lambda x, y: x // y, integers(torch.int8), divisors(torch.int8)),
        (lambda x: x >> 2, integers(torch.uint8)),
    ]


def cases_of_indices() -> list[tuple]:
    """Indices as numbers: what is no linear function of them is computed as any other number is."""
    x = torch.randn(32, 64)

    def distance(x: torch.Tensor) -> torch.Tensor:
        return (torch.arange(64, device=x.device) - torch.arange(32, device=x.device)[:, None]).abs()

    return [
        (lambda x: x - distance(x), x),
        (lambda x: x + torch.log(1 + distance(x).float()), x),
        (lambda x: x * distance(x).clamp(3, 17), x),
    ]


def cases_of_random_numbers() -> list[tuple]:
    x = torch.empty(N)
    return [(torch.rand_like, x), (torch.randn_like, x), (lambda x: torch.randint_like(x, 10), x)]


@pytest.mark.parametrize("cases", [cases_of_floats, cases_of_integers, cases_of_indices, cases_of_random_numbers])
def test_operations_are_vector_instructions_with_the_right_results(
    cases: Callable[[], list[tuple]], ascend: AscendEnvironment, own_cache: Path
) -> None:
    assert_vector_and_right(cases, joined=2)
