"""The time line of the device in torch.profiler: kernels, operators of the library, copies, waits, and who asked for
them (docs/profiling.md).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile, record_function

from inductor_npu.device import build
from tests.device.native_kernels import launch, register, sleep
from tests.device.npu_process import run_on_npu

# A GPU's own tracer tells what it does (tests/cuda/test_profile.py).
pytestmark = pytest.mark.embedded

CPU_AND_NPU = [ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]


def profiled(**options: Any) -> profile:
    torch.npu.synchronize()
    return profile(activities=CPU_AND_NPU, **options)


def device_events(profiler: profile, name: str | None = None) -> list[Any]:
    """The events on npu, named ranges left out."""
    return [
        event
        for event in profiler.events()
        if event.device_type == DeviceType.PrivateUse1 and not event.is_user_annotation and name in (None, event.name)
    ]


def host_event(profiler: profile, name: str) -> Any:
    (event,) = [event for event in profiler.events() if event.device_type == DeviceType.CPU and event.name == name]
    return event


class Trace:
    """The Chrome trace of a profile."""

    def __init__(self, profiler: profile, folder: Path) -> None:
        path = folder / "trace.json"
        profiler.export_chrome_trace(str(path))  # PyTorch writes a profile once
        self.events: list[dict[str, Any]] = json.loads(path.read_text())["traceEvents"]

    def of(self, category: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event.get("cat") == category]

    def rows(self) -> dict[tuple[int, int], str]:
        """The names of the device's rows, by device and stream."""
        named = [event for event in self.events if event["name"] == "thread_name"]
        rows = {(event["pid"], event["tid"]): event["args"]["name"] for event in named}
        return {row: name for row, name in rows.items() if name.startswith("stream ")}

    def groups(self) -> dict[int, str]:
        """The names of the groups of rows, by device or process."""
        return {event["pid"]: event["args"]["name"] for event in self.events if event["name"] == "process_name"}


class TestKernels:
    def test_name_device_stream_and_time(self):
        with profiled() as profiler:
            launch(register("nothing", name="first"), "", grid=(4, 1, 1))
            sleep(3)
        first, slept = device_events(profiler)
        assert (first.name, first.device_index, first.device_resource_id) == ("first", 0, 0)
        assert slept.name == "sleep" and 3000 <= slept.device_time_total < 1_000_000
        assert first.time_range.start <= first.time_range.end <= slept.time_range.start
        assert profiler.events()[0].time_range.start <= first.time_range.start

    def test_times_are_the_launch_records(self):
        record = build.load().launch_record
        record(True)
        with profiled() as profiler:
            for _ in range(5):
                sleep(1)
        launches = record(False)
        total = sum(launch["end_ns"] - launch["begin_ns"] for launch in launches) / 1000
        (row,) = [row for row in profiler.key_averages() if row.key == "sleep" and row.device_time_total > 0]
        assert row.count == 5 and row.self_device_time_total == pytest.approx(total, rel=1e-4)
        assert profiler.key_averages().table(sort_by="self_device_time_total").count("Self NPU") >= 2

    def test_time_belongs_to_the_range_that_launched(self):
        with profiled() as profiler:
            with record_function("outer"):
                with record_function("inner"):
                    sleep(2)
                sleep(1)
            sleep(1)
        inner, outer = host_event(profiler, "inner"), host_event(profiler, "outer")
        by_start = sorted(device_events(profiler, "sleep"), key=lambda event: event.time_range.start)
        assert [kernel.name for kernel in inner.kernels] == ["sleep"]
        assert inner.device_time_total == pytest.approx(by_start[0].device_time_total)
        assert outer.device_time_total == pytest.approx(sum(event.device_time_total for event in by_start[:2]))

    def test_chrome_trace_has_grid_stream_and_an_arrow_from_the_launch(self, tmp_path):
        with profiled() as profiler:
            launch(register("nothing", name="shown"), "", grid=(4, 3, 2))
        trace = Trace(profiler, tmp_path)
        (kernel,) = trace.of("kernel")
        assert kernel["name"] == "shown" and kernel["args"]["grid"] == [4, 3, 2]
        assert (kernel["args"]["stream"], kernel["args"]["device"], kernel["pid"], kernel["tid"]) == (0, 0, 0, 0)
        (queued,) = [event for event in trace.of("privateuse1_runtime") if event["name"] == "npuLaunchKernel"]
        end, start = sorted(trace.of("ac2g"), key=lambda event: event["ph"])
        assert (start["ph"], end["ph"]) == ("s", "f") and start["id"] == end["id"]
        assert (start["pid"], start["tid"], start["ts"]) == (queued["pid"], queued["tid"], queued["ts"])
        assert (end["pid"], end["tid"], end["ts"]) == (0, 0, kernel["ts"])

    def test_what_a_kernel_counts_is_in_its_arguments(self, tmp_path):
        with profiled() as profiler:
            launch(register("count", name="counted", work_per_program=10_000), "", grid=(10, 2, 1))
        (kernel,) = Trace(profiler, tmp_path).of("kernel")
        assert (kernel["args"]["bytes read"], kernel["args"]["bytes written"]) == (160, 80)

    def test_a_kernel_that_fails_is_shown_and_raises(self):
        kernel = register("assert_not", name="failing", messages=("one", "two"))
        with pytest.raises(RuntimeError, match="failing"), profiled() as profiler:
            launch(kernel, "l", 0)
        assert len(device_events(profiler, "failing")) <= 1
        with profiled() as after:
            sleep(1)
        assert len(device_events(after)) == 1


