"""What is saved for a backward graph is a copy only where a result lies in its memory and AOTAutograd overlooks it.

That no result is overwritten is tested in tests/programs/test_aliases_and_mutation.py.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch._functorch import config as functorch_config

from inductor_npu.lowering.graph_passes import passes
from inductor_npu.lowering.graph_passes.required import donated_results

Function = Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]


def product_of_one(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    product = torch.bmm(x, x.transpose(1, 2))  # rewritten as a product of matrices
    return torch.nn.functional.group_norm(product, 1), product.squeeze()


def products(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    product = torch.bmm(x.expand(2, 3, 3), x.transpose(1, 2).expand(2, 3, 3))
    return torch.nn.functional.group_norm(product, 1), product.flatten()


def saved_alone(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.nn.functional.group_norm(torch.bmm(x, x), 1), x + 1


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many tensors were saved as copies, for each graph."""
    counts: list[int] = []

    def counted(graph: torch.fx.Graph) -> int:
        counts.append(donated_results.apply(graph))
        return counts[-1]

    reason = "as the pass, and counts"
    counting = passes.GraphPass("donated_results", reason, counted, optional=False)
    changed = [counting if each.name == counting.name else each for each in passes.PASSES]
    monkeypatch.setattr(passes, "PASSES", tuple(changed))
    return counts


@pytest.mark.parametrize(
    ("function", "donated", "copied"),
    [(product_of_one, True, 1), (product_of_one, False, 0), (products, True, 0), (saved_alone, True, 0)],
)
def test_a_copy_is_saved_where_a_result_would_be_overwritten(
    copies: list[int], function: Function, donated: bool, copied: int
) -> None:
    x = torch.randn(1, 3, 3, device="npu", requires_grad=True)
    with functorch_config.patch(donated_buffer=donated):
        torch.compile(function, fullgraph=True)(x)[0].sum().backward()
    assert copies == [copied, 0], "a forward graph and a backward graph"


def test_a_graph_is_kept_for_functions_that_donate_as_it_does(
    copies: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    with torch._inductor.config.patch(force_disable_caches=False, fx_graph_cache=True):
        for donated in (False, True, True):
            torch._dynamo.reset()
            with functorch_config.patch(donated_buffer=donated, enable_autograd_cache=False):
                torch.compile(product_of_one, fullgraph=True)(torch.randn(1, 3, 3, device="npu", requires_grad=True))
    assert copies == [0, 1]
