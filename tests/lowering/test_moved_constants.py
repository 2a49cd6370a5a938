"""Tensors made of no memory that move to another device: uninitialised ones, and views of computed ones."""

from __future__ import annotations

import pytest
import torch

from tests.compile.helpers import to_npu


def _described(tensors: tuple[torch.Tensor, ...]) -> list[tuple[torch.Size, tuple[int, ...], torch.dtype]]:
    return [(tensor.shape, tensor.stride(), tensor.dtype) for tensor in tensors]


def _moved(x: torch.Tensor, there: torch.device) -> tuple[torch.Tensor, ...]:
    here = x.device
    return (
        torch.empty(8, 64, 128, device=here).to(there),
        torch.empty((3, 5), dtype=torch.bfloat16, device=here).to(there, torch.float32),
        torch.empty_like(x, dtype=torch.int8).to(there),
        x.new_empty(2, 3).to(there),
        x.new_empty((4, 3), dtype=torch.bool).to(there)[1:],
        torch.empty_strided((3, 4), (1, 3), device=here).to(there),
        torch.empty(4, 6, device=here).t().to(there),
        torch.empty(4, 6, device=here)[:, ::2].to(there).contiguous(),
        torch.empty((), device=here).to(there),
        torch.empty(0, 7, device=here).to(there),
        torch.empty(x.shape[0] * 2, 3, device=here).to(there),
    )


@pytest.mark.slow  # compiles C++
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize(("here", "there"), [("cpu", "npu"), ("npu", "cpu")])
def test_what_is_moved_has_the_shape_that_it_has_in_eager(here: str, there: str, dynamic: bool) -> None:
    x = torch.randn(5, 7).to(here)
    moved = torch.compile(_moved, fullgraph=True, dynamic=dynamic)(x, torch.device(there))
    assert _described(moved) == _described(_moved(x, torch.device(there)))
    assert all(tensor.device.type == there for tensor in moved)


def test_what_is_written_before_and_after_the_move_is_there() -> None:
    def fn(x: torch.Tensor, there: torch.device) -> tuple[torch.Tensor, ...]:
        before, after = torch.empty(5, 7), torch.empty(5, 7).to(there)
        before.copy_(x).add_(1)
        after.fill_(2)
        rows = torch.empty(5, 7).to(there)
        rows[1:].copy_(x[1:])
        rows[0] = 3
        return before.to(there), after * 2, rows, x.copy_(torch.empty(5, 7).zero_())

    x = torch.randn(5, 7)
    expected = fn(x.clone(), torch.device("cpu"))
    results = torch.compile(fn, fullgraph=True)(to_npu(x), torch.device("npu"))
    for result, wanted in zip(results, expected, strict=True):
        torch.testing.assert_close(result.cpu(), wanted)


def test_views_of_what_is_computed_of_nothing_are_moved() -> None:
    def fn(there: torch.device) -> tuple[torch.Tensor, ...]:
        numbers = torch.arange(24.0)
        overlapping = torch.as_strided(numbers, (4, 5), (3, 2))
        return (
            overlapping.to(there),
            overlapping.t().to(there) * 2,
            torch.as_strided(torch.full((6,), 2.0), (2, 3), (1, 2)).to(there),
            torch.zeros(4, 6).t().to(there) + numbers.view(6, 4).to(there),
            torch.eye(3).as_strided((3,), (4,)).to(there),
            numbers.view(torch.int32).to(there),
        )

    results = torch.compile(fn, fullgraph=True)(torch.device("npu"))
    for result, wanted in zip(results, fn(torch.device("cpu")), strict=True):
        torch.testing.assert_close(result.cpu(), wanted)
