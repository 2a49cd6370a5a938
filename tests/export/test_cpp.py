"""A C++ program, built with CMake, that loads and runs packages: examples/cpp_package."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

import inductor_npu
from inductor_npu.export.cpp import cmake_arguments

EXAMPLE = Path(__file__).parents[2] / "examples" / "cpp_package"

pytestmark = [
    pytest.mark.compiled,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("cmake") is None, reason="there is no cmake on this machine"),
]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cpp")
    for command in (
        ["cmake", *cmake_arguments(), "-S", str(EXAMPLE), "-B", str(folder)],
        ["cmake", "--build", str(folder)],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    return folder / "run_package"


def run(program: Path, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Without any variable of ours, or of Python's."""
    return subprocess.run(
        [str(program), *map(str, arguments)], capture_output=True, text=True, check=False, env=environment
    )


def test_it_links_no_python(program: Path):
    libraries = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True).stdout
    assert "libinductor_npu.so" in libraries and "libtorch_cpu.so" in libraries
    assert not [name for name in ("libpython", "torch_python", "LLVM", "triton") if name in libraries]


@pytest.mark.parametrize("batch", [1, 5, 64])
def test_it_computes_what_python_does(program: Path, classifier, batch: int):
    finished = run(program, classifier[1], f"{batch}x16")
    shape, *numbers = finished.stdout.splitlines()
    x = (torch.arange(batch * 16.0) / (batch * 16)).reshape(batch, 16)
    wanted = inductor_npu.load_package(classifier[1])(x.to("npu")).cpu()
    assert finished.returncode == 0 and shape == f"shape [{batch}, 8]", finished.stderr
    torch.testing.assert_close(torch.tensor([float(number) for number in numbers]), wanted.flatten(), rtol=0, atol=1e-7)


def test_what_does_not_fit_is_one_line(program: Path, classifier, tmp_path: Path):
    too_large = run(program, classifier[1], "65x16")
    assert too_large.returncode == 1
    assert too_large.stderr.startswith("input x has size 65 in dimension 0: the model was exported for 1 to 64")
    other = run(program, classifier[1], "4x16", INDUCTOR_NPU_TARGET="Ascend310B4")
    assert (
        other.returncode == 1
        and "it is for target Ascend910B3, and device npu of this process is Ascend310B4" in other.stderr
    )
    wrong = run(program, classifier[1], "4x16", INDUCTOR_NPU_SIM_MEMORY="much")
    assert wrong.returncode == 1 and "INDUCTOR_NPU_SIM_MEMORY=much is not a size in bytes" in wrong.stderr
    damaged = tmp_path / "model.pt2"
    damaged.write_bytes(classifier[1].read_bytes()[:-30])
    assert run(program, damaged).stderr.count(os.linesep) == 1
