"""Arguments that are copied to one another get the values that they had before the graph."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.compile.helpers import check


def swapped(a: torch.Tensor, b: torch.Tensor, _: torch.Tensor) -> None:
    old = a.clone()
    a.copy_(b)
    b.copy_(old)


def rotated(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:
    old = a.clone()
    a.copy_(b)
    b.copy_(c)
    c.copy_(old)


def turned(a: torch.Tensor, b: torch.Tensor, _: torch.Tensor) -> None:
    old = a.t().clone()
    a.copy_(b)
    b.copy_(old)


def as_bits(a: torch.Tensor, b: torch.Tensor, _: torch.Tensor) -> None:
    old = a.view(torch.int32).clone()
    a.copy_(b)
    b.view(torch.int32).copy_(old)


def rows(a: torch.Tensor, b: torch.Tensor, _: torch.Tensor) -> None:
    old = a[:1].clone()
    a[:1].copy_(b[1:])
    b[1:].copy_(old)


def doubled(a: torch.Tensor, b: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
    old = a * 2
    a.copy_(b)
    b.copy_(old)
    return old + 1


@pytest.mark.parametrize("function", [swapped, rotated, turned, as_bits, rows, doubled])
def test_a_source_is_read_before_it_is_overwritten(function: Callable[..., torch.Tensor | None]) -> None:
    check(function, *(torch.randn(2, 2) for _ in range(3)))
