"""DataLoader with pinned memory and worker processes."""

from __future__ import annotations

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_come_pinned_and_move_without_waiting(workers: int) -> None:
    torch.ones(1, device="npu")  # the device is in use before the workers are forked
    data = TensorDataset(torch.arange(10.0), torch.arange(10))
    seen = []
    for values, labels in DataLoader(data, batch_size=4, pin_memory=True, num_workers=workers):
        assert values.is_pinned() and labels.is_pinned()
        seen += (values.to("npu", non_blocking=True) + labels.to("npu", non_blocking=True)).tolist()
    assert seen == [2.0 * index for index in range(10)]


@pytest.mark.skipif(torch.cuda.is_available(), reason="torch.empty pins for CUDA where there is a CUDA device as well")
def test_pinning() -> None:
    pinned = torch.ones(5).pin_memory()
    assert pinned.is_pinned() and not torch.ones(5).is_pinned()
    assert torch.empty(3, pin_memory=True).is_pinned()
    with pytest.raises(RuntimeError, match=r"only dense CPU tensors can be pinned|cannot pin"):
        torch.ones(2, device="npu").pin_memory()
    with pytest.raises(RuntimeError, match=r"(?i)only .*cpu.* can be pinned"):
        torch.empty(2, device="npu", pin_memory=True)
