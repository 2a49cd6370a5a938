"""Tensors with rows of more than 1024 elements, which Inductor pads: views of them read what they view."""

from __future__ import annotations

import torch

from tests.compile.helpers import check


def test_windows_of_a_product_with_long_rows_of_odd_length() -> None:
    """As Swin's attention: scores of 49 x 49 elements for each window and head, of heads that lie apart in memory."""

    def f(query: torch.Tensor, key: torch.Tensor, bias: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        heads = [each.view(18, 49, 3, 32).transpose(1, 2) for each in (query, key)]
        scores = torch.matmul(heads[0], heads[1].transpose(-1, -2)) / 32**0.5 + bias[None]
        scores = scores.view(2, 9, 3, 49, 49) + mask[None, :, None]
        return scores.view(18, 3, 49, 49).softmax(-1)

    check(f, *map(torch.randn, [(18, 49, 96), (18, 49, 96), (3, 49, 49), (9, 49, 49)]))
