"""Ranks of a job that need the same graphs: one compiles each, and nobody waits for what it does not need."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._dynamo.utils import counters
from torch._functorch import config as functorch_config
from torch._inductor import compile_fx
from torch._inductor import config as inductor_config
from torch._inductor.codecache import FxGraphCache

from inductor_npu.cache import shared_graphs
from inductor_npu.cache.location import graph_store
from inductor_npu.cache.store import Hold
from tests.cache.conftest import forget
from tests.cache.programs import X, softmax
from tests.cache.together import holding, kernels_kept, run_together, total

pytestmark = pytest.mark.compiled

# ---- ranks

# Ranks have the same model, and then a graph each.
RANKS = """
import datetime
group = torch.distributed
meeting = f"file://{os.environ['GATE']}.group-{os.getppid()}"  # ranks are forks of one process
rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
limit = datetime.timedelta(seconds=120)
group.init_process_group("hccl", init_method=meeting, rank=rank, world_size=ranks, timeout=limit)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 4))

    def forward(self, x):
        return self.layers(x)


torch.manual_seed(0)
on_host = Model()
x = torch.linspace(-1, 1, 8 * 16).reshape(8, 16)
on_host(x).square().mean().backward()
expected = [parameter.grad for parameter in on_host.parameters()]
on_host.zero_grad()
model = torch.nn.parallel.DistributedDataParallel(on_host.to("npu"))
begin_together()
torch.compile(model)(x.chunk(ranks)[rank].to("npu")).square().mean().backward()
for parameter, gradient in zip(model.parameters(), expected):
    torch.testing.assert_close(parameter.grad.cpu(), gradient)
of_model = counters["inductor"]["fxgraph_cache_miss"]

own = torch.ones(5 + rank, device="npu")
both = torch.compile(lambda x: x.sin() + x)(own).sum().reshape(1)
group.all_reduce(both)
torch.npu.synchronize()
compiled, loaded = (counters["inductor"][f"fxgraph_cache_{what}"] for what in ("miss", "hit"))
tell(of_model=of_model, own=compiled - of_model, loaded=loaded, **counters["inductor_npu_warmup"])
group.destroy_process_group()
"""


def check_ranks(found: list[dict[str, Any]], folder: Path) -> None:
    ranks = len(found)
    assert total(found, "of_model") == 2  # forward and backward
    assert total(found, "loaded") == 2 * (ranks - 1)
    assert [each["own"] for each in found] == [1] * ranks
    assert total(found, "miss") == kernels_kept(folder)
    assert total(found, "waited") <= 2 * (ranks - 1)
    assert total(found, "timed_out") == 0


@pytest.mark.slow
@pytest.mark.quick
def test_ranks_compile_each_graph_and_each_kernel_once(tmp_path: Path) -> None:
    folder = tmp_path / "caches"
    check_ranks(run_together(RANKS, 2, folder, INDUCTOR_NPU_WARMUP="1"), folder)


@pytest.mark.slow
def test_four_ranks_compile_no_more_than_one_process(tmp_path: Path) -> None:
    four, one = tmp_path / "four", tmp_path / "one"
    found = run_together(RANKS, 4, four, INDUCTOR_NPU_WARMUP="1")
    check_ranks(found, four)
    (alone,) = run_together(RANKS, 1, one)
    assert total(found, "of_model") == alone["of_model"]
    again = run_together(RANKS.replace("begin_together()\n", "\n"), 4, four, INDUCTOR_NPU_WARMUP="1")
    assert total(again, "of_model") == total(again, "own") == total(again, "miss") == total(again, "waited") == 0


# ---- one process, while another seems to compile


@pytest.fixture
def in_turns(own_caches: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As with INDUCTOR_NPU_WARMUP=1. Graphs are kept in Inductor's cache alone."""
    monkeypatch.setenv(shared_graphs.VARIABLE, "1")
    with functorch_config.patch(enable_autograd_cache=False):
        yield


