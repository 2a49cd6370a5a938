"""Several devices in one process: each with its memory, its random numbers and its streams."""

from __future__ import annotations

import pytest

from tests.distributed.test_collectives import splits_groups_of_any_device
from tests.processes import run_forked

EIGHT = {"INDUCTOR_NPU_SIM_DEVICES": "8"}


def test_devices_are_apart() -> None:
    finished = run_forked(
        """
        import torch

        assert torch.npu.device_count() == 8
        kept = [torch.ones(index + 1, 1 << 20, device=f"npu:{index}") for index in range(8)]
        allocated = [torch.npu.memory_allocated(index) for index in range(8)]
        assert allocated == [(index + 1) << 22 for index in range(8)], allocated

        torch.npu.manual_seed_all(3)
        drawn = [torch.rand(4, device=f"npu:{index}") for index in range(8)]
        assert all(torch.equal(numbers.cpu(), drawn[0].cpu()) for numbers in drawn)
        with torch.npu.device(5):
            torch.npu.manual_seed(9)
        assert torch.equal(torch.rand(4, device="npu:4").cpu(), torch.rand(4, device="npu:3").cpu())
        assert not torch.equal(torch.rand(4, device="npu:5").cpu(), torch.rand(4, device="npu:4").cpu())

        # A peer's memory: a ring of copies, each on its own device's stream.
        assert torch.npu.can_device_access_peer(0, 7)
        value = torch.arange(100_000.0, device="npu:0")
        for index in (*range(1, 8), 0):
            value = (value + 1).to(f"npu:{index}", non_blocking=True)
        assert torch.equal(value.cpu(), torch.arange(100_000.0) + 8)
        """,
        **EIGHT,
    )
    finished.lines()


@pytest.mark.slow
def test_a_model_on_each_device() -> None:
    """A thread for each replica, forward and backward, compiled; the gradients are summed by peer copies."""
    finished = run_forked(
        """
        import copy
        from concurrent.futures import ThreadPoolExecutor

        import torch
        import torch.nn.functional as F
        from torch import nn

        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.up, self.down = nn.Linear(16, 64), nn.Linear(64, 4)

            def forward(self, x):
                return self.down(F.gelu(self.up(x)))

        torch.manual_seed(0)
        model, x, y = Model(), torch.randn(16, 16), torch.randn(16, 4)
        F.mse_loss(model(x), y).backward()
        expected = [parameter.grad.clone() for parameter in model.parameters()]
        model.zero_grad()

        devices = [torch.device("npu", index) for index in range(4)]
        replicas = [copy.deepcopy(model).to(device) for device in devices]

        def step(replica, device, x, y):
            F.mse_loss(torch.compile(replica)(x.to(device)), y.to(device)).backward()

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(step, replicas, devices, x.chunk(4), y.chunk(4)))
        for index, parameters in enumerate(zip(*(replica.parameters() for replica in replicas), strict=True)):
            mean = sum(parameter.grad.to("npu:2") for parameter in parameters) / len(devices)
            torch.testing.assert_close(mean.cpu(), expected[index], atol=1e-6, rtol=1e-4)
        assert torch.npu.current_device() == 0
        """,
        timeout=300,
        **EIGHT,
    )
    finished.lines()


def test_a_group_takes_tensors_of_every_device() -> None:
    """One rank may hold several devices; a collective works on the device of its tensors."""
    finished = run_forked(
        """
        import torch
        import torch.distributed as dist

        dist.init_process_group("hccl", store=dist.HashStore(), rank=0, world_size=1)
        for index in (3, 0, 7):
            tensor = torch.full((5,), float(index), device=f"npu:{index}")
            dist.all_reduce(tensor)
            gathered = torch.empty(1, 5, device=tensor.device)
            dist.all_gather_into_tensor(gathered, tensor)
            assert gathered.tolist() == [[float(index)] * 5]
        try:
            dist.all_gather([torch.empty(1, device="npu:1")], torch.ones(1, device="npu:2"))
        except (RuntimeError, ValueError) as error:
            assert "device" in str(error), error
        else:
            raise AssertionError("tensors of two devices were taken")
        dist.destroy_process_group()
        """,
        **EIGHT,
    )
    finished.lines()


@splits_groups_of_any_device
def test_groups_split_off() -> None:
    finished = run_forked(
        """
        import torch
        import torch.distributed as dist

        device = torch.device("npu", 0)
        dist.init_process_group("hccl", store=dist.HashStore(), rank=0, world_size=1, device_id=device)
        tensor = torch.ones(3, device=device)
        for _ in range(2):
            group = dist.split_group(split_ranks=[[0]])
            dist.all_reduce(tensor, group=group)
            assert group.size() == 1 and dist.get_backend(group) == "hccl"
        assert tensor.tolist() == [1.0] * 3
        dist.destroy_process_group()
        """
    )
    finished.lines()
