"""Addresses that are computed of numbers beyond 32 bits, of which the addresses themselves are far."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.compile.helpers import check

LARGE = 10**9


def remainders(x: torch.Tensor, i: torch.Tensor) -> tuple[torch.Tensor, ...]:
    large = i * LARGE
    return x[large % 9], x[-1 - large % 9], x[large // 7 % 9], x[large % 3 + large // (4 * LARGE)]


def remainders_of_what_int32_has_not(x: torch.Tensor, i: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x[(i * 10**18) % 9], x[(i * (2**61 + 1)) % 9], x[torch.fmod(i * LARGE, 9)]


def remainders_of_powers(x: torch.Tensor, i: torch.Tensor) -> tuple[torch.Tensor, ...]:
    many = torch.arange(100, device=x.device)
    return x[i**11 % 9], x[many**5 % 9], x[(many * LARGE) % 9].sum(), x[(many * LARGE) % 9].cumsum(0)


def smaller_ones(x: torch.Tensor, i: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x[(i * LARGE).clamp(max=8)], x[torch.minimum(i * LARGE, 3 * i) % 9]


def products_with_sizes(x: torch.Tensor, i: torch.Tensor) -> tuple[torch.Tensor, ...]:
    size = x.shape[0]
    return x[(i * (size * LARGE)) % 9], x[(i * size**9) % size], x[(i * LARGE + size) % 9]


def shifts_and_bits(x: torch.Tensor, i: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """No expression of indices has these: they are operators, on indices that int32 holds."""
    return (
        x[(i << 32) >> 32],
        x[(i ^ 3) << 40 >> 40 & 7],
        x[(i & 7) * 1000003 * 1000003 % 9],
        x[(i | 8) * LARGE * LARGE // LARGE % 9],
        x[-(i & 7) * LARGE % 9],
    )


def rows(x: torch.Tensor, i: torch.Tensor) -> tuple[torch.Tensor, ...]:
    table = x[:, None] * x[:5] + 0.5
    return (
        table[(i * LARGE) % 9],
        table.clone()[(i * LARGE) % 9, (i[:, None] * LARGE) % 5],
        table.t()[:, (i * LARGE) % 9],
    )


def gathers(x: torch.Tensor, i: torch.Tensor) -> tuple[torch.Tensor, ...]:
    table = (x[:, None] * x).contiguous()
    index = ((i[:, None] + i) * LARGE) % 9
    return table.gather(1, index), table.index_select(1, index[1]).sum(1), table.take(index), table[index].amax(2)


def stores(x: torch.Tensor, i: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Each element goes to another place."""
    place, zeros = (i * (LARGE + 1)) % 9, torch.zeros_like(x)
    written = x.clone()
    written[place] = 2 * x
    return zeros.scatter(0, place, x), zeros.index_add(0, (i * LARGE) % 9, x), zeros.index_copy(0, place, x), written


OF_ANY_INDICES = [
    remainders,
    remainders_of_what_int32_has_not,
    shifts_and_bits,
    smaller_ones,
    products_with_sizes,
    rows,
    gathers,
    stores,
]


@pytest.mark.parametrize("fn", [*OF_ANY_INDICES, remainders_of_powers])
@pytest.mark.parametrize("dynamic", [False, True])
def test_addresses_of_indices(fn: Callable[..., tuple[torch.Tensor, ...]], dynamic: bool) -> None:
    check(lambda x: fn(x, torch.arange(x.shape[0], device=x.device)), torch.arange(9) + 1.0, dynamic=dynamic)


@pytest.mark.parametrize("fn", OF_ANY_INDICES)
def test_addresses_of_loaded_indices(fn: Callable[..., tuple[torch.Tensor, ...]]) -> None:
    check(fn, torch.arange(9) + 1.0, torch.randperm(9))


def test_addresses_of_an_index_of_an_index() -> None:
    def fn(x: torch.Tensor, i: torch.Tensor) -> tuple[torch.Tensor, ...]:
        large = torch.arange(9, device=x.device) * LARGE
        return large[i], x[large[i] % 9], x[large[i].clamp(max=8)]

    check(fn, torch.arange(9) + 1.0, torch.randperm(9))


@pytest.mark.parametrize("dynamic", [False, True])
def test_an_index_of_what_would_have_more_elements_than_int32_counts(dynamic: bool) -> None:
    """The sum has 2^34 elements, and is never made."""
    n = 2**17
    x, y = torch.arange(n).float(), torch.arange(n) % 7
    index = torch.tensor([0, 5, n - 1, n, 2**31 - 1, 2**31, 2**33 + 3 * n + 1, 2**34 - 1])
    compiled = torch.compile(lambda x, y, i: (x[:, None] + y).reshape(-1)[i], dynamic=dynamic)
    actual = compiled(x.npu(), y.npu(), index.npu())
    torch.testing.assert_close(actual.cpu(), x[index // n] + y[index % n])


def test_an_index_beyond_a_range_of_numbers_that_int32_counts() -> None:
    index = torch.tensor([3, -1, 2**33 + 1])
    actual = torch.compile(lambda i: torch.arange(10**12, device=i.device)[i])(index.npu())
    assert actual.tolist() == [3, 10**12 - 1, 2**33 + 1]


@pytest.mark.parametrize("dynamic", [False, True])
def test_conditions_on_products_with_sizes(dynamic: bool) -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        i, size = torch.arange(x.shape[0], device=x.device), x.shape[0] * LARGE
        return torch.where(i < size - 9 * LARGE + 4, x, -x), torch.where(
            (i * LARGE) % (size - LARGE) < 2 * LARGE, x, -x
        )

    check(fn, torch.arange(9) + 1.0, dynamic=dynamic)


@pytest.mark.failing_kernel
def test_an_index_out_of_bounds_that_is_within_them_in_32_bits() -> None:
    compiled = torch.compile(lambda x: (x[torch.arange(x.shape[0], device=x.device) * 2**32] + 1).cpu())
    with pytest.raises(RuntimeError, match="index out of bounds"):
        compiled(torch.zeros(9, device="npu"))
