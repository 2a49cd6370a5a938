"""`nn.LSTMCell` and `nn.GRUCell`: compiled to kernels, with their gradients, and no workspace in inference."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import inductor_npu
from tests.peak_memory import peak_on_npu

STEPS = torch.linspace(-9, 9, 3 * 5 * 8).sin().view(3, 5, 8)


class Steps(nn.Module):
    def __init__(self, cell: nn.Module) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, steps: torch.Tensor) -> torch.Tensor:
        state = None
        for step in steps:
            state = self.cell(step, state)
        return state[0] + 2 * state[1] if isinstance(state, tuple) else state


# PyTorch's own shapes of an LSTMCell on a device ask for biases.
@pytest.mark.parametrize(("cell", "bias"), [(nn.LSTMCell, True), (nn.GRUCell, True), (nn.GRUCell, False)])
def test_values_and_gradients(cell: type[nn.Module], bias: bool) -> None:
    torch.manual_seed(0)
    module = Steps(cell(8, 16, bias=bias))
    ours = copy.deepcopy(module).npu()
    x, y = STEPS.clone().requires_grad_(), STEPS.npu().requires_grad_()
    expected = module(x)
    torch._dynamo.reset()
    with inductor_npu.record_explanation() as recorded:
        actual = torch.compile(ours, fullgraph=True)(y)
        (actual**2).sum().backward()
    (expected**2).sum().backward()
    assert not recorded.explanation.left_to_eager
    pairs = [(actual, expected), (y.grad, x.grad)]
    pairs += [(mine.grad, theirs.grad) for mine, theirs in zip(ours.parameters(), module.parameters(), strict=True)]
    for mine, theirs in pairs:
        torch.testing.assert_close(mine.cpu(), theirs, rtol=1e-5, atol=1e-5)


def test_no_workspace_without_gradients() -> None:
    cell = torch.compile(nn.GRUCell(16, 16).npu())
    x, state = torch.randn(64, 16, device="npu"), torch.randn(64, 16, device="npu")
    with torch.no_grad():
        peak = peak_on_npu(lambda: cell(x, state))
    assert peak <= 1.05 * 4 * 64 * (48 + 48 + 16)
