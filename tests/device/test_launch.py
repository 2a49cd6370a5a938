"""Kernel launches: arguments, grids, threads, scratch memory, asserts, hooks, the launch record."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator

import pytest
import torch

from inductor_npu.device import build
from tests.device.native_kernels import launch, register, sleep
from tests.device.npu_process import run_on_npu


def int64_on_npu(count: int) -> torch.Tensor:
    return torch.zeros(count, dtype=torch.int64, device="npu")


def slots_of(signature: str, *args: object) -> list[int]:
    """The 8-byte slots that a kernel receives for these arguments."""
    count = sum(kind != "-" for kind in signature)
    out = int64_on_npu(count)
    launch(register("copy_slots", copied_slots=count), signature + "p", *args, out)
    return [slot % 2**64 for slot in out.tolist()]


@pytest.fixture
def set_num_threads() -> Iterator[Callable[[int], None]]:
    """torch.set_num_threads, undone after the test."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


class TestPrograms:
    @pytest.mark.parametrize("grid", [(1, 1, 1), (7, 1, 1), (5, 3, 2), (65535, 1, 1), (1, 1, 40)])
    def test_each_program_runs_once(self, grid):
        count = grid[0] * grid[1] * grid[2]
        out = int64_on_npu(count)
        launch(register("iota"), "pl", out, 10, grid=grid)
        assert torch.equal(out.cpu(), torch.arange(count) + 10)

    @pytest.mark.parametrize("grid", [(0, 1, 1), (3, 0, 1), (3, 100_000, 0)])
    def test_an_empty_grid_does_nothing(self, grid):
        out = int64_on_npu(3)
        launch(register("iota"), "pl", out, 10, grid=grid)
        assert out.tolist() == [0, 0, 0]

    @pytest.mark.parametrize("grid", [(65536, 1, 1), (1, 256, 256), (2**31, 2**31, 2**31)])
    @pytest.mark.embedded
    def test_a_grid_above_the_limit_is_refused(self, grid):
        message = r"kernel too_many: its grid \(.*\) has more programs than the limit of 65535 of Ascend910B3"
        with pytest.raises(RuntimeError, match=message):
            launch(register("nothing", name="too_many"), "", grid=grid)

    def test_a_negative_grid_is_refused(self):
        with pytest.raises(ValueError, match="kernel nothing: axis 1 of its grid is negative: -2"):
            launch(register("nothing"), "", grid=(1, -2, 1))

    def test_heavy_programs_run_on_several_threads(self, set_num_threads):
        set_num_threads(2)
        seen = []
        for _ in range(20):  # on a busy host the second thread may come too late for one launch
            out = int64_on_npu(16)
            launch(register("thread_of_program", work_per_program=1_000_000), "p", out, grid=(16, 1, 1))
            seen.append(len(set(out.tolist())))
        assert max(seen) == 2

    def test_light_programs_stay_on_one_thread(self, set_num_threads):
        set_num_threads(2)
        out = int64_on_npu(16)
        launch(register("thread_of_program", work_per_program=1), "p", out, grid=(16, 1, 1))
        assert len(set(out.tolist())) == 1

    def test_set_num_threads_is_respected(self, set_num_threads):
        set_num_threads(1)
        out = int64_on_npu(16)
        launch(register("thread_of_program", work_per_program=1_000_000), "p", out, grid=(16, 1, 1))
        assert len(set(out.tolist())) == 1

    @pytest.mark.slow
    def test_the_environment_may_set_the_number_of_threads(self):
        finished = run_on_npu(
            """
            import torch
            from tests.device.native_kernels import launch, register
            torch.set_num_threads(2)
            for _ in range(5):
                out = torch.zeros(16, dtype=torch.int64, device="npu")
                launch(register("thread_of_program", work_per_program=1_000_000), "p", out, grid=(16, 1, 1))
                print(len(set(out.tolist())))
            """,
            INDUCTOR_NPU_SIM_THREADS="1",
        )
        assert finished.lines() == ["1"] * 5

    def test_two_streams_share_the_threads(self):
        streams = [torch.Stream(device="npu") for _ in range(3)]
        outs = [int64_on_npu(1000) for _ in streams]
        torch.accelerator.synchronize()
        for _ in range(20):
            for stream, out in zip(streams, outs):
                launch(register("iota", work_per_program=100_000), "pl", out, 5, grid=(1000, 1, 1), stream=stream)
        torch.accelerator.synchronize()
        for out in outs:
            assert torch.equal(out.cpu(), torch.arange(1000) + 5)


