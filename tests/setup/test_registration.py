"""What is wired into Dynamo and Inductor, and when: nothing before it is needed."""

from __future__ import annotations

import functools

import pytest
import torch
from torch._dynamo.device_interface import get_interface_for_device
from torch._inductor.codegen.common import (
    custom_backend_codegen_configs,
    get_device_op_overrides,
    get_scheduling_for_device,
    get_wrapper_codegen_for_device,
)

import inductor_npu.config
from inductor_npu import providers
from inductor_npu.setup import compat, registration
from tests.processes import run_forked


def test_import_torch_imports_neither_dynamo_nor_inductor_nor_triton() -> None:
    finished = run_forked(
        """
        import sys, torch
        print([m for m in ("torch._dynamo", "torch._inductor", "triton", "inductor_npu.codegen") if m in sys.modules])
        """
    )
    assert finished.lines() == ["[]"]


def test_classes_are_ours() -> None:
    import torch._inductor.compile_fx  # noqa: F401 - the step that registers code generation runs after this import

    from inductor_npu.codegen.scheduling.npu_scheduling import NpuScheduling
    from inductor_npu.codegen.wrapper.fx_wrapper import NpuFxWrapper
    from inductor_npu.codegen.wrapper.npu_wrapper import NpuWrapper
    from inductor_npu.device_interface.interface import NpuInterface
    from inductor_npu.device_interface.op_overrides import NpuDeviceOpOverrides

    assert get_scheduling_for_device("npu") is NpuScheduling
    assert get_wrapper_codegen_for_device("npu") is NpuWrapper
    assert get_wrapper_codegen_for_device("npu", fx_wrapper=True) is NpuFxWrapper
    assert get_interface_for_device("npu") is NpuInterface
    assert get_interface_for_device("npu:0") is NpuInterface
    assert isinstance(get_device_op_overrides("npu"), NpuDeviceOpOverrides)
    assert custom_backend_codegen_configs["npu"] is inductor_npu.config


def test_torch_keeps_its_own_overrides_for_its_own_devices() -> None:
    """Inductor loads its own all at once, and only while nobody has registered any: before ours are registered."""
    finished = run_forked(
        """
        import torch
        import torch._inductor.compile_fx  # after it our step runs
        from torch._inductor.codegen import common
        print("npu" in common.device_op_overrides_dict)
        for device in ("cpu", "cuda", "xpu", "npu"):
            overrides = type(common.get_device_op_overrides(device))
            print(device, overrides.__module__, overrides.__name__)
        """
    )
    assert finished.lines() == [
        "True",
        "cpu torch._inductor.codegen.cpu_device_op_overrides CpuDeviceOpOverrides",
        "cuda torch._inductor.codegen.cuda.device_op_overrides CUDADeviceOpOverrides",
        "xpu torch._inductor.codegen.xpu.device_op_overrides XPUDeviceOpOverrides",
        "npu inductor_npu.device_interface.op_overrides NpuDeviceOpOverrides",
    ]


def test_registering_again_changes_nothing() -> None:
    before = get_interface_for_device("npu")
    registration.register()
    assert get_interface_for_device("npu") is before


def test_triton_is_there_for_npu() -> None:
    from torch._inductor.scheduler import has_triton

    assert has_triton()


def test_npu_counts_as_a_gpu_for_inductor() -> None:
    from torch._inductor.utils import get_gpu_type, is_gpu

    assert is_gpu("npu")
    # Where torch has another accelerator, the GPU that Inductor's own defaults mean stays that one.
    is_npu = providers.current_provider() is providers.CUDA or not torch.cuda.is_available()
    assert get_gpu_type() == ("npu" if is_npu else "cuda")


@pytest.mark.parametrize(("provider", "expected"), [(providers.SIMULATOR, "cuda"), (providers.CUDA, "npu")])
def test_beside_a_gpu_inductors_own_passes_mean_npu_where_npu_is_that_gpu(
    monkeypatch: pytest.MonkeyPatch, provider: providers.Provider, expected: str
) -> None:
    from torch._inductor import utils

    monkeypatch.setattr(utils, "GPU_TYPES", ["cuda", "xpu"])
    monkeypatch.setattr(utils, "get_gpu_type", functools.cache(utils.get_gpu_type.__wrapped__))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(providers, "current_provider", lambda: provider)
    compat._extend_gpu_types()
    assert utils.get_gpu_type() == expected
    assert utils.GPU_TYPES == ["cuda", "xpu", "npu"]


@pytest.mark.slow
@pytest.mark.skipif(torch.version.cuda is not None, reason="GPUs, which this torch is built for, use the pool")
def test_compiling_starts_no_pool_of_processes() -> None:
    finished = run_forked(
        """
        import torch
        from torch._inductor import async_compile, config
        with config.patch(force_disable_caches=True):
            torch.compile(lambda x: torch.sin(x) + 1)(torch.randn(8, device="npu"))
        print(len(async_compile._pool_set))
        """
    )
    assert finished.lines() == ["0"]
