"""One element of each row, where the row is read whole anyway: found there instead of loaded by its index."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from inductor_npu.lowering.graph_passes.indexing.short_gathers import longest_row
from tests.compile.helpers import check
from tests.lowering.graph_passes.calls import KERNEL, calls


def label_score(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return scores.log_softmax(-1).gather(-1, labels[..., None])


def label_column(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return scores.softmax(0).gather(0, labels[None])


def labels_of(scores: torch.Tensor, dim: int = -1) -> torch.Tensor:
    shape = list(scores.shape)
    length = shape.pop(dim)
    return torch.randint(0, length, shape)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_the_labels_score_is_one_kernel_with_its_softmax(dtype: torch.dtype) -> None:
    scores = torch.randn(12, 100, dtype=dtype)
    assert calls(label_score, scores, labels_of(scores)) == {KERNEL: 1}


def test_rows_along_an_outer_axis() -> None:
    scores = torch.randn(7, 33)
    check(label_column, scores, labels_of(scores, 0))


@pytest.mark.parametrize(
    "settings", [{}, {"ignore_index": 3}, {"label_smoothing": 0.1}, {"reduction": "none"}], ids=str
)
def test_cross_entropy_forward_and_backward(settings: dict[str, Any]) -> None:
    scores, labels = torch.randn(13, 10, requires_grad=True), torch.arange(13) % 10
    check(lambda scores: F.cross_entropy(scores * 2, labels.to(scores.device), **settings), scores, backward=True)


def test_what_is_taken_may_be_any_number() -> None:
    def taken(x: torch.Tensor, index: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.gather(1, index), x.nan_to_num(0).amax(1), x.amax(1)

    x = torch.randn(4, 9)
    x[0, 1], x[1, 2], x[2, 3], x[3, 4] = float("-inf"), float("nan"), -0.0, float("inf")
    result, *_ = check(taken, x, torch.tensor([[1], [2], [3], [4]]))
    assert result[2].signbit()


def test_a_row_that_is_not_read_whole_keeps_its_load() -> None:
    x = torch.randn(12, 100)
    check(lambda x, index: x.gather(1, index) * 2, x, labels_of(x)[:, None])


def test_longer_rows_keep_their_load() -> None:
    scores = torch.randn(2, longest_row() + 1)
    check(label_score, scores, labels_of(scores))


def test_an_index_beyond_the_row_is_an_error() -> None:
    with pytest.raises(Exception, match="index out of bounds"):
        torch.compile(label_score)(torch.randn(4, 10, device="npu"), torch.full((4,), 10, device="npu")).cpu()
