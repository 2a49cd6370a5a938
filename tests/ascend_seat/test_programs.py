"""What users run: training, autocast, sizes that vary, several devices, workers; and our own tools beside torch_npu."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import inductor_npu
from inductor_npu import config
from tests.ascend_seat.processes import run


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(20, 48), nn.LayerNorm(48), nn.Linear(48, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(F.gelu(self.norm(self.first(x))))


def trained(network: nn.Module, step: object, batches: list[tuple[torch.Tensor, torch.Tensor]]) -> list[float]:
    """The losses of a few steps with AdamW, as training loops are written."""
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-2)
    losses = []
    for x, labels in batches:
        optimizer.zero_grad()
        loss = F.cross_entropy(step(x), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("device", ["npu:0", "npu:1"])
def test_training(device: str) -> None:
    here = Network()
    there = copy.deepcopy(here).to(device)
    batches = [(torch.randn(16, 20), torch.randint(0, 5, (16,))) for _ in range(4)]
    moved = [(x.to(device), labels.to(device)) for x, labels in batches]
    torch.testing.assert_close(trained(there, torch.compile(there), moved), trained(here, here, batches))
    for got, wanted in zip(there.parameters(), here.parameters()):
        torch.testing.assert_close(got.cpu(), wanted, rtol=1e-4, atol=1e-4)


def test_autocast() -> None:
    x = torch.randn(8, 20)
    network = Network().eval()
    moved = copy.deepcopy(network).npu()
    with torch.autocast("npu", torch.float16), torch.no_grad():
        got = torch.compile(moved)(x.npu())
        eager = moved(x.npu())
    assert got.dtype is eager.dtype is torch.float16
    torch.testing.assert_close(got.cpu(), eager.cpu(), rtol=1e-2, atol=1e-2)


def test_fully_sharded_on_one_rank() -> None:
    """FSDP's hooks and streams, as torch_npu replaces parts of them; collectives are PyTorch's fake ones."""
    finished = run(
        """
import copy
import torch
import torch.distributed as dist
from torch import nn
from torch._dynamo.utils import counters
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.testing._internal.distributed.fake_pg import FakeStore

class Network(nn.Module):  # Dynamo does not begin in a class of torch.nn's own
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(20, 48), nn.LayerNorm(48), nn.Linear(48, 5)

    def forward(self, x):
        return self.last(nn.functional.gelu(self.norm(self.first(x))))

dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=1)
mesh = init_device_mesh("npu", (1,))
here = Network()
there = copy.deepcopy(here).npu()
for part in (there.first, there.last, there):
    fully_shard(part, mesh=mesh)
compiled = torch.compile(there)
x = torch.randn(16, 20)
for _ in range(2):
    got, wanted = compiled(x.npu()), here(x)
    got.square().mean().backward()
    wanted.square().mean().backward()
torch.testing.assert_close(got.cpu(), wanted)
for ours, theirs in zip(there.parameters(), here.parameters(), strict=True):
    torch.testing.assert_close(ours.grad.full_tensor().cpu(), theirs.grad)
print(counters["stats"]["unique_graphs"] > 0, backend())
"""
    )
    assert finished.lines() == ["True inductor_npu"]


def test_sizes_that_vary_compile_once() -> None:
    compiles = []

    def backend(graph: torch.fx.GraphModule, inputs: list[object]) -> object:
        compiles.append(graph)
        return torch._inductor.compile(graph, inputs)

    function = torch.compile(lambda a: a.softmax(-1) * a.shape[0], dynamic=True, backend=backend)
    for rows in (3, 17, 64):
        x = torch.randn(rows, 33)
        torch.testing.assert_close(function(x.npu()).cpu(), x.softmax(-1) * rows)
    assert len(compiles) == 1


def test_torch_npus_compile_mode_is_another_matter() -> None:
    """`set_compile_mode` is about operators of CANN's, which are compiled when they run or before."""
    x = torch.randn(33, 70)
    for mode in (True, False):
        torch.npu.set_compile_mode(jit_compile=mode)
        torch._dynamo.reset()
        assert torch.equal(torch.compile(lambda a: (a * 2 + 1).relu())(x.npu()).cpu(), (x * 2 + 1).relu())


def test_dropout_follows_the_seed() -> None:
    function = torch.compile(lambda a: F.dropout(a, 0.5))
    x = torch.ones(1000).npu()
    torch.npu.manual_seed(3)
    first = function(x).cpu()
    second = function(x).cpu()
    torch.npu.manual_seed(3)
    assert torch.equal(function(x).cpu(), first)
    assert not torch.equal(first, second)
    assert 400 < int((first == 0).sum()) < 600


def test_workers_that_are_forked_feed_the_device() -> None:
    data = TensorDataset(torch.arange(64.0).reshape(16, 4))
    function = torch.compile(lambda a: a * 2)
    function(torch.ones(4, 4).npu())
    got = [function(x.npu()).cpu() for (x,) in DataLoader(data, batch_size=4, num_workers=2)]
    assert torch.equal(torch.cat(got), data.tensors[0] * 2)


def test_accuracy_mode_compares_each_kernel() -> None:
    x = torch.randn(33, 70)
    with config.patch(accuracy=True), warnings.catch_warnings():
        warnings.simplefilter("error", inductor_npu.errors.NpuWarning)
        got = torch.compile(lambda a: F.layer_norm(a, (70,)).sum(0))(x.npu())
    torch.testing.assert_close(got.cpu(), F.layer_norm(x, (70,)).sum(0), rtol=1e-5, atol=1e-5)


def test_explain_and_warmup() -> None:
    function = torch.compile(lambda a: F.gelu(a) + 1)
    x = torch.randn(64).npu()
    assert inductor_npu.warmup(function, x)
    explanation = inductor_npu.explain(lambda a: F.gelu(a) + 2, x)
    assert [kernel.operators for kernel in explanation.kernels] == [("aten.gelu", "aten.add")]


def command(*arguments: str) -> str:
    """Standard output of `inductor-npu` in a process of its own, which has to succeed."""
    program = str(Path(sys.executable).parent / "inductor-npu")
    variables = {**os.environ, "COLUMNS": "200"}
    done = subprocess.run([program, *arguments], env=variables, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_check_and_lint_beside_torch_npu(tmp_path: Path) -> None:
    """Both take the embedded NPU, whatever drives the device."""
    program = tmp_path / "program.py"
    program.write_text(
        "import torch, torch_npu\n"
        "print(torch.compile(lambda a: a.softmax(-1))(torch.ones(33, 70).npu()).sum().item())\n"
    )
    said = command("check", str(program))
    assert "triton_per_fused__softmax_0" in said and "vector" in said
    kernel = tmp_path / "kernel.py"
    kernel.write_text(
        "import triton\nimport triton.language as tl\n\n\n@triton.jit\ndef double(x, n, N: tl.constexpr):\n"
        "    i = tl.program_id(0) * N + tl.arange(0, N)\n    tl.store(x + i, 2 * tl.load(x + i, i < n), i < n)\n"
    )
    assert "double" in command("lint", str(kernel), "--with", "N=1024")
