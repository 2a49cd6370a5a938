"""Captured graphs with the real torch_npu: by hand, and behind mode="reduce-overhead", in inference and training."""

from __future__ import annotations

import copy

import pytest
import torch

from inductor_npu.runtime.graph_capture import statistics
from tests import graph_captures


@pytest.fixture
def counts():
    torch._dynamo.reset()
    graph_captures.forget()
    return graph_captures.counts


def npu(*sizes: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed)).npu()


def test_operators_and_kernels_in_a_graph() -> None:
    compiled = torch.compile(lambda x: (x * 2 + 1).relu().sum(0))
    x = npu(64, 64)
    compiled(x)
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        y = compiled(x) + 1
    for seed in range(3):
        x.copy_(npu(64, 64, seed=seed))
        graph.replay()
        torch.testing.assert_close(y.cpu(), (x.cpu() * 2 + 1).relu().sum(0) + 1)


def test_a_synchronisation_cannot_be_captured() -> None:
    x = npu(16)
    graph = torch.npu.NPUGraph()
    with pytest.raises(RuntimeError), torch.npu.graph(graph):
        x.sum().item()
    assert torch.equal((x + 1).cpu(), x.cpu() + 1)


def test_reduce_overhead_in_inference(counts) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        z = (x * 2 + y).relu()
        return z.sum(0), z.sum(1)

    compiled = torch.compile(function, mode="reduce-overhead")
    y = npu(48, 64, seed=9)
    for seed in range(5):
        x = npu(48, 64, seed=seed)
        results = compiled(x, y)
        for result, expected in zip(results, function(x.cpu(), y.cpu()), strict=True):
            torch.testing.assert_close(result.cpu(), expected)
        del results, result
    assert counts() == (1, 1, 4, 0)


def test_results_that_are_held_are_not_overwritten(counts) -> None:
    compiled = torch.compile(lambda x: x * 2 + 1, mode="reduce-overhead")
    kept = []
    for seed in range(5):
        x = npu(128, seed=seed)
        kept.append((compiled(x), x.cpu() * 2 + 1))
    for result, expected in kept:
        torch.testing.assert_close(result.cpu(), expected)
    assert counts() == (1, 1, 1, 3)
    (seen,) = statistics.graph_captures().values()
    assert list(seen.skipped) == ["results that a replay would overwrite are still held"]


def test_reduce_overhead_in_training(counts) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 1))
    twin = copy.deepcopy(model)
    model.npu()
    compiled = torch.compile(model, mode="reduce-overhead")
    losses: dict[str, list[float]] = {"npu": [], "cpu": []}
    for device, run, parameters in (("npu", compiled, model.parameters()), ("cpu", twin, twin.parameters())):
        optimizer = torch.optim.SGD(parameters, lr=0.1)
        for seed in range(6):
            x = torch.randn(8, 16, generator=torch.Generator().manual_seed(seed)).to(device)
            optimizer.zero_grad()
            loss = run(x).square().mean()
            loss.backward()
            optimizer.step()
            losses[device].append(loss.item())
            del loss
    assert losses["npu"] == pytest.approx(losses["cpu"], rel=1e-4)
    assert counts() == (2, 2, 10, 0)
