"""`python -m benchmarks.left_to_eager`: operators that compiled graphs leave to eager, and forms of them that compile.

A form that is faster than the operator belongs into a lowering; for the others docs/operators.md gives these numbers
as the reason. Both sides run in turns, on the provider's device; values are compared first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.table import Table

from benchmarks.timing import median_seconds

Tensor = torch.Tensor
_ROUNDS = 15
_SECONDS = 0.5  # of each side


@dataclass(frozen=True)
class Case:
    """An operator in eager and a `form` of it in other operators, which is compiled; both take `inputs`."""

    name: str
    operator: Callable[..., Any]
    form: Callable[..., Any]
    inputs: tuple[Tensor, ...]


def _topk(x: Tensor) -> list[Tensor]:
    values, places = torch.sort(x, descending=True, stable=True)
    return [values[:, :8], places[:, :8]]


def _histogram(x: Tensor) -> Tensor:
    """Of numbers from 0 to 1: each bin counts what lies in it."""
    bins = (x * 64).to(torch.int32).clamp(0, 63)
    return torch.zeros(64, device=x.device).index_put((bins,), torch.ones_like(x), accumulate=True)


def _histogram_by_comparing(x: Tensor) -> Tensor:
    bins = (x * 64).to(torch.int32).clamp(0, 63)
    return (bins[:, None] == torch.arange(64, device=x.device)).sum(0).float()


def _bags(weight: Tensor, tokens: Tensor, offsets: Tensor) -> Tensor:
    """Sums of rows: each row goes to the bag whose tokens have begun last."""
    begun = torch.zeros_like(tokens).index_put((offsets,), torch.ones_like(offsets), accumulate=True)
    bag = begun.cumsum(0) - 1
    return torch.zeros(len(offsets), weight.shape[1], device=weight.device).index_add(0, bag, weight[tokens])


def _bags_of_one_length(weight: Tensor, tokens: Tensor, offsets: Tensor) -> Tensor:
    """Where all bags have the same length, which only the program knows."""
    return weight[tokens].reshape(len(offsets), -1, weight.shape[1]).sum(1)


def _pool(x: Tensor) -> Tensor:
    rows = F.avg_pool2d(x.flatten(1, 2), 3, 2, 1)
    return F.avg_pool2d(rows.unflatten(1, x.shape[1:3]).flatten(3), (3, 1), (2, 1), (1, 0)).unflatten(3, rows.shape[2:])


def _lstm(x: Tensor, h: Tensor, c: Tensor, w: Tensor, u: Tensor, b: Tensor, d: Tensor) -> Tensor:
    gates = x @ w.t() + b + d
    states = []
    for step in range(x.shape[0]):
        i, f, g, o = (gates[step] + h @ u.t()).chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        states.append(h)
    return torch.stack(states)


def _lstm_operator(x: Tensor, h: Tensor, c: Tensor, *weights: Tensor) -> Tensor:
    return torch.lstm(x, (h[None], c[None]), weights, True, 1, 0.0, False, False, False)[0]


def cases() -> list[Case]:
    """All of them, with inputs on the CPU."""
    tokens, offsets = torch.randint(0, 10_000, (8192,)), torch.arange(0, 8192, 16)
    shapes = [(16, 32, 64), (32, 64), (32, 64), (256, 64), (256, 64), (256,), (256,)]
    lstm = tuple(torch.randn(shape) / 8 for shape in shapes)
    bags = (torch.randn(10_000, 64), tokens, offsets)

    def sums(weight: Tensor, tokens: Tensor, offsets: Tensor) -> Tensor:
        return F.embedding_bag(tokens, weight, offsets, mode="sum")

    def topk(x: Tensor) -> list[Tensor]:
        return list(torch.topk(x, 8))

    def histogram(x: Tensor) -> Tensor:
        return torch.histc(x, 64, 0, 1)

    def pool(x: Tensor) -> Tensor:
        return F.avg_pool3d(x, 3, 2, 1)

    return [
        Case("topk of 8 in rows of 256, by a sort", topk, _topk, (torch.rand(4096, 256),)),
        Case("topk of 8 in rows of 50,257, by a sort", topk, _topk, (torch.rand(8, 50_257),)),
        Case("histc of 64 bins, by index_put", histogram, _histogram, (torch.rand(1 << 18),)),
        Case("histc of 64 bins, by comparing", histogram, _histogram_by_comparing, (torch.rand(1 << 16),)),
        Case("embedding_bag, by index_add", sums, _bags, bags),
        Case("embedding_bag of bags alike, by a sum", sums, _bags_of_one_length, bags),
        Case("avg_pool3d(3, 2, 1), axis by axis", pool, _pool, (torch.randn(2, 8, 16, 28, 28),)),
        Case("lstm, 16 steps of 32 x 64, unrolled", _lstm_operator, _lstm, lstm),
    ]


def main() -> None:
    """Prints the ratio of each case: above 1 the compiled form is faster than the operator."""
    table = Table("Operator, and its form", "Operator, us", "Form, us", "Ratio")
    for case in cases():
        on_npu = [each.npu() for each in case.inputs]
        compiled = torch.compile(case.form)
        torch.testing.assert_close(compiled(*on_npu), case.operator(*on_npu), rtol=1e-3, atol=1e-3)
        sides = {
            "operator": (lambda of=case.operator, on=on_npu: of(*on), "npu"),
            "form": (lambda of=compiled, on=on_npu: of(*on), "npu"),
        }
        took = median_seconds(sides, _ROUNDS, _SECONDS)
        operator, form = (1e6 * took[side] for side in ("operator", "form"))
        table.add_row(case.name, f"{operator:.0f}", f"{form:.0f}", f"{operator / form:.2f}")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