class TestScratch:
    def test_is_aligned_and_private_to_a_thread(self):
        out = int64_on_npu(8)
        launch(register("scratch_address", scratch_bytes=100_000), "p", out, grid=(8, 1, 1))
        addresses = set(out.tolist())
        assert len(addresses) == 1
        assert addresses.pop() % 64 == 0


class TestArguments:
    def test_integers(self):
        assert slots_of("bchil", True, -1, -2, -3, -4) == [1, 0xFF, 0xFFFE, 0xFFFFFFFD, 2**64 - 4]

    def test_unsigned_integers(self):
        assert slots_of("BCHIL", False, 255, 65535, 2**32 - 1, 2**64 - 1) == [0, 255, 65535, 2**32 - 1, 2**64 - 1]

    def test_floats(self):
        bits = [
            struct.unpack("H", struct.pack("e", 1.5))[0],
            struct.unpack("I", struct.pack("f", 0.1))[0] + 0x8000 >> 16,
            struct.unpack("I", struct.pack("f", 0.1))[0],
            struct.unpack("Q", struct.pack("d", 0.1))[0],
        ]
        assert slots_of("eyfd", 1.5, 0.1, 0.1, 0.1) == bits

    def test_an_integer_is_a_float_too(self):
        assert slots_of("f", 2) == [struct.unpack("I", struct.pack("f", 2.0))[0]]

    def test_pointers(self):
        x = torch.ones(4, device="npu")

        class Wrapper:
            def data_ptr(self) -> int:
                return x.data_ptr()

        assert slots_of("ppppp", x, None, x.data_ptr(), Wrapper(), x[2:]) == [
            x.data_ptr(),
            0,
            x.data_ptr(),
            x.data_ptr(),
            x.data_ptr() + 8,
        ]

    def test_an_empty_tensor_is_a_null_pointer(self):
        assert slots_of("p", torch.empty(0, device="npu")) == [0]

    def test_constexprs_are_skipped(self):
        assert slots_of("-i-", object(), 3, "ignored") == [3]

    def test_a_cpu_tensor_is_refused(self):
        with pytest.raises(ValueError, match=r"kernel nothing: argument 1 is a tensor on cpu.*\.to\(\"npu\"\)"):
            launch(register("nothing"), "ip", 1, torch.ones(2))

    def test_a_wrapped_cpu_tensor_is_refused(self):
        class Wrapper:
            def data_ptr(self) -> int:
                return self.base.data_ptr()

            base = torch.ones(2)

        with pytest.raises(ValueError, match="does not point to memory of npu"):
            launch(register("nothing"), "p", Wrapper())

    def test_another_object_is_refused(self):
        with pytest.raises(TypeError, match=r"kernel nothing: argument 0 is a pointer; expected a tensor .* got str"):
            launch(register("nothing"), "p", "text")

    def test_an_integer_that_does_not_fit_is_refused(self):
        with pytest.raises(
            ValueError, match=r"kernel nothing: argument 0 is 4294967296, which does not fit .* 32 bits"
        ):
            launch(register("nothing"), "i", 2**32)

    def test_a_wrong_number_of_arguments_is_refused(self):
        with pytest.raises(TypeError, match="KernelLauncher takes 9 arguments and 2 of the kernel"):
            launch(register("nothing"), "ii", 1)

    def test_an_unknown_kind_is_refused(self):
        with pytest.raises(ValueError, match="'q' in signature 'iq'"):
            build.load().KernelLauncher("iq")

    def test_a_wrong_function_is_refused(self):
        with pytest.raises(ValueError, match="not the handle of a kernel that was loaded"):
            launch(12345, "")

    def test_a_wrong_stream_is_refused(self):
        launcher = build.load().KernelLauncher("")
        with pytest.raises(RuntimeError, match="no npu stream with handle 4096"):
            launcher(1, 1, 1, 4096, register("nothing"), None, None, None, None)

    def test_stream_0_is_the_current_stream(self):
        stream = torch.Stream(device="npu")
        with stream:
            launcher = build.load().KernelLauncher("i")
            launcher(1, 1, 1, 0, register("sleep"), None, None, None, None, 20_000)
        assert not stream.query()
        stream.synchronize()


