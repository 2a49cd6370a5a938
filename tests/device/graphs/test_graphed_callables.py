"""torch.npu.make_graphed_callables: modules and functions whose passes replay."""

from __future__ import annotations

import copy

import pytest
import torch


def block(seed: int = 0) -> torch.nn.Module:
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 8))


def batch(seed: int) -> torch.Tensor:
    return torch.randn(4, 8, generator=torch.Generator().manual_seed(seed))


def train(models: list[torch.nn.Module], device: str, steps: int = 4) -> list[float]:
    parameters = [parameter for model in models for parameter in model.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=1e-2)
    losses = []
    for step in range(steps):
        value = batch(step).to(device)
        for model in models:
            value = model(value)
        loss = value.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_a_module_trains_as_without():
    model = block()
    expected = train([copy.deepcopy(model)], "cpu")
    graphed = torch.npu.make_graphed_callables(model.npu(), (batch(0).npu(),))
    assert graphed is model
    assert train([graphed], "npu") == pytest.approx(expected, rel=1e-4)


def test_several_modules_share_a_pool():
    models = [block(1), block(2)]
    expected = train([copy.deepcopy(model) for model in models], "cpu")
    samples = ((batch(0).npu(),), (batch(0).npu().requires_grad_(),))
    graphed = torch.npu.make_graphed_callables(tuple(model.npu() for model in models), samples)
    assert train(list(graphed), "npu") == pytest.approx(expected, rel=1e-4)


def test_a_function_and_its_trees():
    def function(x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"sum": x + y, "product": x * y}

    samples = (torch.zeros(3, device="npu", requires_grad=True), torch.ones(3, device="npu", requires_grad=True))
    graphed = torch.npu.make_graphed_callables(function, samples)
    x = torch.tensor([1.0, 2, 3], device="npu", requires_grad=True)
    y = torch.tensor([4.0, 5, 6], device="npu", requires_grad=True)
    result = graphed(x, y)
    assert result["sum"].tolist() == [5, 7, 9] and result["product"].tolist() == [4, 10, 18]
    result["product"].sum().backward()
    assert x.grad.tolist() == [4, 5, 6] and y.grad.tolist() == [1, 2, 3]


def test_the_other_mode_runs_as_before():
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.5)).npu()
    graphed = torch.npu.make_graphed_callables(model, (batch(0).npu(),))
    graphed.eval()
    x = batch(1).npu()
    torch.testing.assert_close(graphed(x), model[0](x))


class TestRefusals:
    def test_hooks(self):
        model = block().npu()
        model.register_forward_hook(lambda *_: None)
        with pytest.raises(ValueError, match="has hooks"):
            torch.npu.make_graphed_callables(model, (batch(0).npu(),))

    def test_arguments_that_are_no_tensors(self):
        with pytest.raises(ValueError, match="tensors only"):
            torch.npu.make_graphed_callables(lambda x, n: x * n, (batch(0).npu(), 2))

    def test_unused_inputs(self):
        samples = tuple(batch(seed).npu().requires_grad_() for seed in (0, 1))
        with pytest.raises(RuntimeError, match="not have been used"):
            torch.npu.make_graphed_callables(lambda x, y: x * 2, samples)
        graphed = torch.npu.make_graphed_callables(lambda x, y: x * 2, samples, allow_unused_input=True)
        assert torch.equal(graphed(*samples).cpu(), samples[0].cpu() * 2)

    def test_autocast_with_a_cache(self):
        with torch.autocast("npu"), pytest.raises(RuntimeError, match="cache_enabled=False"):
            torch.npu.make_graphed_callables(block().npu(), (batch(0).npu(),))
