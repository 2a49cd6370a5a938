"""What PyTorch's profilers show of npu (docs/profiling.md)."""

from __future__ import annotations

import torch
from torch.profiler import ProfilerActivity, profile


def test_operators_have_device_time() -> None:
    a = torch.randn(256, 256, device="npu")
    with torch.autograd.profiler.profile(use_device="npu", use_kineto=False) as profiler:
        (a @ a).relu()
    rows = {row.key: row for row in profiler.key_averages()}
    assert rows["aten::mm"].device_time_total > 0
    assert "NPU total" in profiler.key_averages().table()


def test_torch_profiler_lists_operators_once_each() -> None:
    a = torch.randn(16, 16, device="npu")
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as profiler:
        torch.mm(a, a)
    counts = {row.key: row.count for row in profiler.key_averages()}
    assert counts["aten::mm"] == 1
