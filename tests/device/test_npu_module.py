"""The Python module torch.npu."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import ClassVar

import pytest
import torch

from tests.device.native_kernels import sleep
from tests.processes import run_forked


@pytest.mark.two_devices
def test_devices() -> None:
    assert torch.npu.is_available() and torch.accelerator.is_available()
    assert torch.npu.device_count() == torch.accelerator.device_count() == 2
    assert torch.accelerator.current_accelerator() == torch.device("npu")
    assert torch.get_device_module("npu") is torch.npu


@pytest.mark.two_devices
def test_the_current_device_is_chosen_by_thread() -> None:
    assert torch.npu.current_device() == 0
    with torch.npu.device(1):
        assert torch.npu.current_device() == torch.accelerator.current_device_index() == 1
        assert torch.ones(1, device="npu").device == torch.device("npu:1")
        with torch.npu.device(None), torch.npu.device(-1):
            assert torch.npu.current_device() == 1
        with torch.npu.device_of(torch.ones(1, device="npu:0")):
            assert torch.npu.current_device() == 0
        with torch.npu.device_of(torch.ones(1)):
            assert torch.npu.current_device() == 1
        seen: list[int] = []
        thread = threading.Thread(target=lambda: seen.append(torch.npu.current_device()))
        thread.start()
        thread.join()
        assert seen == [0]
    torch.npu.set_device("npu:1")
    assert torch.npu.current_device() == 1
    torch.npu.set_device(torch.device("npu:0"))
    assert torch.npu.current_device() == 0


@pytest.mark.parametrize(
    "use",
    [
        torch.npu.set_device,
        torch.npu.synchronize,
        torch.npu.current_stream,
        torch.npu.memory_stats,
        torch.npu.mem_get_info,
        lambda index: torch.npu.device(index).__enter__(),
        torch.npu.get_device_properties,
        torch.npu.get_rng_state,
        torch.npu.Stream,
    ],
)
def test_a_bad_device_index_is_refused(use) -> None:
    with pytest.raises((RuntimeError, AssertionError), match=r"(?i)9"):
        use(9)
    with pytest.raises(ValueError, match="expected an npu device, got cpu"):
        torch.npu.set_device("cpu")


@pytest.mark.embedded
def test_properties_are_those_of_the_target() -> None:
    properties = torch.npu.get_device_properties("npu:1")
    assert isinstance(properties, torch.npu.NpuDeviceProperties)
    assert properties.name == torch.npu.get_device_name() == "Ascend910B3"
    assert (properties.multi_processor_count, properties.vector_core_num, properties.cube_core_num) == (40, 40, 20)
    assert properties.total_memory == torch.npu.mem_get_info()[1]
    assert torch.npu.get_device_capability() is None
    assert torch.npu.can_device_access_peer(0, 1) and not torch.npu.can_device_access_peer(1, 1)
    assert torch.npu.is_bf16_supported() and torch.bfloat16 in torch.npu.get_amp_supported_dtype()


@pytest.mark.two_devices
def test_streams() -> None:
    default = torch.npu.default_stream()
    stream = torch.npu.Stream(priority=-1)
    assert isinstance(stream, torch.Stream) and stream != default == torch.npu.current_stream()
    with torch.npu.stream(stream) as inside:
        assert inside is stream and torch.npu.current_stream() == stream == torch.accelerator.current_stream()
        a = torch.ones(1 << 20, device="npu") * 2
        a.record_stream(default)
    assert torch.npu.current_stream() == default
    default.wait_stream(stream)
    stream.synchronize()
    assert stream.query() and a.sum().item() == 2 << 20
    assert stream.npu_stream != default.npu_stream
    torch.npu.set_stream(stream)
    assert torch.npu.current_stream() == stream
    torch.npu.set_stream(default)
    with torch.npu.StreamContext(stream):
        assert torch.npu.current_stream() == stream
    with torch.npu.stream(None):
        assert torch.npu.current_stream() == default
    other = torch.npu.Stream("npu:1")
    with torch.npu.stream(other):
        assert torch.npu.current_device() == 1 and torch.npu.current_stream("npu:1") == other
    assert torch.npu.current_device() == 0
    assert torch.npu.Stream(-1).device_index == torch.npu.current_device()
    assert repr(other).startswith("torch.npu.Stream(device=npu:1")
    assert not torch.npu.is_current_stream_capturing()


def test_events() -> None:
    start, end = torch.npu.Event(enable_timing=True), torch.npu.Event(enable_timing=True)
    assert isinstance(start, torch.npu.Event) and isinstance(torch.Event("npu"), torch.npu.Event)
    assert not isinstance(torch.npu.current_stream(), torch.npu.Event)
    stream = torch.npu.Stream()
    start.record()
    stream.wait_event(start)
    stream.record_event(end)
    end.synchronize()
    assert end.query() and start.elapsed_time(end) >= 0
    end.wait(torch.npu.current_stream())
    with pytest.raises(NotImplementedError, match="cannot be shared between processes"):
        torch.npu.Event(interprocess=True)


@pytest.mark.two_devices
def test_memory_statistics() -> None:
    torch.npu.empty_cache()
    before = torch.npu.memory_allocated()
    torch.npu.reset_peak_memory_stats()
    a = torch.empty(3 << 20, dtype=torch.uint8, device="npu")
    assert torch.npu.memory_allocated() == torch.accelerator.memory_allocated() == before + a.nbytes
    del a
    assert torch.npu.memory_allocated() == before
    assert torch.npu.max_memory_allocated() >= before + (3 << 20)
    assert torch.npu.max_memory_reserved() >= torch.npu.memory_reserved() >= before
    torch.npu.reset_accumulated_memory_stats()
    assert torch.npu.memory_stats()["allocated_bytes.all.allocated"] == 0
    assert torch.npu.memory_stats_as_nested_dict()["allocated_bytes"]["all"]["current"] == before
    free, total = torch.npu.mem_get_info("npu:1")
    assert 0 < free <= total and torch.npu.device_memory_used("npu:1") == total - free
    assert "Allocated memory" in torch.npu.memory_summary() and "npu:1" in torch.npu.memory_summary(1, abbreviated=True)
    assert all({"device", "total_size", "blocks"} <= segment.keys() for segment in torch.npu.memory_snapshot())


def test_old_names_of_functions_are_kept() -> None:
    assert torch.npu.memory_cached is torch.npu.memory_reserved
    assert torch.npu.max_memory_cached is torch.npu.max_memory_reserved
    a = torch.empty(1 << 20, device="npu")
    del a
    for reset in (torch.npu.reset_max_memory_allocated, torch.npu.reset_max_memory_cached):
        reset()
        assert torch.npu.max_memory_allocated() == torch.npu.memory_allocated()


@pytest.mark.two_devices
def test_memory_can_be_limited() -> None:
    torch.npu.empty_cache()
    torch.npu.set_per_process_memory_fraction(0.01, 1)
    try:
        with pytest.raises(torch.OutOfMemoryError, match=r"(?i)out of memory"):
            torch.empty(torch.npu.mem_get_info(1)[1] // 50, dtype=torch.uint8, device="npu:1")
    finally:
        torch.npu.set_per_process_memory_fraction(1.0, 1)
    with pytest.raises(ValueError, match="above 0 and at most 1"):
        torch.npu.set_per_process_memory_fraction(1.5)


@pytest.mark.two_devices
def test_the_limit_of_memory_can_be_asked_for() -> None:
    torch.npu.set_per_process_memory_fraction(0.25, 1)
    try:
        assert torch.npu.get_per_process_memory_fraction(1) == pytest.approx(0.25)
    finally:
        torch.npu.set_per_process_memory_fraction(1.0, 1)
    assert torch.npu.get_per_process_memory_fraction("npu:1") == 1
    assert torch.npu.get_allocator_backend() == "native"


def test_memory_for_other_libraries() -> None:
    before = torch.npu.memory_allocated()
    address = torch.npu.caching_allocator_alloc(1024)
    assert torch.npu.memory_allocated() == before + 1024
    torch.npu.caching_allocator_delete(address)
    assert torch.npu.memory_allocated() == before


def test_utilization_is_the_share_of_time_with_work() -> None:
    torch.npu.synchronize()
    assert torch.npu.utilization() == 0
    sleep(200)
    assert torch.npu.utilization("npu:0") == 100
    torch.npu.synchronize()


def test_autocast_has_switches_of_its_own() -> None:
    assert not torch.npu.is_autocast_enabled()
    with torch.npu.amp.autocast(dtype=torch.bfloat16):
        assert torch.npu.is_autocast_enabled() and torch.npu.get_autocast_dtype() == torch.bfloat16
        torch.npu.set_autocast_enabled(False)
        assert not torch.npu.is_autocast_enabled()
        torch.npu.set_autocast_dtype(torch.float16)
        assert torch.npu.get_autocast_dtype() == torch.float16


def test_pinned_memory_is_counted() -> None:
    torch.npu.init()
    torch.npu.host_empty_cache()
    torch.npu.reset_peak_host_memory_stats()
    torch.npu.reset_accumulated_host_memory_stats()
    before = torch.npu.host_memory_stats()
    x = torch.ones(5000, dtype=torch.uint8).pin_memory()
    stats = torch.npu.host_memory_stats()
    assert stats["active_requests.current"] == before["active_requests.current"] + 1
    assert stats["allocated_bytes.current"] >= before["allocated_bytes.current"] + 5000
    assert torch.npu.host_memory_stats_as_nested_dict()["num_host_alloc"] == stats["num_host_alloc"] >= 1
    del x
    torch.npu.host_empty_cache()
    assert torch.npu.host_memory_stats()["allocated_bytes.current"] == before["allocated_bytes.current"]


class TestSyncDebugMode:
    @pytest.fixture(autouse=True)
    def _off(self) -> Iterator[None]:
        yield
        torch.npu.set_sync_debug_mode("default")
        assert torch.npu.get_sync_debug_mode() == 0

    WAITS: ClassVar = [
        (lambda x: x[0].item(), r"item\(\) makes the host wait"),
        (lambda x: x.cpu(), "a copy between host and device makes the host wait"),
        (lambda x: x.copy_(torch.ones(4)), "a copy between host and device"),
        (lambda x: x.nonzero(), "aten::nonzero makes the host wait"),
        (lambda x: x[x > 0], "makes the host wait"),
    ]

    @pytest.mark.parametrize(("call", "message"), WAITS)
    def test_what_makes_the_host_wait_is_an_error_or_a_warning(self, call, message) -> None:
        x = torch.ones(4, device="npu")
        torch.npu.set_sync_debug_mode("error")
        with pytest.raises(RuntimeError, match=message):
            call(x)
        torch.npu.set_sync_debug_mode(1)
        with pytest.warns(UserWarning, match=message):
            call(x)

    def test_what_runs_on_the_device_is_not(self) -> None:
        x, pinned = torch.ones(4, device="npu"), torch.ones(4).pin_memory()
        torch.npu.set_sync_debug_mode(2)
        y = (x + 1).sum()
        x.copy_(pinned, non_blocking=True)
        torch.npu.synchronize()
        assert torch.npu.get_sync_debug_mode() == 2 and y.shape == ()

    @pytest.mark.parametrize("mode", [3, -1, "loud"])
    def test_other_modes_are_refused(self, mode) -> None:
        with pytest.raises(ValueError, match="the mode must be one of"):
            torch.npu.set_sync_debug_mode(mode)


def test_backends() -> None:
    import importlib

    backend = importlib.import_module("torch.backends.npu")
    assert backend is torch.backends.npu and backend.is_built() and backend.is_available()
    assert backend.matmul is torch.npu.matmul and backend.conv is torch.npu.conv
    with pytest.raises(AttributeError, match="it has is_available, is_built, matmul and conv"):
        _ = backend.flash_sdp_enabled


def test_switches_of_cann_may_say_what_is_so_anyway() -> None:
    torch.npu.set_compile_mode(jit_compile=False)
    torch.npu.config.allow_internal_format = False
    torch.npu.matmul.allow_hf32 = torch.npu.conv.allow_hf32 = True  # a permission
    assert torch.npu.is_jit_compile_false() and not torch.npu.config.allow_internal_format
    with pytest.raises(NotImplementedError, match="use set_compile_mode"):
        torch.npu.set_compile_mode(jit_compile=True)
    with pytest.raises(NotImplementedError, match=r"set torch\.npu\.config\.allow_internal_format to False"):
        torch.npu.config.allow_internal_format = True


def test_every_public_name_is_there() -> None:
    assert [name for name in torch.npu.__all__ if not hasattr(torch.npu, name)] == []


def test_submodules_can_be_imported_by_name() -> None:
    import importlib

    submodules = (torch.npu.amp, torch.npu.graphs, torch.npu.memory, torch.npu.random, torch.npu.streams)
    for module in submodules:
        assert importlib.import_module(f"torch.npu.{module.__name__.rpartition('.')[2]}") is module


def test_installing_again_changes_nothing() -> None:
    module = torch.npu
    module.install()
    assert torch.npu is module


@pytest.mark.embedded
def test_asking_about_the_device_does_not_open_it() -> None:
    output = run_forked(
        "import torch\n"
        "torch.manual_seed(7)\n"
        "torch.npu.manual_seed_all(7)\n"
        "print(torch.npu.device_count(), torch.npu.get_device_name())\n"
        "print(torch.npu.memory_allocated(), torch.npu.is_available())\n"
        "print(torch.npu.is_initialized())\n"
        "torch.npu.init()\n"
        "print(torch.npu.is_initialized(), torch.npu.initial_seed(), torch.npu.current_device())\n",
        INDUCTOR_NPU_SIM_DEVICES="3",
    )
    assert output.lines() == ["3 Ascend910B3", "0 True", "False", "True 7 0"]


def test_a_child_forked_after_the_first_use_gets_a_clear_error() -> None:
    output = run_forked(
        "import os, torch\n"
        "torch.ones(1, device='npu')\n"
        "if os.fork() == 0:\n"
        "    assert torch.npu._is_in_bad_fork() and not torch.npu.is_available() and not torch.npu.is_initialized()\n"
        "    torch.manual_seed(0)\n"
        "    try:\n"
        "        torch.npu.current_device()\n"
        "    except RuntimeError as error:\n"
        "        print(error, flush=True)\n"
        "    os._exit(0)\n"
        "os.wait()\n"
    )
    assert "Cannot use device npu in a forked subprocess" in "\n".join(output.lines())
