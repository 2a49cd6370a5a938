"""What Dynamo and Inductor ask of the device `npu`."""

from __future__ import annotations

import torch
from torch._dynamo.device_interface import DeviceGuard, get_interface_for_device

from inductor_npu import providers
from inductor_npu.device_interface.benchmarker import benchmark_npu
from inductor_npu.device_interface.properties import device_properties
from tests.processes import run_forked

npu = get_interface_for_device("npu")


def test_properties_are_those_of_the_target() -> None:
    target = providers.current_target()
    properties = npu.get_device_properties()
    assert (properties.name, properties.multi_processor_count) == (target.name, target.vector_cores)
    assert npu.get_compute_capability() == target.name


def test_asking_for_properties_does_not_open_the_device() -> None:
    finished = run_forked(
        """
        import torch
        from torch._dynamo.device_interface import get_interface_for_device
        npu = get_interface_for_device("npu")
        npu.Worker.get_device_properties(), npu.is_available(), npu.is_bf16_supported(), npu.get_compute_capability()
        print(torch.npu.is_initialized())
        """
    )
    assert finished.lines()[-1] == "False"


def test_guard_switches_and_restores_the_device() -> None:
    before = npu.current_device()
    with DeviceGuard(npu, npu.device_count() - 1):
        assert npu.current_device() == npu.device_count() - 1
    assert npu.current_device() == before


def test_streams_and_events() -> None:
    assert issubclass(npu.Stream, torch.Stream)
    assert issubclass(npu.Event, torch.Event)
    stream, default = npu.Stream(), torch.npu.default_stream().npu_stream
    assert npu.get_raw_stream(0) == default
    with npu.stream(stream):
        assert npu.current_stream() == stream
        assert npu.get_raw_stream(0) == stream.npu_stream != default
    assert npu.get_raw_stream(0) == default
    npu.synchronize()


def test_dtypes() -> None:
    assert npu.is_bf16_supported()
    assert all(npu.is_dtype_supported(dtype) for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.int64))


def test_triton_is_available() -> None:
    assert npu.is_triton_capable()
    npu.raise_if_triton_unavailable()


def test_memory_allocated_counts_bytes() -> None:
    before = npu.memory_allocated()
    kept = torch.empty(1 << 20, dtype=torch.uint8, device="npu")
    assert npu.memory_allocated() - before >= kept.numel()


def test_worker_remembers_its_device_without_touching_any() -> None:
    from torch._dynamo.device_interface import caching_worker_current_devices

    npu.Worker.set_device(0)
    assert npu.Worker.current_device() == 0
    caching_worker_current_devices.pop("npu")


def test_benchmarker_gives_milliseconds() -> None:
    x = torch.randn(1 << 16).to("npu")
    milliseconds = benchmark_npu(None, lambda: x.exp(), rep=5)
    assert 0 < milliseconds < 1000


def test_properties_are_made_once() -> None:
    assert device_properties() is device_properties()
