"""Forward and backward passes that are captured train as those that are not."""

from __future__ import annotations

import copy

import pytest
import torch

from inductor_npu.runtime.graph_capture.statistics import graph_captures
from tests.torch_features import needs_torch


def make_model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(8, 32), torch.nn.BatchNorm1d(32), torch.nn.GELU(), torch.nn.Linear(32, 4)
    )


def batch(seed: int, rows: int = 16) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, 8, generator=generator), torch.randint(4, (rows,), generator=generator)


def train(model, device, *, steps=6, set_to_none=True, accumulate=1, forwards_first=False):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses, loss = [], None
    for step in range(steps):
        optimizer.zero_grad(set_to_none=set_to_none)
        pending = []
        for part in range(accumulate):
            x, y = batch(step * accumulate + part)
            loss = torch.nn.functional.cross_entropy(model(x.to(device)), y.to(device))
            losses.append(loss)
            pending.append(loss)
            if not forwards_first:
                pending.pop().backward()
        for loss in pending:
            loss.backward()
        optimizer.step()
    return [loss.item() for loss in losses]


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"set_to_none": False},
        {"accumulate": 2},
        {"accumulate": 2, "set_to_none": False},
        {"accumulate": 3, "forwards_first": True},
    ],
    ids=["plain", "gradients are zeroed", "accumulated", "accumulated and zeroed", "all forward passes first"],
)
def test_losses_parameters_and_statistics(options, counts):
    model = make_model()
    twin = copy.deepcopy(model)
    expected = train(twin, "cpu", **options)
    model.npu()
    compiled = torch.compile(model, mode="reduce-overhead")
    assert train(compiled, "npu", **options) == pytest.approx(expected, rel=2e-4)
    for ours, theirs in zip(model.state_dict().values(), twin.state_dict().values(), strict=True):
        torch.testing.assert_close(ours.cpu(), theirs, rtol=1e-3, atol=1e-4)
    warmed, captures, replays, _ = counts()
    assert warmed == 2 and captures >= 2 and replays > 2


@pytest.mark.slow
def test_every_pass_is_captured_once(counts):
    compiled = torch.compile(make_model().npu(), mode="reduce-overhead")
    train(compiled, "npu", steps=8)
    assert counts() == (2, 2, 14, 0)


def private_pools() -> set[tuple[int, int]]:
    return {segment["segment_pool_id"] for segment in torch.npu.memory_snapshot()} - {(0, 0)}


@pytest.mark.slow
def test_forward_and_backward_share_a_pool():
    before = private_pools()  # of graphs that other tests hold
    compiled = torch.compile(make_model().npu(), mode="reduce-overhead")
    train(compiled, "npu", steps=3)
    assert private_pools() and len(private_pools() - before) <= 1


def test_a_captured_optimizer(counts):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.GELU(), torch.nn.Linear(32, 4))
    twin = copy.deepcopy(model)
    ours = torch.optim.AdamW(model.npu().parameters(), capturable=True)
    theirs = torch.optim.AdamW(twin.parameters())
    step = torch.compile(ours.step, mode="reduce-overhead")
    for seed in range(6):
        for each, optimizer, run in ((model, ours, step), (twin, theirs, theirs.step)):
            x, y = (value.to(next(each.parameters()).device) for value in batch(seed))
            torch.nn.functional.cross_entropy(each(x), y).backward()
            run()
            optimizer.zero_grad()
    for one, other in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(one.cpu(), other, rtol=1e-4, atol=1e-5)
    assert counts()[1] >= 1 and counts()[3] == 0


@needs_torch("2.12", "cuts out the counting, and what is left is captured")
def test_an_optimizer_that_counts_on_the_cpu_is_launched_kernel_by_kernel(counts):
    model = torch.nn.Linear(8, 4).npu()
    optimizer = torch.optim.AdamW(model.parameters())
    step = torch.compile(optimizer.step, mode="reduce-overhead")
    for seed in range(3):
        model(batch(seed)[0].npu()).square().mean().backward()
        step()
    assert counts() == (0, 0, 0, 3)
    (statistics,) = graph_captures().values()
    assert "a tensor of another device" in next(iter(statistics.skipped))
