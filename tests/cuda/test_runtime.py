"""What is asked of the machine before a GPU is device npu, and what is said where something is missing."""

from __future__ import annotations

import dataclasses
import pkgutil
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from inductor_npu.cuda import chips, installation, runtime
from inductor_npu.device.npu import collectives
from inductor_npu.errors import NoCollectivesError, NoCudaError, NpuWarning


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


@pytest.mark.parametrize("variable", ["INDUCTOR_NPU_CHECKED", "INDUCTOR_NPU_RECORD"])
def test_modes_of_the_embedded_npu_are_said_to_be_ignored(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setattr(installation.selection, "install", lambda: None)
    monkeypatch.setenv(variable, "1")
    with pytest.warns(NpuWarning, match=f"{variable} is ignored: on a GPU, "):
        installation.install()


def test_a_runtime_without_collectives_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collectives, "device_runtime", lambda: dataclasses.replace(runtime.RUNTIME, collectives=None))
    with pytest.raises(NoCollectivesError, match="the runtime of provider simulator has none"):
        collectives._create(SimpleNamespace(), None)


def test_a_torch_without_nccl_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.distributed, "is_nccl_available", lambda: False)
    make = pkgutil.resolve_name(runtime.RUNTIME.collectives)
    with pytest.raises(NoCollectivesError, match="built without NCCL"):
        make(torch.distributed.HashStore(), 0, 1, timedelta(seconds=1))