class TestStreamsAndDevices:
    def test_each_stream_has_a_row(self, tmp_path):
        side = torch.npu.Stream()
        with profiled() as profiler:
            sleep(5)
            sleep(5, stream=side)
        one, two = sorted(device_events(profiler, "sleep"), key=lambda event: event.device_resource_id)
        assert (one.device_resource_id, two.device_resource_id) == (0, side.stream_id)
        rows = Trace(profiler, tmp_path).rows()
        assert rows == {(0, 0): "stream 0 (default)", (0, side.stream_id): f"stream {side.stream_id}"}

    @pytest.mark.two_devices
    def test_each_device_has_a_group_of_rows(self, tmp_path):
        with profiled() as profiler:
            for device in range(2):
                with torch.npu.device(device):
                    sleep(1)
            torch.npu.synchronize(1)
        assert sorted(event.device_index for event in device_events(profiler, "sleep")) == [0, 1]
        trace = Trace(profiler, tmp_path)
        assert sorted(trace.rows()) == [(0, 0), (1, 0)]
        assert [trace.groups()[device][:5] for device in range(2)] == ["npu:0", "npu:1"]

    def test_a_wait_for_another_stream_is_shown_but_is_no_device_time(self, tmp_path):
        side, event = torch.npu.Stream(), torch.npu.Event()
        with profiled() as profiler:
            sleep(5)
            event.record()
            side.wait_event(event)
            sleep(1, stream=side)
        ranges = Trace(profiler, tmp_path).of("gpu_user_annotation")
        waits = [shown for shown in ranges if shown["name"] == "wait for event"]
        assert [wait["tid"] for wait in waits] == [side.stream_id]
        assert [event.name for event in device_events(profiler)] == ["sleep", "sleep"]
        assert host_event(profiler, "npuStreamWaitEvent").cpu_time_total >= 0

    @pytest.mark.parametrize(
        ("wait", "name"),
        [
            (torch.npu.synchronize, "npuDeviceSynchronize"),
            (lambda: torch.npu.current_stream().synchronize(), "npuStreamSynchronize"),
        ],
    )
    def test_synchronisations_are_calls_on_the_host(self, wait, name):
        with profiled() as profiler, record_function("here"):
            sleep(50)
            wait()
        calls = [event for event in profiler.events() if event.name == name]
        assert calls[0].device_type == DeviceType.CPU and calls[0].cpu_time_total >= 3000

    def test_event_synchronisation(self):
        event = torch.npu.Event()
        with profiled() as profiler:
            sleep(50)
            event.record()
            event.synchronize()
        assert host_event(profiler, "npuEventSynchronize").cpu_time_total >= 3000


class TestLibrary:
    def test_an_operator_is_device_time_of_itself(self):
        a = torch.randn(128, 128, device="npu")
        with profiled() as profiler:
            a @ a
        (shown,) = device_events(profiler, "aten::mm")
        mm, matmul = host_event(profiler, "aten::mm"), host_event(profiler, "aten::matmul")
        assert [kernel.name for kernel in mm.kernels] == ["aten::mm"]
        assert 0 < mm.device_time_total == matmul.device_time_total == shown.device_time_total <= mm.cpu_time_total

    def test_views_take_no_device_time(self):
        a = torch.randn(8, 8, device="npu")
        with profiled() as profiler:
            a.t()[1:].view(7, 8)
        assert device_events(profiler) == []

    def test_convolution_and_its_gradients(self):
        x = torch.randn(1, 2, 8, 8, device="npu", requires_grad=True)
        w = torch.randn(2, 2, 3, 3, device="npu", requires_grad=True)
        with profiled() as profiler:
            torch.nn.functional.conv2d(x, w).sum().backward()
        names = {event.name for event in device_events(profiler)}
        assert {"aten::convolution_overrideable", "aten::convolution_backward_overrideable"} <= names

    def test_no_time_is_counted_twice(self):
        a = torch.randn(128, 128, device="npu")
        with profiled() as profiler:
            (a @ a).relu()
        total = sum(event.device_time_total for event in device_events(profiler))
        top = [event for event in profiler.events() if event.device_type == DeviceType.CPU and event.cpu_parent is None]
        assert sum(event.device_time_total for event in top) == pytest.approx(total)
        assert not any(getattr(event, "is_legacy", False) for event in profiler.events())


