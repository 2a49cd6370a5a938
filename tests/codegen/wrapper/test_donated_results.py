"""What is saved for a backward graph is a copy only where it shares memory and AOTAutograd overlooks it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch._functorch import config as functorch_config
from torch.nn import functional as F

from tests.compile.helpers import assert_equal, code_of

Results = tuple[torch.Tensor, torch.Tensor]


def product_of_one(x: torch.Tensor) -> Results:
    product = torch.bmm(x, x.transpose(1, 2))  # rewritten as a product of matrices
    return F.group_norm(product, 1), product.squeeze()


def products(x: torch.Tensor) -> Results:
    product = torch.bmm(x.expand(2, 3, 3), x.transpose(1, 2).expand(2, 3, 3))
    return F.group_norm(product, 1), product.flatten()


def random_numbers(x: torch.Tensor) -> Results:
    noise = torch.rand_like(x)  # rewritten as Inductor's own random numbers
    return (x * noise).sin() * noise, noise.view(-1)


def equal_values(x: torch.Tensor) -> Results:
    median = x.flatten().median(0)[0].clamp(-8, 8)  # one operator computes both medians
    return (torch.full_like(x, 0) + median).clamp(-8, 8), x.flatten().median(0)[0]


def argument(x: torch.Tensor) -> Results:
    return F.group_norm(torch.bmm(x, x), 1), x + 1  # a view of the argument is saved, which has its storage no more


def saved_alone(x: torch.Tensor) -> Results:
    return x.sin().sum(1).exp(), x + 1


def columns_of_one_product(x: torch.Tensor) -> Results:
    queries, keys, values = (x[0] @ x[0].repeat(1, 3)).view(1, 1, 3, 9).chunk(3, 3)
    return F.scaled_dot_product_attention(queries, keys, values), x + 1


CASES = [
    (product_of_one, True, 1),
    (product_of_one, False, 0),
    (products, True, 0),
    (random_numbers, True, 1),
    (equal_values, True, 1),
    (argument, True, 1),
    (saved_alone, True, 0),
    (columns_of_one_product, True, 0),
]


def copies(function: Callable[[torch.Tensor], Results], x: torch.Tensor) -> int:
    """How many copies the forward graph of `function` returns."""
    (forward, *_) = code_of(function, x, fullgraph=True)
    return forward.count("clone_preserve_strides(")


@pytest.mark.parametrize(("function", "donated", "copied"), CASES)
def test_a_copy_is_saved_where_a_result_would_be_overwritten(
    function: Callable[[torch.Tensor], Results], donated: bool, copied: int
) -> None:
    x = torch.randn(1, 3, 3, device="npu", requires_grad=True)
    with functorch_config.patch(donated_buffer=donated):
        assert copies(function, x) == copied
        result, kept = torch.compile(function, fullgraph=True)(x)
    before = [tensor.detach().cpu() for tensor in (kept, x)]
    result.sum().backward()
    assert_equal([kept.detach(), x.detach()], before)


def test_a_graph_is_kept_for_functions_that_donate_as_it_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    x = torch.randn(1, 3, 3, device="npu", requires_grad=True)
    with torch._inductor.config.patch(force_disable_caches=False, fx_graph_cache=True):
        for donated in (False, True, True):
            with functorch_config.patch(donated_buffer=donated, enable_autograd_cache=False):
                torch._dynamo.reset()
                result, kept = torch.compile(product_of_one, fullgraph=True)(x)
                before = kept.detach().clone()
                result.sum().backward()
                assert_equal(kept.detach(), before.cpu())
