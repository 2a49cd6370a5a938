"""The Python module torch.npu."""

from __future__ import annotations

import threading

import pytest
import torch

from tests.processes import run_python


def test_devices() -> None:
    assert torch.npu.is_available() and torch.accelerator.is_available()
    assert torch.npu.device_count() == torch.accelerator.device_count() == 2
    assert torch.accelerator.current_accelerator() == torch.device("npu")
    assert torch.get_device_module("npu") is torch.npu


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


def test_properties_are_those_of_the_target() -> None:
    properties = torch.npu.get_device_properties("npu:1")
    assert properties.name == torch.npu.get_device_name() == "Ascend910B3"
    assert (properties.multi_processor_count, properties.vector_core_num, properties.cube_core_num) == (40, 40, 20)
    assert properties.total_memory == torch.npu.mem_get_info()[1]
    assert torch.npu.get_device_capability() is None
    assert torch.npu.can_device_access_peer(0, 1) and not torch.npu.can_device_access_peer(1, 1)
    assert torch.npu.is_bf16_supported() and torch.bfloat16 in torch.npu.get_amp_supported_dtype()


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
    with torch.npu.stream(None):
        assert torch.npu.current_stream() == default
    other = torch.npu.Stream("npu:1")
    with torch.npu.stream(other):
        assert torch.npu.current_device() == 1 and torch.npu.current_stream("npu:1") == other
    assert torch.npu.current_device() == 0
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
    assert 0 < free <= total
    assert "Allocated memory" in torch.npu.memory_summary() and "npu:1" in torch.npu.memory_summary(1, abbreviated=True)
    assert all({"device", "total_size", "blocks"} <= segment.keys() for segment in torch.npu.memory_snapshot())


def test_memory_can_be_limited() -> None:
    torch.npu.empty_cache()
    torch.npu.set_per_process_memory_fraction(0.01, 1)
    try:
        with pytest.raises(torch.OutOfMemoryError, match=r"(?i)out of memory"):
            torch.empty(torch.npu.mem_get_info(1)[1] // 50, dtype=torch.uint8, device="npu:1")
    finally:
        torch.npu.set_per_process_memory_fraction(1.0, 1)
    with pytest.raises(ValueError, match="from 0 to 1"):
        torch.npu.set_per_process_memory_fraction(1.5)


def test_memory_for_other_libraries() -> None:
    before = torch.npu.memory_allocated()
    address = torch.npu.caching_allocator_alloc(1024)
    assert torch.npu.memory_allocated() == before + 1024
    torch.npu.caching_allocator_delete(address)
    assert torch.npu.memory_allocated() == before


def test_submodules_can_be_imported_by_name() -> None:
    import importlib

    for name in ("amp", "memory", "random", "streams"):
        assert importlib.import_module(f"torch.npu.{name}") is getattr(torch.npu, name)


def test_installing_again_changes_nothing() -> None:
    module = torch.npu
    module.install()
    assert torch.npu is module


def test_asking_about_the_device_does_not_open_it() -> None:
    output = run_python(
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
    output = run_python(
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
