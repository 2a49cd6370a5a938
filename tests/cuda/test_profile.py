"""What torch.profiler shows of a GPU that is device npu: what CUDA's own tracer sees, once."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from inductor_npu import providers

pytestmark = pytest.mark.skipif(
    providers.current_provider() is not providers.CUDA, reason="the embedded NPU has a time line of its own"
)


def test_each_kernel_is_shown_once_and_belongs_to_the_call_that_launched_it() -> None:
    x = torch.randn(64, 64, device="npu")
    compiled = torch.compile(lambda x: torch.softmax(x * 2, -1) @ x)
    compiled(x)
    torch.npu.synchronize()
    activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA, ProfilerActivity.PrivateUse1]
    with profile(activities=activities) as profiler:
        for _ in range(3):
            compiled(x)
        torch.npu.synchronize()
    events = [event for event in profiler.events() if not event.is_user_annotation]
    kernels = Counter(event.name for event in events if event.device_type != DeviceType.CPU)
    assert [count for name, count in kernels.items() if name.startswith("triton_")] == [3]
    (product,) = [average for average in profiler.key_averages() if average.key == "aten::mm"]
    assert product.count == 3 and product.device_time_total > 0
