"""The memory of captured graphs: private pools, what they share, what is given back, what must not be freed."""

from __future__ import annotations

import gc

import pytest
import torch

from tests.device.graphs.test_capture import captured, npu

MIB = 1 << 20


@pytest.fixture(autouse=True)
def _clean():
    gc.collect()
    torch.npu.synchronize()
    torch.npu.empty_cache()


def test_a_graph_keeps_its_memory_until_its_end():
    x = npu(MIB)
    before = torch.npu.memory_reserved()
    graph, y = captured(lambda: (x + 1) * 2)
    kept = torch.npu.memory_reserved()
    assert kept > before
    del y
    torch.npu.empty_cache()
    assert torch.npu.memory_reserved() == kept
    graph.replay()
    del graph
    torch.npu.empty_cache()  # what operators of the library took for a moment
    assert torch.npu.memory_reserved() == before


def test_the_summary_has_a_row_for_the_memory_of_a_graph():
    x = npu(MIB)
    graph, y = captured(lambda: (x + 1) * 2)
    summary = torch.npu.memory_summary()
    (row,) = [line for line in summary.splitlines() if line.startswith(f"  {graph.pool()}")]
    assert "Private pools" in summary and row.split()[-4:] == ["4096", "KiB", "20", "MiB"]
    assert "Private pools" not in torch.npu.memory_summary(abbreviated=True)
    del graph, y
    torch.npu.empty_cache()
    assert row[:20] not in torch.npu.memory_summary()


def test_nobody_else_gets_the_memory_of_a_graph():
    x = npu(MIB)
    graph, y = captured(lambda: ((x + 1) * 2).exp())
    others = [torch.zeros(MIB, device="npu") for _ in range(8)]
    graph.replay()
    torch.testing.assert_close(y.cpu(), ((x.cpu() + 1) * 2).exp())
    assert not any(other.any().item() for other in others)


def test_results_outlive_the_graph():
    x = npu(1000)
    graph, y = captured(lambda: x + 1)
    graph.replay()
    before = torch.npu.memory_reserved()
    del graph
    assert torch.equal(y.cpu(), x.cpu() + 1)
    del y
    torch.npu.empty_cache()
    assert torch.npu.memory_reserved() < before


def test_graphs_with_one_pool_share_what_is_free():
    x = npu(4 * MIB)

    def chain() -> torch.Tensor:
        return ((((x + 1) * 2) + 3) * 4).sum()

    alone, total = captured(chain)
    one = torch.npu.memory_reserved()
    second = torch.npu.NPUGraph()
    with torch.npu.graph(second, pool=alone.pool()):
        again = chain()
    assert second.pool() == alone.pool()
    assert torch.npu.memory_reserved() - one <= 2 * MIB  # the one result
    alone.replay()
    second.replay()
    assert total.item() == again.item()


def test_a_pool_is_there_until_its_last_graph():
    x = npu(MIB)
    before = torch.npu.memory_reserved()
    pool = torch.npu.graph_pool_handle()
    graphs = []
    for _ in range(2):
        graph = torch.npu.NPUGraph()
        with torch.npu.graph(graph, pool=pool):
            (x + 1) * 2
        graphs.append(graph)
    graphs.pop().reset()
    assert torch.npu.memory_reserved() > before
    graphs.pop().reset()
    assert torch.npu.memory_reserved() == before


def test_reset_waits_for_replays():
    x = npu(MIB)
    graph, y = captured(lambda: x.exp().log().exp())
    for _ in range(5):
        graph.replay()
    copy = y.clone()
    graph.reset()
    torch.testing.assert_close(copy.cpu(), x.cpu().exp())


class TestFreedInputs:
    def test_a_replay_after_an_input_was_freed(self):
        inputs = [npu(1000)]
        graph, y = captured(lambda: inputs[0] * 2)
        inputs.clear()
        with pytest.raises(RuntimeError, match=r"memory that it was captured with has been freed .*aten::mul"):
            graph.replay()
        graph.reset()
        assert y.shape == (1000,)

    def test_memory_of_the_graph_itself_may_be_freed(self):
        x = npu(1000)
        graph, y = captured(lambda: (x * 2) + 1)
        del y
        graph.replay()
        torch.npu.synchronize()

    def test_without_the_check_it_is_the_programs_business(self):
        x = npu(1000)
        graph = torch.npu.NPUGraph()
        with torch.npu.graph(graph, check_input_liveness=False):
            y = x * 2
        del x
        graph.replay()
        torch.npu.synchronize()
        assert y.shape == (1000,)


def test_out_of_memory_during_a_capture():
    x = npu(16)
    before = torch.npu.memory_reserved()
    torch.npu.set_per_process_memory_fraction(64 * MIB / torch.npu.mem_get_info()[1])
    graph, taken = torch.npu.NPUGraph(), []
    try:
        with pytest.raises(torch.OutOfMemoryError, match="npu out of memory"), torch.npu.graph(graph):
            taken.extend(torch.empty(size * MIB, dtype=torch.uint8, device="npu") for size in (32, 64))
    finally:
        torch.npu.set_per_process_memory_fraction(1.0)
    taken.clear()
    torch.npu.empty_cache()
    assert torch.npu.memory_reserved() == before
    with torch.npu.graph(graph):
        y = x + 1
    graph.replay()
    assert torch.equal(y.cpu(), x.cpu() + 1)


class TestMemPool:
    def test_what_is_allocated_in_the_block_comes_from_the_pool(self):
        pool = torch.npu.MemPool()
        with torch.npu.use_mem_pool(pool):
            x = torch.empty(MIB, device="npu")
        y = torch.empty(MIB, device="npu")
        addresses = [(segment["address"], segment["total_size"]) for segment in pool.snapshot()]

        def inside(tensor: torch.Tensor) -> bool:
            return any(start <= tensor.data_ptr() < start + size for start, size in addresses)

        assert inside(x) and not inside(y)
        assert pool.use_count() == 1

    def test_a_graph_can_use_it(self):
        x, pool = npu(MIB), torch.npu.MemPool()
        graph = torch.npu.NPUGraph()
        with torch.npu.graph(graph, pool=pool.id):
            y = x + 1
        assert graph.pool() == pool.id and pool.use_count() == 2
        graph.replay()
        assert torch.equal(y.cpu(), x.cpu() + 1)

    def test_its_memory_goes_with_it(self):
        before = torch.npu.memory_reserved()
        pool = torch.npu.MemPool()
        with torch.npu.use_mem_pool(pool):
            x = torch.empty(32 * MIB, dtype=torch.uint8, device="npu")
        del x
        torch.npu.empty_cache()
        assert torch.npu.memory_reserved() > before
        del pool
        assert torch.npu.memory_reserved() == before


def test_a_thousand_captures_leave_nothing():
    x = npu(256)
    captured(lambda: x + 1)[0].reset()
    before = torch.npu.memory_reserved(), torch.npu.memory_allocated()
    for _ in range(1000):
        graph, y = captured(lambda: x + 1)
        graph.replay()
        del graph, y
    torch.npu.empty_cache()
    assert (torch.npu.memory_reserved(), torch.npu.memory_allocated()) == before
