"""Streams, events, devices and guards, through PyTorch's own device-independent classes."""

from __future__ import annotations

import threading
import time

import pytest
import torch

from inductor_npu.device import build
from tests.device.native_kernels import launch, register, sleep
from tests.device.npu_process import run_on_npu


def stream(**options: int) -> torch.Stream:
    return torch.Stream(device="npu", **options)


def event(timing: bool = False) -> torch.Event:
    return torch.Event(device="npu", enable_timing=timing)


class TestStreams:
    def test_query_and_synchronize(self):
        s = stream()
        assert s.query()
        sleep(20, s)
        assert not s.query()
        s.synchronize()
        assert s.query()

    def test_streams_run_concurrently(self):
        first, second = stream(), stream()
        sleep(200, first)
        sleep(1, second)
        second.synchronize()
        assert not first.query()
        first.synchronize()

    def test_the_default_stream_is_current_at_first(self):
        finished = run_on_npu("import torch; print(torch.accelerator.current_stream().stream_id)")
        assert finished.lines() == ["0"]

    def test_a_stream_is_current_inside_its_block(self):
        before, s = torch.accelerator.current_stream(), stream()
        with s:
            assert torch.accelerator.current_stream() == s
        assert torch.accelerator.current_stream() == before

    def test_current_streams_belong_to_their_thread(self):
        seen = []
        with stream():
            thread = threading.Thread(target=lambda: seen.append(torch.accelerator.current_stream().stream_id))
            thread.start()
            thread.join()
        assert seen == [0]

    def test_priorities_have_pools_of_their_own(self):
        stream_priority = build.load().stream_priority
        assert stream_priority(stream()) == 0
        assert stream_priority(stream(priority=-1)) == -1

    def test_many_streams_share_a_fixed_pool(self):
        ids = {stream().stream_id for _ in range(100)}
        assert len(ids) == 32 and 0 not in ids

    def test_the_native_handle_is_what_launches_take(self):
        s = stream()
        with s:
            assert build.load().get_raw_stream(0) == s.native_handle

    def test_wait_stream(self):
        first, second = stream(), stream()
        sleep(30, first)
        second.wait_stream(first)
        second.synchronize()
        assert first.query()

    def test_a_wrong_stream_is_refused(self):
        wrong = torch.Stream(stream_id=500, device_index=0, device_type=20)
        with pytest.raises(RuntimeError, match="no npu stream with id 500"):
            wrong.synchronize()

    def test_synchronizing_from_many_threads(self):
        s = stream()
        out = torch.zeros(1, dtype=torch.int64, device="npu")
        torch.accelerator.synchronize()
        iota = register("iota")

        def work() -> None:
            for shift in range(200):
                launch(iota, "pl", out, shift, stream=s)
                s.synchronize()

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert out.item() == 199


class TestEvents:
    def test_an_event_never_recorded_is_done(self):
        assert event().query()
        event().synchronize()

    def test_query_and_synchronize(self):
        e = event()
        sleep(20)
        e.record()
        sleep(20)
        assert not e.query()
        e.synchronize()
        assert e.query()
        torch.accelerator.synchronize()

    def test_another_stream_waits_for_it(self):
        first, second, e = stream(), stream(), event()
        sleep(30, first)
        e.record(first)
        second.wait_event(e)
        assert not second.query()
        second.synchronize()
        assert e.query()

    def test_waiting_means_what_was_recorded_when_the_wait_was_queued(self):
        first, second, e = stream(), stream(), event()
        e.record(first)
        second.wait_event(e)
        sleep(50, first)
        e.record(first)
        second.synchronize()
        assert not e.query()
        first.synchronize()

    def test_elapsed_time_is_the_device_s(self):
        start, end = event(timing=True), event(timing=True)
        sleep(200)  # not between the events, however busy the host is
        start.record()
        sleep(30)
        end.record()
        end.synchronize()
        assert 30 <= start.elapsed_time(end) < 200

    def test_elapsed_time_needs_timing(self):
        start, end = event(), event(timing=True)
        start.record()
        end.record()
        end.synchronize()
        with pytest.raises(ValueError, match="enable_timing=True"):
            start.elapsed_time(end)

    def test_elapsed_time_needs_completion(self):
        start, end = event(timing=True), event(timing=True)
        start.record()
        sleep(20)
        end.record()
        with pytest.raises(RuntimeError, match="Both events must be completed"):
            start.elapsed_time(end)
        end.synchronize()

    def test_waiting_gives_up_pythons_lock(self):
        sleep(200)  # long enough for a busy machine to reach the wait before it ends
        ticks = []

        def tick() -> None:
            while len(ticks) < 5:
                ticks.append(time.perf_counter())
                time.sleep(0.002)

        thread = threading.Thread(target=tick)
        thread.start()
        began = time.perf_counter()
        torch.accelerator.synchronize()
        assert time.perf_counter() - began > 0.03
        assert len(ticks) == 5
        thread.join()


