"""Concatenations and parts of them that are written in place: who takes the other reads what it was."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch._inductor.virtualized import V
from torch._subclasses import FakeTensorMode
from torch.func import functionalize
from torch.fx.experimental.proxy_tensor import make_fx

from inductor_npu.lowering.graph_passes.required import written_concatenations
from tests.compile.helpers import check

ROWS, PLACE = torch.arange(12.0).reshape(3, 4), torch.tensor([2])
Pair = tuple[torch.Tensor, torch.Tensor]


def written(x: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
    return x.index_put((place,), x.new_ones(()))


def whole_after_a_part_is_taken(x: torch.Tensor, place: torch.Tensor) -> Pair:
    y = x + x
    taken = y.flip(0).repeat(2, 1)
    return written(torch.cat([y, x]), place), taken


def whole_before_a_part_is_taken(x: torch.Tensor, place: torch.Tensor) -> Pair:
    y = x + x
    changed = written(torch.cat([y, x]), place)
    return changed, y * changed.sum()


def whole_seen_otherwise(x: torch.Tensor, place: torch.Tensor) -> Pair:
    y = x + x
    return written(torch.cat([y, x]).view(2, -1, 4), place // 2), y.flip(0)


def part(x: torch.Tensor, place: torch.Tensor) -> Pair:
    y = x + x
    whole = torch.cat([y, x])
    return whole, written(y, place)


def part_seen_otherwise(x: torch.Tensor, place: torch.Tensor) -> Pair:
    y = x + x
    return torch.cat([y.view(-1, 2, 2), x.view(-1, 2, 2)]), written(y, place)


def part_of_two(x: torch.Tensor, place: torch.Tensor) -> Pair:
    y = x + x
    return written(torch.cat([y, x]), place), torch.cat([x, y, y])


PROGRAMS = (
    whole_after_a_part_is_taken,
    whole_before_a_part_is_taken,
    whole_seen_otherwise,
    part,
    part_seen_otherwise,
    part_of_two,
)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@pytest.mark.parametrize("dynamic", [False, True])
def test_what_is_written_in_place_is_not_what_others_read(program: Callable[..., Pair], dynamic: bool) -> None:
    check(program, ROWS, PLACE, dynamic=dynamic)
    check(program, torch.randn(400, 4), PLACE, dynamic=dynamic)  # more rows than one may look through


def alone(x: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
    return written(torch.cat([x + x, x]), place)


def read(x: torch.Tensor, place: torch.Tensor) -> Pair:
    y = x + x
    return torch.cat([y, x]), y[place]


def values(x: torch.Tensor, place: torch.Tensor) -> Pair:
    y = x + x
    return x.index_put((place,), torch.cat([y[:1], x[:0]])), y


@pytest.mark.parametrize(
    ("program", "copied"),
    [*((program, 1) for program in PROGRAMS), (alone, 0), (read, 0), (values, 0)],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_parts_are_copied_only_where_one_is_written_and_the_other_read(
    program: Callable[..., Pair], copied: int
) -> None:
    mode = FakeTensorMode()
    operands = [mode.from_tensor(operand.to("npu")) for operand in (ROWS, PLACE)]
    graph = make_fx(functionalize(program))(*operands).graph
    with V.set_fake_mode(mode):
        assert written_concatenations.apply(graph) == copied
