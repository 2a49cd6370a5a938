"""Tensors with rows of more than 1024 elements, which Inductor may pad: views of them read what they view."""

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


def test_gradients_of_windows_that_are_normalised_first() -> None:
    """What the backward pass stores of the scores is laid out where no operator of the graph is being lowered."""

    def f(
        x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, mask: torch.Tensor, value: torch.Tensor
    ) -> torch.Tensor:
        x = torch.nn.functional.layer_norm(x, x.shape[-1:])
        query, key = (x @ (weight / 5)).view(8, 49, 2, 3, 8).permute(2, 0, 3, 1, 4)
        scores = query @ key.transpose(-2, -1) + bias
        scores = (scores.view(2, 4, 3, 49, 49) + mask[:, None]).view(8, 3, 49, 49)
        return scores.softmax(-1) @ value

    mask = torch.randn(4, 49, 49)
    x, weight, bias, value = (
        torch.randn(size, requires_grad=True) for size in ((8, 49, 24), (24, 48), (3, 49, 49), (8, 3, 49, 5))
    )
    check(f, x, weight, bias, mask, value, backward=True)