class TestAsynchrony:
    def test_a_launch_returns_before_the_kernel_ends(self):
        began = time.perf_counter()
        sleep(500)
        returned = time.perf_counter()
        torch.accelerator.synchronize()
        assert returned - began < 0.4  # most of which a busy machine may take to go on with this thread
        assert time.perf_counter() - began >= 0.5

    def test_launches_of_a_stream_run_in_order(self):
        out = int64_on_npu(1)
        iota = register("iota")
        for shift in range(1000):
            launch(iota, "pl", out, shift)
        assert out.item() == 999

    def test_freed_memory_is_reused_only_behind_the_kernel_that_uses_it(self):
        for _ in range(20):
            doomed = int64_on_npu(1000)
            sleep(1)
            launch(register("iota"), "pl", doomed, 1, grid=(1000, 1, 1))
            address = doomed.data_ptr()
            del doomed
            fresh = torch.full((1000,), 7, device="npu")
            assert fresh.data_ptr() == address
            assert (fresh == 7).all()

    @pytest.mark.budget
    @pytest.mark.embedded
    def test_a_launch_costs_at_most_two_microseconds(self):
        x, y = torch.ones(8, device="npu"), torch.ones(8, device="npu")
        launcher, function = build.load().KernelLauncher("ppii"), register("nothing")
        stream = build.load().get_raw_stream(0)
        best = float("inf")
        for _ in range(10):
            began = time.perf_counter()
            for _ in range(1000):
                launcher(1, 1, 1, stream, function, None, None, None, None, x, y, 1, 2)
            best = min(best, time.perf_counter() - began)
            torch.accelerator.synchronize()
        assert best / 1000 < 2e-6


class TestAsserts:
    def test_surface_at_the_next_synchronisation_with_kernel_and_program(self):
        function = register("assert_not", name="checked", messages=("first", "index out of range"))
        launch(function, "l", 9, grid=(4, 3, 1))
        message = r"checked failed on npu:0 .*device_assert in program \(1, 2, 0\): index out of range"
        with pytest.raises(RuntimeError, match=message):
            torch.accelerator.synchronize()

    def test_surface_at_item(self):
        x = torch.ones(1, device="npu")
        launch(register("assert_not", messages=("", "bad")), "l", 0)
        with pytest.raises(RuntimeError, match="assert_not failed"):
            x.item()
        assert x.item() == 1

    def test_are_raised_once_and_later_work_runs(self):
        out = int64_on_npu(1)
        launch(register("assert_not", messages=("", "bad")), "l", 0)
        launch(register("iota"), "pl", out, 3)
        with pytest.raises(RuntimeError, match="assert_not failed"):
            torch.accelerator.synchronize()
        torch.accelerator.synchronize()
        assert out.item() == 3

    def test_the_first_failure_is_named_and_the_others_counted(self):
        for name in ("one", "two", "three"):
            launch(register("assert_not", name=name, messages=("", "bad")), "l", 0)
        with pytest.raises(RuntimeError, match=r"^one failed .*\(and 2 more failures queued behind it\)"):
            torch.accelerator.synchronize()

    def test_stay_with_their_stream(self):
        failing, healthy = torch.Stream(device="npu"), torch.Stream(device="npu")
        launch(register("assert_not", messages=("", "bad")), "l", 0, stream=failing)
        healthy.synchronize()
        with pytest.raises(RuntimeError, match="bad"):
            failing.synchronize()

    def test_surface_at_an_event(self):
        launch(register("assert_not", messages=("", "bad")), "l", 0)
        event = torch.Event(device="npu")
        event.record()
        with pytest.raises(RuntimeError, match="bad"):
            event.synchronize()

    def test_unseen_failures_are_told_at_exit(self):
        finished = run_on_npu(
            """
            import torch
            from tests.device.native_kernels import launch, register
            launch(register("assert_not", messages=("", "nobody looked")), "l", 0)
            """
        )
        assert finished.returncode == 0
        assert "inductor-npu: at exit, work on npu:0 had failed" in finished.stderr
        assert "nobody looked" in finished.stderr


