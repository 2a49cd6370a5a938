"""`torch.compile` on torch_npu's device is ours."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch._inductor.codegen.common import device_codegens

from inductor_npu.codegen.scheduling import NpuScheduling


def test_plain_compile_runs_kernels_of_ours() -> None:
    x = torch.randn(64, 300)
    compiled = torch.compile(lambda a: F.gelu(a) * 3)
    torch.testing.assert_close(compiled(x.npu()).cpu(), F.gelu(x) * 3)
    assert device_codegens["npu"].scheduling is NpuScheduling


def test_reductions_and_more_than_one_kernel() -> None:
    x = torch.randn(33, 70)
    compiled = torch.compile(lambda a: F.layer_norm(a, (70,)).sum(0))
    torch.testing.assert_close(compiled(x.npu()).cpu(), F.layer_norm(x, (70,)).sum(0), atol=1e-4, rtol=1e-4)
