"""`index_put` into a tensor whose own elements it reads writes to a copy; others write in place."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch._inductor.virtualized import V
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from inductor_npu.lowering.graph_passes.required import overlapping_writes

Function = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def itself(x: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    rows = x[order]
    return rows.index_put((order,), rows)


def a_view_of_itself(x: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    rows = x[order]
    return rows.index_put((order[:10],), rows[10:].view(10, 3), accumulate=True)


def its_own_indices(_: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    places = order + 1
    return torch.ops.aten._unsafe_index_put(places, [places], order)


def a_function_of_itself(x: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    rows = x[order]
    return rows.index_put((order,), rows + 1)


def other_rows(x: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    return x[order].index_put((order[:10],), x[10:])


@pytest.mark.parametrize(
    ("function", "copied"),
    [(itself, 1), (a_view_of_itself, 1), (its_own_indices, 1), (a_function_of_itself, 0), (other_rows, 0)],
)
@pytest.mark.parametrize("device", ["npu", "cpu"])
def test_what_is_written_is_a_copy_where_it_is_read_meanwhile(function: Function, copied: int, device: str) -> None:
    with FakeTensorMode() as mode:
        x, order = torch.empty(20, 3, device=device), torch.empty(20, dtype=torch.int64, device=device)
        graph = make_fx(function)(x, order).graph
    with V.set_fake_mode(mode):
        assert overlapping_writes.apply(graph) == (copied if device == "npu" else 0)
    graph.lint()
