"""`torch.compile` on torch_npu's device is ours."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch._inductor.codegen.common import device_codegens

from inductor_npu.codegen.scheduling.npu_scheduling import NpuScheduling


def test_plain_compile_runs_kernels_of_ours() -> None:
    x = torch.randn(64, 300)
    compiled = torch.compile(lambda a: F.gelu(a) * 3)
    torch.testing.assert_close(compiled(x.npu()).cpu(), F.gelu(x) * 3)
    assert device_codegens["npu"].scheduling is NpuScheduling
