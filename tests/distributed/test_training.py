"""What users run on top of collectives, eager and compiled: the values are those of one process at the same batch."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.nn.functional as F
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel

from tests.distributed import training
from tests.distributed.ranks import Ranks, own_device

COMPILED = pytest.mark.parametrize(
    "compiled", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["eager", "compiled"]
)


OWN = "own"  # of the options of DistributedDataParallel, the device of each rank


def made_of(module: nn.Module, compiled: bool) -> Any:
    return torch.compile(module) if compiled else module


def data_parallel(compiled: bool, options: dict[str, Any]) -> None:
    if options.get("device_ids") == OWN:
        options = {**options, "device_ids": [own_device()]}
    module = DistributedDataParallel(training.model().npu(), **options)
    training.train(made_of(module, compiled), module.parameters(), training.own_part())
    training.check(module)


@COMPILED
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bucket_cap_mb": 1, "gradient_as_bucket_view": True},
        {"static_graph": True, "device_ids": OWN},
        {"find_unused_parameters": True},
    ],
    ids=["plain", "gradients as views of buckets", "static graph", "unused parameters"],
)
def test_data_parallel(ranks: Ranks, compiled: bool, options: dict[str, Any]) -> None:
    ranks.run(data_parallel, compiled, options)


def accumulated(compiled: bool) -> None:
    module = DistributedDataParallel(training.model().npu())
    x, y = training.own_part()
    halves = [(x[::2], y[::2]), (x[1::2], y[1::2])]
    forward = made_of(module, compiled)
    optimizer = training.optimizer_of(module.parameters())
    for _ in range(training.STEPS):
        optimizer.zero_grad()
        with module.no_sync():
            (F.mse_loss(forward(halves[0][0]), halves[0][1]) / 2).backward()
        (F.mse_loss(forward(halves[1][0]), halves[1][1]) / 2).backward()
        optimizer.step()
    training.check(module)


@COMPILED
def test_gradients_accumulate_without_synchronisation(ranks: Ranks, compiled: bool) -> None:
    ranks.run(accumulated, compiled)


def with_hook(name: str, tolerance: float) -> None:
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

    module = DistributedDataParallel(training.model().npu())
    if name == "powerSGD":
        state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=16, start_powerSGD_iter=2)
        module.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    else:
        module.register_comm_hook(None, getattr(default_hooks, name))
    training.train(module, module.parameters(), training.own_part(), training.plain_descent)
    training.check(module, tolerance, make_optimizer=training.plain_descent)


# PyTorch's hook waits for torch.cuda by the number of an npu, where torch has the device cuda.
_POWER_SGD = pytest.param("powerSGD", 2e-3, marks=pytest.mark.embedded)


@pytest.mark.parametrize(
    ("name", "tolerance"),
    [("allreduce_hook", 1e-6), ("fp16_compress_hook", 2e-5), ("bf16_compress_hook", 2e-4), _POWER_SGD],
)
def test_communication_hooks(ranks: Ranks, name: str, tolerance: float) -> None:
    ranks.run(with_hook, name, tolerance)


def fully_sharded(compiled: bool, options: dict[str, Any], tolerance: float) -> None:
    from torch.distributed.fsdp import fully_shard

    module = training.model().npu()
    for layer in module:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, **options)
    fully_shard(module, **options)
    training.train(made_of(module, compiled), module.parameters(), training.own_part())
    training.check(module, tolerance)


def fsdp_options(name: str) -> tuple[dict[str, Any], float]:
    from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy

    half = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32, output_dtype=torch.float32)
    return {
        "plain": ({}, 2e-5),
        "kept after forward": ({"reshard_after_forward": False}, 2e-5),
        "mixed precision": ({"mp_policy": half}, 3e-2),
        "offloaded to the CPU": ({"offload_policy": CPUOffloadPolicy()}, 2e-5),
    }[name]


@COMPILED
@pytest.mark.parametrize("name", ["plain", "kept after forward", "mixed precision", "offloaded to the CPU"])
def test_fully_sharded(ranks: Ranks, compiled: bool, name: str) -> None:
    ranks.run(fully_sharded, compiled, *fsdp_options(name))


def fully_sharded_of_old(compiled: bool) -> None:
    from torch.distributed.fsdp import FullyShardedDataParallel

    module = FullyShardedDataParallel(training.model().npu(), device_id=own_device(), use_orig_params=True)
    training.train(made_of(module, compiled), module.parameters(), training.own_part())
    with FullyShardedDataParallel.summon_full_params(module):
        training.check(module, names=lambda name: name.replace("_fsdp_wrapped_module.", ""))


def test_fully_sharded_of_old(ranks: Ranks) -> None:
    ranks.run(fully_sharded_of_old, False)


def tensor_parallel(compiled: bool) -> None:
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh = init_device_mesh("npu", (dist.get_world_size(),))
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel(), "4": ColwiseParallel(output_layouts=_replicate())}
    module = parallelize_module(training.model().npu(), mesh, plan)
    x, y = training.batch()
    training.train(made_of(module, compiled), module.parameters(), (x.npu(), y.npu()))
    training.check(module)


def _replicate() -> Any:
    from torch.distributed.tensor import Replicate

    return Replicate()


@COMPILED
def test_tensor_parallel(ranks: Ranks, compiled: bool) -> None:
    ranks.run(tensor_parallel, compiled)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(F.gelu(self.up(self.norm(x))))


def sequence_parallel(compiled: bool) -> None:
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        PrepareModuleInput,
        RowwiseParallel,
        SequenceParallel,
        parallelize_module,
    )

    torch.manual_seed(3)
    block = Block()
    x = torch.randn(2, 8, 16, requires_grad=True)
    block(x).square().sum().backward()
    gradients = {name: parameter.grad.clone() for name, parameter in block.named_parameters()}
    block.zero_grad()

    size = dist.get_world_size()
    mesh = init_device_mesh("npu", (size,))
    plan = {
        "norm": SequenceParallel(),
        "up": PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Replicate()),
        "down": RowwiseParallel(output_layouts=Shard(1)),
    }
    block = parallelize_module(block.npu(), mesh, plan)
    parallelize_module(block.up, mesh, ColwiseParallel())
    own = x.detach().chunk(size, 1)[dist.get_rank()].npu()
    made_of(block, compiled)(own).square().sum().backward()
    for name, parameter in block.named_parameters():
        torch.testing.assert_close(parameter.grad.full_tensor().cpu(), gradients[name], atol=2e-4, rtol=1e-4)


@COMPILED
def test_sequence_parallel(ranks: Ranks, compiled: bool) -> None:
    ranks.run(sequence_parallel, compiled)


def two_dimensions(compiled: bool) -> None:
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    size = dist.get_world_size()
    mesh = init_device_mesh("npu", (size // 2, 2), mesh_dim_names=("data", "tensor"))
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel(), "4": ColwiseParallel(output_layouts=_replicate())}
    module = parallelize_module(training.model().npu(), mesh["tensor"], plan)
    fully_shard(module, mesh=mesh["data"])
    data = training.own_part(mesh["data"].get_group())
    training.train(made_of(module, compiled), module.parameters(), data)
    training.check(module)


@COMPILED
def test_a_mesh_of_two_dimensions(ranks: Ranks, compiled: bool) -> None:
    ranks.run(two_dimensions, compiled)


def pipeline(schedule: str, compiled: bool) -> None:
    from torch.distributed import pipelining

    rank, size = dist.get_rank(), dist.get_world_size()
    layers = list(training.model())
    cuts = {2: [0, 2, 5], 4: [0, 1, 2, 4, 5]}[size]
    stage_layers = nn.Sequential(*layers[cuts[rank] : cuts[rank + 1]]).npu()
    stage = pipelining.PipelineStage(made_of(stage_layers, compiled), rank, size, own_device())
    make = {"GPipe": pipelining.ScheduleGPipe, "1F1B": pipelining.Schedule1F1B}[schedule]
    steps = make(stage, n_microbatches=4, loss_fn=F.mse_loss)
    x, y = training.batch()
    parameters = list(stage_layers.parameters())
    optimizer = training.optimizer_of(parameters) if parameters else None
    for _ in range(training.STEPS):
        if optimizer is not None:
            optimizer.zero_grad()
        steps.step(*([x.npu()] if rank == 0 else []), **({"target": y.npu()} if rank == size - 1 else {}))
        if optimizer is not None:
            optimizer.step()

    def name_in_model(name: str) -> str:
        index, _, rest = name.partition(".")
        return f"{int(index) + cuts[rank]}.{rest}"

    training.check(stage_layers, names=name_in_model)


@COMPILED
@pytest.mark.parametrize("schedule", ["GPipe", "1F1B"])
def test_pipelines(ranks: Ranks, schedule: str, compiled: bool) -> None:
    ranks.run(pipeline, schedule, compiled)


def saved_and_loaded(folder: str) -> None:
    from torch.distributed.fsdp import fully_shard

    def made() -> tuple[nn.Module, torch.optim.Optimizer]:
        module = training.model().npu()
        fully_shard(module)
        return module, training.optimizer_of(module.parameters())

    x, y = training.own_part()

    def step(module: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        optimizer.zero_grad()
        F.mse_loss(module(x), y).backward()
        optimizer.step()

    first, optimizer = made()
    step(first, optimizer)
    state = dict(zip(("model", "optimizer"), get_state_dict(first, optimizer), strict=True))
    dcp.save(state, checkpoint_id=folder)

    second, optimizer = made()
    state = dict(zip(("model", "optimizer"), get_state_dict(second, optimizer), strict=True))
    dcp.load(state, checkpoint_id=folder)
    set_state_dict(second, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    for _ in range(training.STEPS - 1):
        step(second, optimizer)
    training.check(second)


@pytest.mark.embedded  # PyTorch's writer of checkpoints moves tensors of cuda only to the CPU, where torch has cuda
def test_checkpoints(ranks: Ranks, tmp_path: Any) -> None:
    ranks.run(saved_and_loaded, str(tmp_path / "checkpoint"))


def random_numbers() -> None:
    import torch.distributed.tensor as dt

    size = dist.get_world_size()
    mesh = init_device_mesh("npu", (size,))
    drawn = dt.rand(4 * size, 8, device_mesh=mesh, placements=[dt.Shard(0)]).full_tensor().cpu()
    assert (drawn >= 0).all() and (drawn < 1).all()
    parts = drawn.chunk(size)
    for one, other in itertools.combinations(range(size), 2):
        assert not torch.equal(parts[one], parts[other])
    same = dt.rand(4, 8, device_mesh=mesh, placements=[dt.Replicate()]).to_local()
    every = [torch.empty_like(same) for _ in range(size)]
    dist.all_gather(every, same)
    assert all(torch.equal(one, every[0]) for one in every)
    dropped = F.dropout(dt.ones(64 * size, 8, device_mesh=mesh, placements=[dt.Shard(0)]), 0.5).full_tensor().cpu()
    assert 0.3 < (dropped == 0).float().mean() < 0.7
    halves = dropped.chunk(size)
    assert not torch.equal(halves[0], halves[1])


def test_random_numbers_of_distributed_tensors(ranks: Ranks) -> None:
    ranks.run(random_numbers)


def distributed_tensors() -> None:
    import torch.distributed.tensor as dt

    mesh = init_device_mesh("npu", (dist.get_world_size(),))
    whole = torch.randn(8, 6)
    sharded = dt.distribute_tensor(whole.npu(), mesh, [dt.Shard(0)])
    product = (sharded @ sharded.t()).redistribute(mesh, [dt.Replicate()]).to_local()
    torch.testing.assert_close(product.cpu(), whole @ whole.t())
    assert torch.equal(sharded.redistribute(mesh, [dt.Shard(1)]).full_tensor().cpu(), whole)


def test_distributed_tensors(ranks: Ranks) -> None:
    ranks.run(distributed_tensors)