class TestHooks:
    def test_enter_and_exit_get_the_metadata(self):
        seen = []
        launcher = build.load().KernelLauncher("")
        metadata = object()
        enter, leave = lambda data: seen.append(("enter", data)), lambda data: seen.append(("exit", data))
        launcher(1, 1, 1, 0, register("nothing"), None, metadata, enter, leave)
        assert seen == [("enter", metadata), ("exit", metadata)]

    def test_a_hook_that_raises_stops_the_launch(self):
        def refuse(_: object) -> None:
            raise KeyError("refused")

        out = int64_on_npu(1)
        launcher = build.load().KernelLauncher("pl")
        with pytest.raises(KeyError, match="refused"):
            launcher(1, 1, 1, 0, register("iota"), None, None, refuse, None, out, 5)
        assert out.item() == 0


class TestLaunchRecord:
    def test_is_off_by_default(self):
        launch(register("nothing"), "")
        assert build.load().launch_record(False) == []

    def test_holds_name_programs_time_and_counters(self):
        record = build.load().launch_record
        record(True)
        launch(register("count", name="counted", work_per_program=10_000), "", grid=(10, 2, 1))
        sleep(5)
        counted, slept = record(False)
        assert counted["name"] == "counted" and counted["programs"] == 20 and counted["device"] == 0
        assert (counted["bytes_read"], counted["bytes_written"], counted["vector_operations"]) == (160, 80, 0)
        assert slept["name"] == "sleep" and slept["end_ns"] - slept["begin_ns"] >= 5_000_000
        assert counted["end_ns"] <= slept["begin_ns"]


class TestDevicePrint:
    @pytest.mark.embedded
    def test_prints_a_line_an_element(self, capfd):
        import ctypes

        address = build.load().runtime_symbols()["npu_device_print"]
        pointer, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32
        signature = ctypes.CFUNCTYPE(None, pointer, text, pointer, number, number, number, number, pointer, number)
        device_print = signature(address)
        program = (ctypes.c_int32 * 3)(1, 2, 3)
        values = (ctypes.c_float * 4)(0.5, 1.5, -2, 3)
        shape = (ctypes.c_int64 * 2)(2, 2)
        device_print(program, b" x: ", values, ord("f"), 0, 0, 1, shape, 2)
        device_print(program, b" y: ", (ctypes.c_int16 * 1)(-1), ord("h"), 1, 1, 2, shape, 0)
        device_print(program, b" here", None, 0, 0, 0, 0, None, 0)
        assert capfd.readouterr().out.splitlines() == [
            "pid (1, 2, 3) idx (0, 0) x: 0.500000",
            "pid (1, 2, 3) idx (0, 1) x: 1.500000",
            "pid (1, 2, 3) idx (1, 0) x: -2.000000",
            "pid (1, 2, 3) idx (1, 1) x: 3.000000",
            "pid (1, 2, 3) idx () y: (operand 1) 0xffff",
            "pid (1, 2, 3) here",
        ]
