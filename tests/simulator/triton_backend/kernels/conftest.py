from __future__ import annotations

import pytest
import triton

from inductor_npu.simulator.triton_backend import codegen
from inductor_npu.simulator.triton_backend.codegen import CodegenOptions
from tests.triton_features import forget


@pytest.fixture(params=[128, 256, 512], ids="{} bits".format)
def vectors(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiler takes the host's vectors to have so many bits, and compiles the kernels of the test's file anew."""
    wide = request.param == 512
    options = CodegenOptions(vector_bits=request.param, registers=32 if wide else 16, compresses=wide)
    monkeypatch.setattr(codegen, "host_options", lambda: options)
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")
    for kernel in vars(request.module).values():
        if isinstance(kernel, triton.JITFunction):
            forget(kernel)