@pytest.fixture
def graph(in_turns: None) -> str:
    """Inductor's key of the graph of `softmax`, of which nothing is kept."""
    run_softmax()
    (path,) = Path(FxGraphCache._get_tmp_dir()).glob("*/*")
    FxGraphCache.clear()
    return path.name


def run_softmax() -> dict[str, int]:
    """Compiles as a new process would; how often it waited, or did so in vain."""
    forget()
    torch.testing.assert_close(torch.compile(softmax)(X.to("npu")).cpu(), softmax(X))
    return dict(counters[shared_graphs.COUNTERS])


def compiled() -> int:
    return counters["inductor"]["fxgraph_cache_miss"]


def test_the_next_takes_over_from_a_rank_that_dies(graph: str) -> None:
    with holding(graph_store(), shared_graphs._mark(graph)) as other:
        threading.Timer(1.0, other.kill).start()
        began = time.monotonic()
        assert run_softmax() == {"waited": 1}
    assert 0.5 < time.monotonic() - began < 60
    assert compiled() == 1 and not shared_graphs._running


def test_who_waits_too_long_compiles_for_itself(graph: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_graphs, "WAIT_SECONDS", 0.5)
    with holding(graph_store(), shared_graphs._mark(graph)):
        assert run_softmax() == {"waited": 1, "timed_out": 1}
    assert compiled() == 1


def test_nobody_waits_for_another_graph_nor_for_one_that_is_kept(graph: str) -> None:
    with holding(graph_store(), shared_graphs._mark("another graph")):
        assert run_softmax() == {}
    assert compiled() == 1
    with holding(graph_store(), shared_graphs._mark(graph)):
        assert run_softmax() == {}
    assert compiled() == 0


def test_nobody_waits_unless_that_is_asked_for(graph: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(shared_graphs.VARIABLE, "0")
    with holding(graph_store(), shared_graphs._mark(graph)):
        assert run_softmax() == {}


def test_nobody_waits_where_files_cannot_be_locked(in_turns: None) -> None:
    graph_store().folder.mkdir(parents=True)
    (graph_store().folder / "locks").touch()
    assert run_softmax() == {} and compiled() == 1


def test_a_graph_that_fails_is_left_to_everybody(graph: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One rank after the other would fail."""

    def fail(*args: object, **kwargs: object) -> None:
        assert shared_graphs._running
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr(compile_fx, "fx_codegen_and_compile", fail)
        with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="ZeroDivisionError"):
            run_softmax()
    assert not shared_graphs._running
    with holding(graph_store(), shared_graphs._mark(graph)):
        assert run_softmax() == {}


def test_ranks_that_meet_while_they_compile_do_not_wait(graph: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    with holding(graph_store(), shared_graphs._mark(graph)), inductor_config.patch(distributed_max_autotune_gemm=True):
        assert shared_graphs._ranks_meet_while_compiling()
    assert not shared_graphs._ranks_meet_while_compiling()


def test_a_graph_for_other_sizes_is_no_reason_to_wait_for_ever(own_caches: Path) -> None:
    """What another process keeps meanwhile does not fit, so that it is this one's turn; what comes then is loaded."""
    folder = Path(FxGraphCache._get_tmp_dir_for_key("fgraph"))
    folder.mkdir(parents=True)
    found = [(None, {}), (None, {}), ("a graph", {})]

    class TurnsOfTwo(shared_graphs.Turns):
        def take(self, *_: object) -> Hold | None:
            (folder / str(len(os.listdir(folder)))).touch()
            return None

    compilation = torch._guards.CompileContext(torch._guards.CompileId(frame_id=0, frame_compile_id=0))
    with shared_graphs.shared(TurnsOfTwo(1.0)), torch._guards.compile_context(compilation):
        assert shared_graphs._load_in_turn("fgraph", lambda: found.pop(0))[0] == "a graph"
    assert compiled() == -2  # each miss that was none is taken back
