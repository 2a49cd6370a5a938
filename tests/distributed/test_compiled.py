"""Collectives inside of compiled graphs: no break that other devices do not have, and what Inductor does to overlap."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
import torch.nn.functional as F
from torch import nn
from torch._dynamo.testing import CompileCounterWithBackend
from torch._inductor.utils import run_and_get_code
from torch.nn.parallel import DistributedDataParallel

from tests.distributed import training
from tests.distributed.ranks import Ranks

WIDE = 600  # a layer of as many inputs and outputs has more than a mebibyte of weights: a bucket of its own


def functional_collectives() -> None:
    group, size, rank = dist.group.WORLD, dist.get_world_size(), dist.get_rank()

    def program(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        total = funcol.all_reduce(torch.sin(x), "sum", group)
        parts = funcol.all_gather_tensor(x * 2, 0, group)
        own = funcol.reduce_scatter_tensor(parts + 1, "avg", 0, group)
        swapped = funcol.all_to_all_single(parts, None, None, group)
        first = funcol.broadcast(x + 3, 0, group)
        return total * 2 + x, own.exp(), swapped + first[0], first

    x = torch.linspace(0, 1, 6 * 5).reshape(6, 5) + rank
    eager = [t.clone() for t in program(x.npu())]
    compiled, code = run_and_get_code(torch.compile(program, fullgraph=True), x.npu())
    for ours, theirs in zip(compiled, eager, strict=True):
        torch.testing.assert_close(ours, theirs)
    every = [torch.linspace(0, 1, 6 * 5).reshape(6, 5) + r for r in range(size)]
    torch.testing.assert_close(compiled[0].cpu(), sum(torch.sin(e) for e in every) * 2 + x)
    assert "c10d_functional.all_reduce" in code[0] and "wait_tensor" in code[0]


def test_functional_collectives_are_part_of_one_graph(ranks: Ranks) -> None:
    ranks.run(functional_collectives)


def loss_through_collectives(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    whole = funcol.all_gather_tensor_autograd((x @ w).sin(), 0, dist.group.WORLD)
    squares = whole.square().contiguous()  # torch 2.11 asks for it
    return funcol.reduce_scatter_tensor_autograd(squares, "sum", 0, dist.group.WORLD).sum()


def gradients_through_collectives() -> None:
    results = []
    for function in (loss_through_collectives, torch.compile(loss_through_collectives, fullgraph=True)):
        x, w = torch.ones(4, 3, device="npu"), torch.linspace(-1, 1, 6, device="npu").reshape(3, 2).requires_grad_()
        function(x * (dist.get_rank() + 1), w).backward()
        results.append(w.grad.clone())
    torch.testing.assert_close(results[0], results[1])
    assert results[0].abs().sum() > 0 and dist.get_world_size() > 1


gradients_are_contiguous = pytest.mark.skipif(
    torch.__version__ < "2.12", reason="an earlier torch passes gradients on that are not contiguous"
)


@gradients_are_contiguous
def test_gradients_flow_through_collectives(two_ranks: Ranks) -> None:
    two_ranks.run(gradients_through_collectives)


def gradients_again_and_again() -> None:
    loss = torch.compile(loss_through_collectives, fullgraph=True)

    def gradient() -> torch.Tensor:
        x, w = torch.ones(4, 3, device="npu"), torch.linspace(-1, 1, 6, device="npu").reshape(3, 2).requires_grad_()
        x = x * (dist.get_rank() + 1)
        total = loss(x, w)
        del x  # only the backward pass holds it
        total.backward()
        return w.grad.clone()

    first = gradient()
    for _ in range(1000):
        assert torch.allclose(gradient(), first, atol=1e-4)


@gradients_are_contiguous
def test_memory_of_a_collective_is_not_that_of_kernels_behind_it(two_ranks: Ranks) -> None:
    """gloo's own memory came from npu where a thread that waited in an operator (`clone`) ran the collective itself. It
    overwrote a tensor that a kernel had still to read: up to two of a hundred gradients were wrong.
    """
    two_ranks.run(gradients_again_and_again)


@contextlib.contextmanager
def _settings(**values: Any) -> Iterator[None]:
    from torch._inductor import config

    with config.patch(**values):
        yield


def reordered() -> None:
    group = dist.group.WORLD

    def program(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        total = funcol.all_reduce(x + 1, "sum", group)
        for _ in range(3):
            x = torch.tanh(x @ w)
        return x + total

    x, w = torch.randn(64, 64).npu(), torch.randn(64, 64).npu()
    expected = program(x, w)
    with _settings(reorder_for_compute_comm_overlap=True):
        result, code = run_and_get_code(torch.compile(program, fullgraph=True), x, w)
    torch.testing.assert_close(result, expected, atol=1e-4, rtol=1e-4)
    text = code[0][code[0].index("def call") :]
    start, wait = text.index("all_reduce_.default("), text.index("wait_tensor.default(")
    assert ".run(" in text[start:wait], "no kernel runs while the collective does"


def test_inductor_puts_kernels_between_a_collective_and_its_wait(two_ranks: Ranks) -> None:
    two_ranks.run(reordered)


def bucketed() -> None:
    group = dist.group.WORLD

    def program(parts: list[torch.Tensor]) -> list[torch.Tensor]:
        return [funcol.all_gather_tensor(part * 2, 0, group) for part in parts]

    parts = [torch.full((8,), float(i)).npu() for i in range(4)]
    expected = program(parts)
    with _settings(bucket_all_gathers_fx="all", reorder_for_compute_comm_overlap=True):
        result, code = run_and_get_code(torch.compile(program, fullgraph=True), parts)
    for ours, theirs in zip(result, expected, strict=True):
        assert torch.equal(ours, theirs)
    gathers = code[0].count("c10d_functional.all_gather_into_tensor")
    assert gathers == 1, f"{gathers} all_gathers instead of one"


def test_inductor_makes_buckets_of_all_gathers(two_ranks: Ranks) -> None:
    two_ranks.run(bucketed)


def split_at_buckets() -> None:
    torch.manual_seed(1)
    layers = training.Model(*[nn.Linear(WIDE, WIDE) for _ in range(4)]).npu()
    module = DistributedDataParallel(layers, bucket_cap_mb=1)
    counter = CompileCounterWithBackend("inductor")
    x = torch.randn(4, WIDE).npu()
    compiled = torch.compile(module, backend=counter)
    loss = compiled(x).square().mean()
    loss.backward()
    assert loss.isfinite()
    assert counter.frame_count == len(layers), f"{counter.frame_count} graphs"
    gradients = [parameter.grad.cpu() for parameter in layers.parameters()]
    layers.zero_grad()
    DistributedDataParallel(layers)(x).square().mean().backward()
    for ours, theirs in zip(gradients, layers.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs.grad.cpu(), atol=1e-5, rtol=1e-4)


def test_graphs_of_data_parallel_end_at_buckets(two_ranks: Ranks) -> None:
    """DDPOptimizer, as on other devices: one graph for each bucket, so that its collective runs beside the next."""
    two_ranks.run(split_at_buckets)


def breaks(kind: str) -> None:
    from torch._dynamo.utils import counters
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    def reasons(device: str) -> set[str]:
        torch.compiler.reset()
        counters.clear()
        module: nn.Module = training.model().to(device)
        if kind == "DDP":
            module = DistributedDataParallel(module)
        else:
            fully_shard(module, mesh=init_device_mesh(device, (dist.get_world_size(),)))
        x, y = (part.to(device) for part in training.own_part())
        F.mse_loss(torch.compile(module, backend="eager")(x), y).backward()
        return set(counters["graph_break"])

    assert reasons("npu") == reasons("cpu")


@pytest.mark.parametrize("kind", ["DDP", "FSDP2"])
def test_graphs_break_where_they_do_on_other_devices(two_ranks: Ranks, kind: str) -> None:
    two_ranks.run(breaks, kind)
