"""The kernels that tests of the device launch on a GPU are code for it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from triton import knobs

from tests.device import gpu_kernels


@pytest.mark.parametrize("body", gpu_kernels._BODIES)
def test_it_is_assembled(tmp_path: Path, body: str) -> None:
    (tmp_path / "kernel.ptx").write_text(gpu_kernels.text(body, f"{body}_of_a_test"))
    command = [knobs.nvidia.ptxas.path, "-arch=sm_90", "kernel.ptx", "-o", "kernel.cubin"]
    finished = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr


def test_what_is_about_the_host_is_skipped() -> None:
    with pytest.raises(pytest.skip.Exception, match="'thread_of_program' is about the host"):
        gpu_kernels.text("thread_of_program", "f")
