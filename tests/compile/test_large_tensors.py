"""Tensors of which int32 does not count all elements; most of their memory is never touched."""

from __future__ import annotations

import pytest
import torch

SIZE = 2**31 + 64


def large() -> torch.Tensor:
    return torch.empty(SIZE, dtype=torch.int8, device="npu")


def test_elements_that_lie_far_apart() -> None:
    x = large()[:: SIZE - 1]
    x.copy_(torch.tensor([3, 5]))
    assert torch.compile(lambda x: x + 1)(x).tolist() == [4, 6]
    torch.compile(lambda x: x.mul_(2))(x)
    assert x.tolist() == [6, 10]


def test_loaded_indices() -> None:
    x, index = large(), torch.tensor([0, SIZE - 1, 2**31, -2])
    for place, value in zip(index.tolist(), (1, 2, 3, 4), strict=True):
        x[place] = value
    assert torch.compile(lambda x, i: x[i] + 1)(x, index.npu()).tolist() == [2, 3, 4, 5]


def test_positions_in_rows_that_lie_far_apart() -> None:
    x = large().as_strided((3, 50), (2**30, 1))
    x.copy_(torch.arange(150).reshape(3, 50) * 37 % 50)
    highest, lowest = torch.compile(lambda x: (x.argmax(1), x.argmin(1)))(x)
    assert (highest.tolist(), lowest.tolist()) == (x.cpu().argmax(1).tolist(), x.cpu().argmin(1).tolist())


def test_positions_that_int32_does_not_count_are_refused() -> None:
    with pytest.raises(Exception, match="does not compile for npu"):
        torch.compile(lambda x: x.argmax())(large())
