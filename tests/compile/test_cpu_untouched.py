"""Compiled code for the CPU is the same, byte for byte, with and without this package."""

from __future__ import annotations

import pytest

from tests.processes import run_forked

# C++ is generated, for whatever vectors there may be, but not compiled: what is only text returns no results.
PROGRAM = """
import contextlib, re
import torch
from torch._inductor import config
from torch._inductor.utils import get_code

def fn(x, w):
    y = torch.softmax(x @ w, -1)
    return torch.nn.functional.layer_norm(y, (16,)) + x.sum(0, keepdim=True)[:, :1], y.argmax(1), torch.cat([y, y * 2])

def write():
    with contextlib.suppress(TypeError, AssertionError):
        torch.compile(fn)(torch.randn(8, 12), torch.randn(12, 16))

with config.patch({"force_disable_caches": True, "cpp.vec_isa_ok": True}):
    sources = get_code(write)
print(re.sub(r"/tmp/\\S+", "PATH", "\\n".join(sources)))
"""


def _generated(**environment: str) -> list[str]:
    lines = run_forked(PROGRAM, **environment).lines()
    assert any("async_compile.cpp_pybinding" in line for line in lines), lines
    return lines


@pytest.mark.slow
def test_generated_code_is_identical() -> None:
    assert _generated() == _generated(TORCH_DEVICE_BACKEND_AUTOLOAD="0")