class TestCopies:
    @pytest.mark.parametrize(
        ("source", "target", "name"),
        [
            ("cpu", "npu", "Memcpy HtoD (Pageable -> Device)"),
            ("npu", "cpu", "Memcpy DtoH (Device -> Pageable)"),
            pytest.param("npu", "npu:1", "Memcpy DtoD (Device -> Device)", marks=pytest.mark.two_devices),
        ],
    )
    def test_direction_and_bytes(self, tmp_path, source, target, name):
        x = torch.ones(1000, device=source)
        with profiled() as profiler:
            x.to(target)
        (copy,) = Trace(profiler, tmp_path).of("gpu_memcpy")
        assert copy["name"] == name and copy["args"]["bytes"] == 4000
        assert len(device_events(profiler, name)) == 1

    def test_queued_copies_have_an_arrow(self, tmp_path):
        host, device = torch.ones(1000).pin_memory(), torch.empty(1000, device="npu")
        with profiled() as profiler:
            device.copy_(host, non_blocking=True)
            host.copy_(device, non_blocking=True)
        trace = Trace(profiler, tmp_path)
        copies = trace.of("gpu_memcpy")
        names = ["Memcpy HtoD (Pinned -> Device)", "Memcpy DtoH (Device -> Pinned)"]
        assert [copy["name"] for copy in copies] == names
        starts = {event["id"] for event in trace.of("ac2g") if event["ph"] == "s"}
        assert starts == {copy["args"]["correlation"] for copy in copies}

    def test_large_copies_within_a_device_are_queued(self):
        x = torch.ones(1 << 18, device="npu")
        with profiled() as profiler:
            x.clone()
        assert [event.name for event in device_events(profiler)] == ["Memcpy DtoD (Device -> Device)"]

    def test_a_conversion_within_a_device_is_an_operator(self):
        x = torch.ones(1000, device="npu")
        with profiled() as profiler:
            x.to(torch.float64)
        assert [event.name for event in device_events(profiler)] == ["aten::copy_"]

    def test_reading_one_element(self, tmp_path):
        x = torch.ones(1, device="npu")
        with profiled() as profiler:
            x.item()
        (copy,) = Trace(profiler, tmp_path).of("gpu_memcpy")
        assert copy["name"] == "Memcpy DtoH (Device -> Pageable)" and copy["args"]["bytes"] == 4


class TestProfiles:
    def test_memory_events(self, tmp_path):
        with profiled(profile_memory=True) as profiler:
            x = torch.empty(1 << 20, dtype=torch.uint8, device="npu")
            del x
        row = {row.key: row for row in profiler.key_averages()}["aten::empty"]
        assert row.device_memory_usage == 1 << 20
        changes = [event["args"]["Bytes"] for event in Trace(profiler, tmp_path).of("cpu_instant_event")]
        assert changes == [1 << 20, -(1 << 20)]

    def test_only_what_runs_inside_is_shown_and_nothing_observes_afterwards(self):
        observed = build.load().observer_count
        for _ in range(3):
            sleep(1)
            with profiled() as profiler:
                assert observed() == 1
                sleep(1)
            assert observed() == 0
            assert len(device_events(profiler)) == 1

    def test_work_queued_before_has_no_link(self, tmp_path):
        sleep(300)
        launch(register("nothing", name="before"), "")
        with profile(activities=CPU_AND_NPU) as profiler, record_function("range"):
            torch.npu.synchronize()
        assert [event.name for event in device_events(profiler)][-1:] == ["before"]  # where the sleep ends, too
        assert host_event(profiler, "range").kernels == [] and Trace(profiler, tmp_path).of("ac2g") == []

    def test_work_of_another_thread_is_shown(self, tmp_path):
        with profiled() as profiler:
            thread = threading.Thread(target=sleep, args=(1,))
            thread.start()
            number = thread.native_id
            thread.join()
        assert len(device_events(profiler, "sleep")) == 1
        calls = Trace(profiler, tmp_path).of("privateuse1_runtime")
        assert [call["tid"] for call in calls if call["name"] == "npuLaunchKernel"] == [number]

    def test_a_schedule_shows_the_active_steps(self):
        shown: list[list[str]] = []
        schedule = torch.profiler.schedule(wait=1, warmup=1, active=2, repeat=2)
        with profiled(
            schedule=schedule, on_trace_ready=lambda done: shown.append([e.name for e in device_events(done)])
        ) as profiler:
            for step in range(8):
                launch(register("nothing", name=f"step{step}"), "")
                torch.npu.synchronize()
                profiler.step()
        assert shown == [["step2", "step3"], ["step6", "step7"]]

    def test_stacks(self):
        with profiled(with_stack=True) as profiler:
            sleep(1)
        assert len(device_events(profiler, "sleep")) == 1

    def test_a_profile_of_the_cpu_alone_shows_no_device(self):
        with profile(activities=[ProfilerActivity.CPU]) as profiler:
            assert build.load().observer_count() == 0
            sleep(1)
            torch.npu.synchronize()
        assert device_events(profiler) == []

    def test_a_profile_without_work_of_the_device(self, tmp_path):
        with profiled() as profiler:
            torch.ones(4) + 1
        assert device_events(profiler) == [] and Trace(profiler, tmp_path).of("kernel") == []
        assert "aten::add" in {row.key for row in profiler.key_averages()}

    def test_threads_of_the_backward_pass_link_their_operators(self):
        x = torch.randn(64, 64, device="npu", requires_grad=True)
        with profiled() as profiler:
            (x @ x).sum().backward()
        backward = [event for event in profiler.events() if event.name == "aten::mm" and event.kernels]
        assert len(backward) == 3

    def test_events_measure_where_kineto_is_off(self):
        a = torch.randn(64, 64, device="npu")
        with torch.autograd.profiler.profile(use_device="npu", use_kineto=False) as profiler:
            a @ a
        assert build.load().observer_count() == 0
        assert [event for event in profiler.function_events if event.device_type == DeviceType.PrivateUse1] == []


