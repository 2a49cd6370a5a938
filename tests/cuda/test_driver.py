"""Loading and launching on a GPU, with a recorder in the place of its C++ runtime."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from inductor_npu.cuda.triton_backend import driver as module
from inductor_npu.cuda.triton_backend.compile_only import CompileOnlyDriver
from inductor_npu.cuda.triton_backend.driver import CudaNpuDriver
from inductor_npu.cuda.triton_backend.image import packed, unpacked
from inductor_npu.errors import UnsupportedLaunchError
from inductor_npu.simulator.triton_backend.driver import NpuDriver
from tests.processes import run_python

PLAIN = {
    "name": "kernel",
    "num_warps": 8,
    "shared": 4096,
    "global_scratch_size": 0,
    "profile_scratch_size": 0,
    "launch_cooperative_grid": False,
    "num_ctas": 1,
    "tensordesc_meta": [],
    "target": SimpleNamespace(backend="npu"),
}


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What is asked of the runtime."""
    made: list[tuple[Any, ...]] = []

    def record(name: str, result: Any) -> Any:
        return lambda *arguments: made.append((name, *arguments)) or result

    runtime = SimpleNamespace(
        load_kernel=record("load_kernel", (1, 2, 40, 0, 1024)),
        KernelLauncher=record("KernelLauncher", record("launch", None)),
        current_device=record("current_device", 3),
        get_raw_stream=record("get_raw_stream", 77),
        set_device=record("set_device", None),
    )
    monkeypatch.setattr(module, "_runtime", lambda: runtime)
    return made


def source(**signature: object) -> SimpleNamespace:
    return SimpleNamespace(signature=signature, constants={}, fn=SimpleNamespace(arg_names=list(signature)))


def metadata(**changed: Any) -> SimpleNamespace:
    return SimpleNamespace(**{**PLAIN, **changed})


@pytest.mark.usefixtures("for_h100")
def test_a_kernel_is_loaded_with_its_threads_and_shared_memory(calls: list[Any]) -> None:
    loaded = CudaNpuDriver().utils.load_binary("kernel", packed(b"cubin", 256), 4096, 0)
    assert calls == [("load_kernel", "kernel", b"cubin", 4096, 256)]
    assert loaded == (1, 2, 40, 0, 1024)


def test_a_damaged_kernel_is_not_unpacked() -> None:
    with pytest.raises(ValueError, match="kernel softmax cannot be loaded"):
        unpacked(packed(b"cubin", 256)[:-1], "softmax")


@pytest.mark.usefixtures("for_h100")
def test_kernels_of_torch_cuda_are_left_to_its_driver(monkeypatch: pytest.MonkeyPatch, calls: list[Any]) -> None:
    cuda = SimpleNamespace(
        utils=SimpleNamespace(load_binary=lambda *arguments: ("loaded", *arguments)),
        launcher_cls=lambda src, metadata: "launcher",
    )
    monkeypatch.setattr(module, "cuda_driver", lambda: cuda)
    driver = CudaNpuDriver()
    assert driver.utils.load_binary("kernel", b"cubin", 4096, 0) == ("loaded", "kernel", b"cubin", 4096, 0)
    assert driver.launcher_cls(None, SimpleNamespace(target=SimpleNamespace(backend="cuda"))) == "launcher"
    assert calls == []


@pytest.mark.usefixtures("for_h100")
def test_a_launcher_is_made_of_the_signatures_letters(calls: list[Any]) -> None:
    launch = CudaNpuDriver().launcher_cls(source(x="*fp32", n="i32", BLOCK="constexpr"), metadata())
    assert calls == [("KernelLauncher", "pi-")]
    launch(7, 1, 1, 77, 2, None, None, None, None, 0, 5, 64)
    assert calls[-1] == ("launch", 7, 1, 1, 77, 2, None, None, None, None, 0, 5, 64)


@pytest.mark.usefixtures("for_h100", "calls")
def test_device_and_stream_are_the_runtimes() -> None:
    driver = CudaNpuDriver()
    assert (driver.get_current_device(), driver.get_current_stream(3)) == (3, 77)
    target = driver.get_current_target()
    assert (target.backend, target.arch, target.warp_size) == ("npu", "H100", 32)
    assert driver.utils.get_device_properties(0)["max_shared_mem"] == 227 * 1024


REFUSED = {
    "global_scratch_size": (128, "scratch in global memory"),
    "profile_scratch_size": (128, "scratch for profiles"),
    "launch_cooperative_grid": (True, "a cooperative grid"),
    "num_ctas": (2, "clusters"),
    "tensordesc_meta": ([{"swizzle": 1}], "descriptors of tensors"),
}


@pytest.mark.usefixtures("for_h100", "calls")
@pytest.mark.parametrize("needed", REFUSED)
@pytest.mark.parametrize("driver", [CudaNpuDriver, CompileOnlyDriver])
def test_what_launches_do_not_have_is_refused(driver: type[CudaNpuDriver], needed: str) -> None:
    value, reason = REFUSED[needed]
    with pytest.raises(UnsupportedLaunchError, match=f"kernel kernel needs {reason}"):
        driver().launcher_cls(source(x="*fp32"), metadata(**{needed: value}))


@pytest.mark.usefixtures("for_h100")
def test_a_process_that_only_compiles_loads_nothing(calls: list[Any]) -> None:
    driver = CompileOnlyDriver()
    assert driver.get_current_device() == 0
    assert driver.utils.load_binary("kernel", b"cubin", 0, 0) == (0, 0, 0, 0, 1024)
    driver.launcher_cls(source(x="*fp32"), metadata())
    assert calls == []


def test_where_the_embedded_npu_is_the_device_it_is_not_active() -> None:
    assert NpuDriver.is_active() and not CudaNpuDriver.is_active()


SELECTED = """
import triton
from triton.backends import backends
from triton.runtime import driver
from inductor_npu.cuda.triton_backend import selection

print(backends["npu"].compiler.__name__)
selection.install()
selection.install()
print(next(iter(backends)), backends["npu"].compiler.__name__, backends["npu"].driver.__name__)
print(type(driver.active).__name__, driver.active.get_current_target().arch)
"""


@pytest.mark.slow
def test_installed_it_takes_the_place_of_the_embedded_npus() -> None:
    done = run_python(SELECTED, INDUCTOR_NPU_PROVIDER="none", INDUCTOR_NPU_TARGET="H200")
    assert done.lines() == ["NpuBackend", "npu CudaNpuBackend CudaNpuDriver", "CudaNpuDriver H200"]
