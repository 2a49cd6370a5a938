"""Threads that call compiled functions on one stream, each with the right values: what each of them frees, queues and
allocates meets what the others do. tests/device/test_threads.py has the cases one by one.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import pytest
import torch

from tests.threads import run_threads

SHAPES = [(rows, columns) for rows in (2, 3, 5) for columns in (4, 6)]


def function(number: int) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """One of several functions that share no code, and hence no compiled graph."""
    scope: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {}
    exec(f"def mixed(x, w):\n    return ((x @ w) * 0.{number + 2}).softmax(-1).cumsum(0) * w.sum(0)", scope)
    return scope["mixed"]


class Case:
    """A call of a function with its gradients, on the CPU in eager and with tensors of npu."""

    def __init__(self, mixed: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], shape: tuple[int, int]) -> None:
        made = torch.Generator().manual_seed(shape[0] * 10 + shape[1])
        x, w = torch.randn(shape, generator=made), torch.randn(shape[1], 3, generator=made)
        self.expected = self.run(mixed, x.requires_grad_(), w.requires_grad_())
        self.arguments = [value.detach().npu().requires_grad_() for value in (x, w)]

    @staticmethod
    def run(mixed: Callable[..., torch.Tensor], *arguments: torch.Tensor) -> list[torch.Tensor]:
        result = mixed(*arguments)
        return [value.detach().cpu() for value in (result, *torch.autograd.grad(result.square().sum(), arguments))]

    def check(self, compiled: Callable[..., torch.Tensor]) -> None:
        torch.testing.assert_close(self.run(compiled, *self.arguments), self.expected, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_first_calls_at_once():
    mixed = function(2)
    compiled = torch.compile(mixed)
    run_threads(8, lambda index: Case(mixed, SHAPES[index % 2]).check(compiled))


@pytest.mark.slow
def test_eight_threads_forward_and_backward():
    """In one compiled function, in others, and in eager, all on the default stream."""
    functions = [function(number) for number in range(2)]
    called = [*(torch.compile(mixed, dynamic=False) for mixed in functions), functions[0]]
    cases = [[Case(mixed, shape) for shape in SHAPES] for mixed in (*functions, functions[0])]
    for compiled, of_function in zip(called, cases):
        for case in of_function:
            case.check(compiled)
    until = time.monotonic() + 10

    def work(index: int) -> None:
        choose = random.Random(index)
        while time.monotonic() < until:
            which = choose.randrange(len(called))
            choose.choice(cases[which]).check(called[which])

    run_threads(8, work)
