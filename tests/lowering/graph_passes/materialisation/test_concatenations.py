"""Concatenations of numbers that others take, too: computed where they are read."""

from __future__ import annotations

import torch

import inductor_npu.config as config
from tests.compile.helpers import check
from tests.lowering.graph_passes.calls import KERNEL, calls
from tests.torch_features import needs_torch

ROWS = torch.randn(2, 17)


def sequences(rows: torch.Tensor) -> torch.Tensor:
    """The sequence that each token belongs to, by its position: as transformers finds packed ones."""
    positions = torch.arange(rows.shape[1], device=rows.device).expand(rows.shape[0], -1)
    return (torch.diff(positions, prepend=positions[:, :1] - 1, dim=-1) != 1).cumsum(-1)


def from_a_number(rows: torch.Tensor, first: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    positions = torch.arange(rows.shape[1], device=rows.device) + first
    return torch.cat([positions[:1] - 1, positions]) * 2, positions * 3


def test_positions_and_their_differences_are_one_kernel() -> None:
    assert calls(sequences, ROWS) == {KERNEL: 1}


@needs_torch("2.13", "computes the parts of a concatenation where it is read, whoever else takes them")
def test_switched_off_each_part_is_a_kernel() -> None:
    with config.patch(graph_passes="none"):
        assert calls(sequences, ROWS) == {KERNEL: 3}


def test_positions_may_begin_with_a_number_in_memory() -> None:
    assert calls(from_a_number, ROWS, torch.tensor(5)) == {KERNEL: 2}


def test_what_is_read_from_memory_is_computed_once() -> None:
    """Rows that are in memory are no numbers: they are stored for both that take them."""

    def shared(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.exp(x)
        return torch.cat([y[:, :1], y], 1), y

    with config.patch(graph_passes="none"):
        expected = calls(shared, ROWS)
    assert calls(shared, ROWS) == expected


def test_any_length_with_one_compile() -> None:
    compiled = torch.compile(sequences, dynamic=True, fullgraph=True)
    torch._dynamo.utils.counters.clear()
    for length in (5, 17, 70):
        check(sequences, torch.randn(3, length), compiled=compiled)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
