"""torch.npu.memory: history, snapshots for memory_viz, and the leak check."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.cuda import _memory_viz

from inductor_npu.errors import MemoryLeakError
from tests.device.native_kernels import sleep

MIB = 2**20
memory = torch.npu.memory


@pytest.fixture(autouse=True)
def _recording_ends(no_workspaces: None) -> Iterator[None]:
    gc.collect()
    torch.npu.empty_cache()
    yield
    memory._record_memory_history(None)


def reserve(size: int) -> torch.Tensor:
    """A tensor of `size` bytes."""
    return torch.empty(size, dtype=torch.uint8, device="npu")


def events(device: int = 0) -> list[dict[str, Any]]:
    """What was recorded, without the snapshots of looking at it."""
    trace = memory._snapshot()["device_traces"][device]
    return [event for event in trace if event["action"] != "snapshot"]


def actions(device: int = 0) -> list[str]:
    return [event["action"] for event in events(device)]


def functions(frames: list[dict[str, Any]]) -> list[str]:
    return [frame["name"] for frame in frames]


class TestHistory:
    def test_each_step_of_the_allocator_is_recorded(self):
        memory._record_memory_history()
        x = reserve(30 * MIB)
        address = x.data_ptr()
        del x
        torch.npu.empty_cache()
        seen = [(event["action"], event["addr"], event["size"]) for event in events()]
        names = ["segment_alloc", "alloc", "free_requested", "free_completed", "segment_free"]
        assert seen == [(name, address, 30 * MIB) for name in names]

    def test_it_is_switched_on_and_off_as_older_programs_do(self):
        memory._record_memory_history(True)
        x = reserve(MIB)
        assert "alloc" in actions()
        memory._record_memory_history(False)
        assert not events()
        del x

    def test_events_say_when_and_from_where(self):
        memory._record_memory_history()
        x = reserve(1000)
        del x
        recorded = events()
        assert [event["time_us"] for event in recorded] == sorted(event["time_us"] for event in recorded)
        for event in recorded:
            assert "test_events_say_when_and_from_where" in functions(event["frames"])
        frame = next(frame for frame in recorded[0]["frames"] if frame["name"] == "reserve")
        assert frame["filename"] == __file__ and frame["line"] == reserve.__code__.co_firstlineno + 2

    def test_a_free_is_complete_when_other_streams_have_passed(self):
        memory._record_memory_history()
        other = torch.Stream(device="npu")
        x = reserve(1000)
        sleep(20, other)
        x.record_stream(other)
        del x
        assert actions()[-1] == "free_requested"
        other.synchronize()
        y = reserve(900)
        assert actions()[-3:] == ["free_requested", "free_completed", "alloc"] and y.nbytes == 900

    def test_out_of_memory_says_how_much_was_asked_for_and_free(self):
        memory._record_memory_history()
        with pytest.raises(torch.OutOfMemoryError):
            reserve(2**40)
        (event,) = [event for event in events() if event["action"] == "oom"]
        assert event["size"] == 2**40 and event["device_free"] == torch.npu.mem_get_info()[0]

    @pytest.mark.two_devices
    def test_devices_have_traces_of_their_own(self):
        memory._record_memory_history()
        x = torch.empty(100, device="npu:1")
        assert actions(0) == [] and actions(1) == ["segment_alloc", "alloc"]
        snapshot = memory._snapshot("npu:1")
        assert snapshot["device_traces"][0] == [] and len(snapshot["segments"]) == 1 and x.numel() == 100

    def test_streams_and_pools_are_named(self):
        memory._record_memory_history()
        pool, stream = torch.npu.MemPool(), torch.npu.Stream()
        with torch.npu.use_mem_pool(pool), torch.npu.stream(stream):
            x = reserve(1000)
        event = events()[-1]
        assert event["pool_id"] == pool.id and event["stream"] == stream.stream_id and x.nbytes == 1000

    def test_the_earliest_events_make_room(self):
        memory._record_memory_history(max_entries=3)
        tensors = [reserve(512 * size) for size in range(1, 8)]
        assert [event["size"] for event in memory._snapshot()["device_traces"][0][:-1]] == [512 * 6, 512 * 7]
        assert len(tensors) == 7

    def test_actions_can_be_left_out(self):
        memory._record_memory_history(skip_actions=["segment_alloc", "free_completed"])
        x = reserve(1000)
        del x
        assert actions() == ["alloc", "free_requested"]

    def test_a_backward_pass_is_recorded_too(self):
        x = torch.ones(1000, device="npu", requires_grad=True)
        memory._record_memory_history()
        (x.sin() * 2).sum().backward()
        assert x.grad is not None and "alloc" in actions()

    def test_it_ends(self):
        memory._record_memory_history()
        x = reserve(1000)
        memory._record_memory_history(None)
        y = reserve(1000)
        assert memory._snapshot()["device_traces"] == [[]] * torch.npu.device_count() and x.nbytes == y.nbytes


class TestStacks:
    def blocks(self) -> list[dict[str, Any]]:
        segments = memory._snapshot()["segments"]
        return [block for segment in segments for block in segment["blocks"] if block["state"] == "active_allocated"]

    def test_state_keeps_those_of_what_is_allocated(self):
        memory._record_memory_history("state", context="state")
        kept, freed = reserve(1000), reserve(2000)
        del freed
        (block,) = [block for block in self.blocks() if block["address"] == kept.data_ptr()]
        assert "reserve" in functions(block["frames"]) and actions() == []

    def test_alloc_leaves_frees_without(self):
        memory._record_memory_history(context="alloc")
        x = reserve(1000)

        def drop() -> None:
            nonlocal x
            del x

        drop()
        assert all("drop" not in functions(event["frames"]) for event in events())

    def test_none_keeps_none(self):
        memory._record_memory_history(context=None)
        x = reserve(30 * MIB)  # in a segment of its own, whatever earlier tests hold
        assert [event["frames"] for event in events()] == [[], []] and x.nbytes == 30 * MIB

    def test_frames_of_code_that_fx_made_are_given_the_model_s_lines(self):
        memory._record_memory_history()
        x = reserve(1000)
        snapshot = memory._snapshot(augment_with_fx_traces=True)
        assert snapshot["segments"] and x.nbytes == 1000

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"enabled": "some"}, "enabled must be one of None, 'state', 'all', got 'some'"),
            ({"context": "free"}, "context must be one of"),
            ({"stacks": "c"}, "stacks must be one of 'python', 'all'"),
            ({"max_entries": 0}, "max_entries must be at least 1"),
            ({"skip_actions": ["sleep"]}, "skip_actions must be one of 'alloc', 'free_requested'"),
        ],
    )
    def test_other_values_are_refused(self, arguments, message):
        with pytest.raises(ValueError, match=message):
            memory._record_memory_history(**arguments)

    def test_what_only_cuda_records_is_refused(self):
        with pytest.raises(NotImplementedError, match="neither compile ids nor annotations"):
            memory._record_memory_history(compile_context=True)


class TestMemoryViz:
    @pytest.fixture
    def snapshot(self, tmp_path: Path) -> dict[str, Any]:
        """Read from a file, with memory in use, freed and given back."""
        memory._record_memory_history()
        kept, freed = reserve(30 * MIB), reserve(40 * MIB)
        del freed
        torch.npu.empty_cache()
        memory._dump_snapshot(tmp_path / "snapshot.pickle")
        assert kept.nbytes == 30 * MIB
        return pickle.loads((tmp_path / "snapshot.pickle").read_bytes())

    @pytest.mark.embedded
    def test_segments_add_up(self, snapshot):
        assert "total_reserved: 30.0MiB\ntotal_allocated: 30.0MiB" in _memory_viz.segsum(snapshot)

    def test_the_trace_is_told(self, snapshot):
        text = _memory_viz.trace(snapshot)
        assert "cudaMalloc" in text and "40.0MiB" in text and "cudaFree" in text

    def test_flame_graphs_have_the_lines(self, snapshot):
        for draw in (_memory_viz.memory, _memory_viz.segments):
            assert "test_memory_history.py" in draw(snapshot, lambda lines: lines)

    @pytest.mark.parametrize("plot", [_memory_viz.trace_plot, _memory_viz.segment_plot])
    def test_pages_are_made(self, snapshot, plot):
        assert "snapshot.pickle" in plot(snapshot)

    def test_the_settings_are_there(self, snapshot):
        assert {"max_split_size", "garbage_collection_threshold"} <= snapshot["allocator_settings"].keys()


class TestLeakCheck:
    @pytest.mark.slow
    def test_nothing_is_said_where_all_is_dropped(self):
        before = torch.npu.memory_allocated()
        with memory.leak_check():
            x = reserve(1000) + 1
            x.sum().item()
            del x
        assert torch.npu.memory_allocated() == before

    @pytest.mark.slow
    @pytest.mark.two_devices
    def test_what_is_left_is_listed_by_size_with_its_lines(self):
        def leak() -> list[torch.Tensor]:
            with memory.leak_check():
                kept = [reserve(1000), torch.empty(3000, dtype=torch.uint8, device="npu:1"), reserve(500)]
                del kept[2]
            return kept

        with pytest.raises(MemoryLeakError) as caught:
            leak()
        message = str(caught.value)
        assert message.startswith("2 allocations (4000 bytes)")
        assert message.index("3000 bytes on npu:1") < message.index("1000 bytes on npu:0")
        assert f"{__file__}:{reserve.__code__.co_firstlineno + 2} (reserve)" in message

    @pytest.mark.slow
    def test_what_was_there_before_may_go_or_stay(self):
        x, y = reserve(1000), reserve(1000)
        with memory.leak_check():
            del x
        assert y.nbytes == 1000

    def test_memory_at_the_same_address_is_another_allocation(self):
        x = [reserve(1000)]
        address = x[0].data_ptr()

        def replace() -> None:
            with memory.leak_check():
                x.clear()
                x.append(reserve(1000))

        with pytest.raises(MemoryLeakError, match="1 allocations"):
            replace()
        assert x[0].data_ptr() == address

    def test_cycles_are_collected_first(self):
        before = torch.npu.memory_allocated()
        with memory.leak_check():
            cycle: list[Any] = [reserve(1000)]
            cycle.append(cycle)
            del cycle
        assert torch.npu.memory_allocated() == before

    def test_an_error_in_the_block_is_not_hidden(self):
        kept = []

        def fail() -> None:
            with memory.leak_check():
                kept.append(reserve(1000))
                raise KeyError("a name")

        with pytest.raises(KeyError, match="a name"):
            fail()

    @pytest.mark.slow
    def test_a_recording_goes_on(self):
        memory._record_memory_history()
        with memory.leak_check():
            pass
        x = reserve(1000)
        assert actions()[-1] == "alloc" and x.nbytes == 1000