FORKED = """
import os, torch
from torch.profiler import ProfilerActivity, profile
both = [ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]
if os.fork() == 0:
    with profile(activities=both) as profiler:
        torch.ones(4, device="npu") + 1
    print(len([e for e in profiler.events() if e.name == "aten::add" and e.kernels]), flush=True)
    os._exit(0)
print(os.waitstatus_to_exitcode(os.wait()[1]))
with profile(activities=both):
    torch.ones(4, device="npu") + 1
if os.fork() == 0:
    try:
        torch.ones(4, device="npu")
    except RuntimeError as error:
        print("used it before the fork" in str(error), flush=True)
    os._exit(0)
print(os.waitstatus_to_exitcode(os.wait()[1]))
"""


@pytest.mark.slow
def test_forks_are_as_without_profiles():
    lines = [line for line in run_on_npu(FORKED).lines() if "USDT" not in line]
    assert lines == ["1", "0", "True", "0"]


@pytest.fixture
def compiled() -> Iterator[tuple[Any, torch.Tensor]]:
    """A compiled function of two kernels that has run once, and its argument."""
    torch._dynamo.reset()
    function = torch.compile(lambda x: torch.softmax(x, -1).sum(0))
    x = torch.randn(64, 200, device="npu")
    function(x)
    yield function, x
    torch._dynamo.reset()


def test_a_compiled_model_shows_its_kernels(compiled, tmp_path):
    function, x = compiled
    record = build.load().launch_record
    record(True)
    with profiled() as profiler, record_function("model"):
        function(x)
    launches = record(False)
    shown = device_events(profiler)
    assert [event.name for event in shown] == [launch["name"] for launch in launches] and shown
    grids = [event["args"]["grid"] for event in Trace(profiler, tmp_path).of("kernel")]
    assert [grid[0] * grid[1] * grid[2] for grid in grids] == [launch["programs"] for launch in launches]
    total = sum(launch["end_ns"] - launch["begin_ns"] for launch in launches) / 1000
    assert host_event(profiler, "model").device_time_total == pytest.approx(total, rel=1e-4)
    for event in shown:
        assert [kernel.name for kernel in host_event(profiler, event.name).kernels] == [event.name]


class TestGraphs:
    def test_each_replay_shows_its_work_and_who_asked_for_it(self, tmp_path):
        x = torch.ones(64, 64, device="npu")
        graph = torch.npu.NPUGraph()
        with torch.npu.graph(graph):
            launch(register("nothing", name="captured"), "", grid=(2, 1, 1))
            y = x @ x
            y.clone()
        with profiled() as profiler:
            with record_function("replays"):
                graph.replay()
                graph.replay()
            torch.npu.synchronize()
        assert [len(device_events(profiler, name)) for name in ("captured", "aten::mm")] == [2, 2]
        assert len(device_events(profiler, "Memcpy DtoD (Device -> Device)")) == 2
        trace = Trace(profiler, tmp_path)
        assert len([event for event in trace.events if event.get("name") == "npuGraphLaunch"]) == 2

    def test_a_capture_is_no_work_of_the_device(self):
        graph = torch.npu.NPUGraph()
        x = torch.ones(64, 64, device="npu")
        with profiled() as profiler:
            with torch.npu.graph(graph):
                x @ x
            torch.npu.synchronize()
        assert device_events(profiler, "aten::mm") == []
