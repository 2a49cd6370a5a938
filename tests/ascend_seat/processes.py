"""Programs in processes of their own at the seat, with caches of their own where they are asked for."""

from __future__ import annotations

import os
from pathlib import Path

from tests.processes import Finished, run_python

# What torch_npu and CANN say of themselves on standard error, of which no user of ours is to hear more.
_OF_TORCH_NPU = ("NPUCachingAllocator.cpp", "torch_npu/dynamo", "stand-in CANN:")

# `compiled` is a compiled function, `right` whether it gives eager's values; `backend` whose kernels run.
PROGRAM = """
def backend():
    from torch._inductor.codegen.common import device_codegens
    return device_codegens["npu"].scheduling.__module__.split(".")[0]

def check(**settings):
    import torch
    function = lambda a: (a * 3 + 1).relu()
    x = torch.randn(64, 300)
    got = torch.compile(function, **settings)(x.npu()).cpu()
    print(torch.allclose(got, function(x), atol=1e-6), backend())
"""


def run(code: str, cache: Path | None = None, **environment: str) -> Finished:
    """Runs PROGRAM and `code` (not indented) in a fresh Python. `cache`: a folder for all caches."""
    if cache is not None:
        environment["TORCHINDUCTOR_CACHE_DIR"] = str(cache / "inductor")
        environment["TRITON_CACHE_DIR"] = str(cache / "triton")
    # What pytest's own process had to say of torch_npu is not inherited.
    environment.setdefault("INDUCTOR_NPU_PROVIDER", "")
    environment.setdefault("STANDIN_REPORT", os.environ.get("STANDIN_REPORT", ""))
    return run_python(PROGRAM + code, timeout=300, **environment)


def ours(stderr: str) -> str:
    """What was written to standard error, less what torch_npu and the stand-in write."""
    return "\n".join(line for line in stderr.splitlines() if not any(part in line for part in _OF_TORCH_NPU))
