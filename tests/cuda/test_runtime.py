"""What is asked of the machine before a GPU is device npu, and what is said where something is missing."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from inductor_npu.cuda import chips, runtime
from inductor_npu.device import build
from inductor_npu.device.npu import collectives
from inductor_npu.errors import NoCollectivesError, NoCudaError


@pytest.mark.parametrize(
    ("gpu", "target"), [("NVIDIA H100 80GB HBM3", "H100"), ("NVIDIA H200", "H200"), ("NVIDIA A10", "NVIDIA A10")]
)
def test_the_target_is_the_one_that_the_gpu_is_named_after(
    monkeypatch: pytest.MonkeyPatch, gpu: str, target: str
) -> None:
    monkeypatch.setattr(chips, "find", lambda: chips.Gpus(1, gpu, 1 << 30))
    assert chips.name_of_the_chip() == target


def test_without_cudas_driver_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_driver(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(chips.ctypes, "CDLL", no_driver)
    with pytest.raises(NoCudaError, match=r"CUDA's driver .* was not found\. Install NVIDIA's driver"):
        chips.find.__wrapped__()


def test_the_toolkit_is_where_cuda_home_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "include").mkdir()
    (tmp_path / "include/cuda.h").touch()
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert runtime.toolkit() == tmp_path


def test_without_a_toolkit_the_error_says_where_it_was_looked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    monkeypatch.setattr(runtime.shutil, "which", lambda name: None)
    monkeypatch.setattr(runtime, "_USUAL", tmp_path)
    with pytest.raises(NoCudaError, match=r"CUDA's headers .*CUDA_HOME.* was not found"):
        runtime.toolkit()


def test_a_runtime_without_collectives_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "load", lambda: SimpleNamespace())
    with pytest.raises(NoCollectivesError, match="has no collectives for tensors of npu yet"):
        collectives._create(SimpleNamespace(), None)