class TestCopies:
    @pytest.mark.parametrize("count", [1, 1000, 6 * 2**20 + 3])
    def test_between_tensors_and_hosts(self, count):
        host = torch.randint(256, (count,), dtype=torch.uint8)
        first = host.to("npu")
        second = torch.empty_like(first).copy_(first)
        assert torch.equal(second.cpu(), host)

    def test_are_queued_between_tensors_of_a_device(self):
        first, second = torch.ones(1000, device="npu"), torch.zeros(1000, device="npu")
        sleep(30)
        second.copy_(first)
        assert not torch.accelerator.current_stream().query()
        assert second.sum().item() == 1000


class TestDevices:
    def test_the_accelerator_is_npu(self):
        assert torch.accelerator.current_accelerator() == torch.device("npu")
        assert torch.accelerator.is_available()

    @pytest.mark.parametrize("index", [8, 100])
    def test_a_bad_index_names_the_valid_ones(self, index):
        message = (
            rf"npu device index {index} is out of range: there (is one|are \d) npu device"
            r".*(INDUCTOR_NPU_SIM_DEVICES|CUDA_VISIBLE_DEVICES)"
        )
        with pytest.raises(RuntimeError, match=message):
            torch.empty(1, device=f"npu:{index}")
        with pytest.raises(RuntimeError, match=message):
            torch.accelerator.set_device_index(index)

    def test_several_devices(self):
        finished = run_on_npu(
            """
            import torch
            from tests.device.native_kernels import sleep
            print(torch.accelerator.device_count())
            x = torch.empty(1000, device="npu:3")
            print(x.device, [torch.accelerator.memory_allocated(i) for i in range(4)])
            with torch.accelerator.device_index(2):
                print(torch.empty(1, device="npu").device, torch.accelerator.current_device_index())
            print(torch.accelerator.current_device_index())
            busy = torch.Stream(device="npu:1")
            sleep(100, busy)
            torch.accelerator.synchronize(0)
            print(busy.query())
            torch.accelerator.synchronize(1)
            print(busy.query())
            try:
                torch.empty(1, device="npu:4")
            except RuntimeError as error:
                print(str(error).partition(".")[0])
            """,
            INDUCTOR_NPU_SIM_DEVICES="4",
        )
        assert finished.lines() == [
            "4",
            "npu:3 [0, 0, 0, 4096]",
            "npu:2 2",
            "0",
            "False",
            "True",
            "npu device index 4 is out of range: there are 4 npu devices, indices 0 to 3",
        ]

    def test_loading_starts_no_thread_and_reserves_no_memory(self):
        finished = run_on_npu(
            """
            import os, torch
            torch.zeros(1)
            from inductor_npu.device import build
            before = len(os.listdir("/proc/self/task"))
            device = build.load()
            print(len(os.listdir("/proc/self/task")) - before, device.is_open(), device.memory_snapshot())
            """
        )
        assert finished.lines() == ["0 False []"]


FORK = """
import os, torch
{before}
child = os.fork()
if child == 0:
    try:
        print(torch.ones(3, device="npu").sum().item(), flush=True)
    except RuntimeError as error:
        print(error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""


class TestFork:
    def test_a_child_cannot_use_what_its_parent_had_opened(self):
        finished = run_on_npu(FORK.format(before="x = torch.ones(3, device='npu'); torch.accelerator.synchronize()"))
        (line,) = finished.lines()
        assert "Cannot use device npu in a forked subprocess" in line
        assert "multiprocessing start method 'spawn'" in line

    def test_a_child_may_use_what_its_parent_had_not(self):
        finished = run_on_npu(FORK.format(before="torch.accelerator.device_count()"))
        assert finished.lines() == ["3.0"]

    def test_a_child_frees_its_parents_tensors_without_harm(self):
        finished = run_on_npu(
            """
            import gc, os, torch
            x = torch.ones(3, device="npu")
            child = os.fork()
            if child == 0:
                del x
                gc.collect()
                print(torch.npu._is_in_bad_fork(), flush=True)
                os._exit(0)
            os.waitpid(child, 0)
            print(x.sum().item())
            """
        )
        assert finished.lines() == ["True", "3.0"]
