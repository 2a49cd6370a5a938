"""The caching allocator: reuse, split and merge, statistics, capacity, record_stream; pinned memory."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
import torch
from torch.fx.experimental import proxy_tensor

from inductor_npu.device import build
from tests.device.native_kernels import sleep
from tests.device.npu_process import run_on_npu

MIB = 2**20


@pytest.fixture(autouse=True, scope="module")
def _earlier_tests_leave_nothing(no_workspaces: None) -> Iterator[None]:
    """And a collection takes no time without the objects of all that is imported."""
    # torch.export keeps the graph that it traced last, with its weights.
    getattr(proxy_tensor, "_FAKE_TENSOR_ID_TO_PROXY_MAP_FOR_EXPORT", {}).clear()
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def _empty_allocator() -> Iterator[None]:
    """Starts with no cached memory and statistics from here on."""
    gc.collect()
    build.load().empty_cache()
    build.load().reset_peak_memory_stats(0)
    build.load().reset_accumulated_memory_stats(0)
    yield
    build.load().set_memory_fraction(1.0, 0)


def reserve(size: int) -> torch.Tensor:
    """A tensor of `size` bytes."""
    return torch.empty(size, dtype=torch.uint8, device="npu")


def stats() -> dict:
    return build.load().memory_stats(0)


def current(name: str) -> int:
    return stats()[name]["all"]["current"]


class TestReuse:
    def test_blocks_are_aligned_to_512_bytes(self):
        tensors = [reserve(size) for size in (1, 100, 513, 5000, 2 * MIB)]
        assert all(x.data_ptr() % 512 == 0 for x in tensors)

    def test_a_freed_block_is_reused(self):
        x = reserve(1000)
        address = x.data_ptr()
        del x
        assert reserve(900).data_ptr() == address

    def test_small_requests_share_a_segment(self):
        tensors = [reserve(1000) for _ in range(10)]
        assert len(tensors) == 10 and current("segment") == 1

    def test_large_requests_do_not_share_with_small_ones(self):
        tensors = [reserve(1000), reserve(3 * MIB), reserve(30 * MIB)]
        kinds = [segment["segment_type"] for segment in build.load().memory_snapshot()]
        assert sorted(kinds) == ["large", "large", "small"] and len(tensors) == 3

    def test_neighbours_merge_when_freed(self):
        first, second, third = reserve(4 * MIB), reserve(4 * MIB), reserve(4 * MIB)
        address = first.data_ptr()
        del first, third, second
        assert current("inactive_split") == 0
        assert reserve(9 * MIB).data_ptr() == address

    def test_a_block_is_not_reused_by_another_stream(self):
        x = reserve(1000)
        address = x.data_ptr()
        del x
        with torch.Stream(device="npu"):
            assert reserve(1000).data_ptr() != address

    def test_an_empty_tensor_takes_no_memory(self):
        assert reserve(0).data_ptr() == 0
        assert current("allocation") == 0


class TestRecordStream:
    def test_memory_waits_for_the_other_stream(self):
        other = torch.Stream(device="npu")
        x = reserve(1000)
        address = x.data_ptr()
        sleep(50, other)
        x.record_stream(other)
        del x
        assert reserve(1000).data_ptr() != address
        (state,) = {
            block["state"]
            for segment in build.load().memory_snapshot()
            for block in segment["blocks"]
            if block["address"] == address
        }
        assert state == "active_awaiting_free"
        other.synchronize()
        assert reserve(1000).data_ptr() == address

    def test_its_own_stream_needs_no_record(self):
        x = reserve(1000)
        address = x.data_ptr()
        sleep(20)
        x.record_stream(torch.accelerator.current_stream())
        del x
        assert reserve(1000).data_ptr() == address
        torch.accelerator.synchronize()


class TestStatistics:
    def test_count_bytes_and_blocks(self):
        x, y = reserve(1000), reserve(3 * MIB)
        assert current("allocation") == 2
        assert current("requested_bytes") == 1000 + 3 * MIB
        assert current("allocated_bytes") == 1024 + 3 * MIB
        assert current("reserved_bytes") == 2 * MIB + 20 * MIB
        assert stats()["allocated_bytes"]["small_pool"]["current"] == 1024
        del x, y
        assert current("allocated_bytes") == current("requested_bytes") == current("active_bytes") == 0
        assert stats()["allocated_bytes"]["all"]["freed"] == 1024 + 3 * MIB

    def test_peaks_can_be_reset(self):
        x = reserve(5 * MIB)
        del x
        assert torch.accelerator.max_memory_allocated() >= 5 * MIB
        torch.accelerator.reset_peak_memory_stats()
        assert torch.accelerator.max_memory_allocated() == torch.accelerator.memory_allocated()

    def test_the_snapshot_agrees(self):
        x = reserve(1000)
        (segment,) = build.load().memory_snapshot()
        used = [block for block in segment["blocks"] if block["state"] == "active_allocated"]
        facts = [(block["address"], block["size"], block["requested_size"]) for block in used]
        assert facts == [(x.data_ptr(), 1024, 1000)]
        assert sum(block["size"] for block in segment["blocks"]) == segment["total_size"] == 2 * MIB

    def test_pointers_are_known(self):
        x = reserve(1000)
        known = build.load().is_npu_pointer
        assert known(x.data_ptr()) and known(x.data_ptr() + 999)
        assert not known(torch.ones(1).data_ptr())


class TestEmptyCache:
    def test_gives_free_segments_back(self):
        kept, freed = reserve(1000), reserve(30 * MIB)
        del freed
        torch.accelerator.empty_cache()
        assert current("reserved_bytes") == 2 * MIB
        del kept

    def test_waits_for_queued_work_first(self):
        x = reserve(30 * MIB)
        sleep(30)
        del x
        torch.accelerator.empty_cache()
        assert torch.accelerator.current_stream().query()


class TestCapacity:
    @pytest.mark.embedded
    def test_out_of_memory_says_requested_capacity_and_advice(self):
        with pytest.raises(torch.OutOfMemoryError) as caught:
            reserve(2**40)
        message = str(caught.value)
        for part in (
            "Tried to allocate 1024.00 GiB",
            "npu:0 has a capacity of",
            "is free",
            "is reserved by PyTorch",
            "INDUCTOR_NPU_SIM_MEMORY",
            "the program can go on",
        ):
            assert part in message
        assert stats()["num_ooms"] == 1

    def test_the_program_goes_on(self):
        x = torch.full((1000,), 3.0, device="npu")
        with pytest.raises(torch.OutOfMemoryError):
            reserve(2**40)
        assert (x + 1).sum().item() == 4000

    def test_the_cache_is_given_back_before_failing(self):
        _, total = build.load().mem_get_info(0)
        build.load().set_memory_fraction(100 * MIB / total, 0)
        x = reserve(60 * MIB)
        del x
        y = reserve(80 * MIB)
        assert stats()["num_alloc_retries"] == 1
        assert stats()["num_ooms"] == 0
        with pytest.raises(torch.OutOfMemoryError):
            reserve(30 * MIB)
        del y
        assert reserve(100 * MIB - 4096).numel() == 100 * MIB - 4096

    def test_the_rest_of_a_large_segment_is_used_before_failing(self):
        _, total = build.load().mem_get_info(0)
        build.load().set_memory_fraction(85 * MIB / total, 0)
        x = reserve(80 * MIB)
        del x
        kept = [reserve(45 * MIB), reserve(5 * MIB), reserve(5 * MIB)]
        assert current("allocated_bytes") == 55 * MIB and len(kept) == 3
        assert stats()["num_ooms"] == 0

    def test_blocks_that_wait_for_another_stream_are_waited_for(self):
        _, total = build.load().mem_get_info(0)
        build.load().set_memory_fraction(100 * MIB / total, 0)
        other = torch.Stream(device="npu")
        x = reserve(80 * MIB)
        sleep(20, other)
        x.record_stream(other)
        del x
        assert reserve(80 * MIB).numel() == 80 * MIB

    @pytest.mark.parametrize("fraction", [0.0, -1.0, 1.5])
    def test_a_bad_fraction_is_refused(self, fraction):
        with pytest.raises(RuntimeError, match="above 0 and at most 1"):
            build.load().set_memory_fraction(fraction, 0)

    def test_the_environment_sets_it(self):
        finished = run_on_npu(
            """
            import torch
            print(torch.npu.mem_get_info())
            x = torch.empty(40 * 2**20, dtype=torch.uint8, device="npu")
            print(torch.npu.mem_get_info())
            try:
                torch.empty(40 * 2**20, dtype=torch.uint8, device="npu")
            except torch.OutOfMemoryError as error:
                print(str(error).partition(";")[0].removeprefix("npu out of memory. "))
            """,
            INDUCTOR_NPU_SIM_MEMORY="64MiB",
        )
        assert finished.lines() == [
            f"({64 * MIB}, {64 * MIB})",
            f"({24 * MIB}, {64 * MIB})",
            "Tried to allocate 40.00 MiB. npu:0 has a capacity of 64.00 MiB, of which 24.00 MiB is free",
        ]


class TestPinnedMemory:
    def test_is_pinned(self):
        x = torch.arange(10).pin_memory()
        assert x.is_pinned() and x[3:].is_pinned()
        assert not torch.arange(10).is_pinned()
        assert x.tolist() == list(range(10))

    @pytest.mark.skipif(
        torch.cuda.is_available(), reason="without a device torch.empty pins for CUDA, where there is one"
    )
    def test_empty_pinned(self):
        assert torch.empty(100, pin_memory=True).is_pinned()

    def test_is_not_reused_before_its_copy_is_done(self):
        x = torch.arange(1000).pin_memory()
        address = x.data_ptr()
        sleep(30)
        copy = x.to("npu", non_blocking=True)
        del x
        again = torch.zeros(1000, dtype=torch.int64).pin_memory()
        assert again.data_ptr() != address
        assert copy.tolist() == list(range(1000))

    def test_a_non_blocking_copy_returns_before_the_device_is_there(self):
        x = torch.arange(1000).pin_memory()
        sleep(30)
        copy = x.to("npu", non_blocking=True)
        assert not torch.accelerator.current_stream().query()
        assert copy.tolist() == list(range(1000))
