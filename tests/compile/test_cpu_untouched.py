"""Compiled code for the CPU is the same, byte for byte, with and without this package."""

from __future__ import annotations

import hashlib

from tests.processes import run_python

PROGRAM = """
import re
import torch
from torch._inductor.utils import run_and_get_code

def fn(x, w):
    y = torch.softmax(x @ w, -1)
    return torch.nn.functional.layer_norm(y, (16,)) + x.sum(0, keepdim=True)[:, :1], y.argmax(1), torch.cat([y, y * 2])

with torch._inductor.config.patch(force_disable_caches=True):
    _, sources = run_and_get_code(torch.compile(fn), torch.randn(8, 12), torch.randn(12, 16))
print(re.sub(r"/tmp/\\S+", "PATH", "\\n".join(sources)))
"""


def _generated(**environment: str) -> str:
    lines = run_python(PROGRAM, **environment).lines()
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def test_generated_code_is_identical() -> None:
    assert _generated() == _generated(TORCH_DEVICE_BACKEND_AUTOLOAD="0")
