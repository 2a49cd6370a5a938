"""The record of compile times: every phase once, in all threads, for each graph; as data, as a table, at exit."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
import torch
from torch._dynamo.utils import compile_times as torch_compile_times
from torch._dynamo.utils import dynamo_timed

import inductor_npu
from inductor_npu.diagnostics.compile_time.phases import Phase, timed
from tests.cache.conftest import forget
from tests.processes import run_forked

pytestmark = pytest.mark.compiled

STEP = 0.02


def _train(device: str = "npu") -> None:
    x = torch.linspace(-3, 3, 40 * 33).reshape(40, 33).to(device).requires_grad_()
    torch.compile(lambda x: torch.softmax(x, -1) * 2)(x).sum().backward()
    torch.npu.synchronize()


@pytest.mark.budget
def test_a_span_inside_another_counts_once() -> None:
    with inductor_npu.record_compile_times() as times, timed(Phase.CODEGEN):
        time.sleep(STEP)
        with timed(Phase.TILING):
            time.sleep(2 * STEP)
        time.sleep(STEP)
    assert times.seconds_in(Phase.CODEGEN) == pytest.approx(2 * STEP, rel=0.5)
    assert times.seconds_in(Phase.TILING) == pytest.approx(2 * STEP, rel=0.5)
    assert times.seconds == pytest.approx(times.seconds_in(Phase.CODEGEN) + times.seconds_in(Phase.TILING))


def test_sleeping_takes_no_processor_time() -> None:
    with inductor_npu.record_compile_times() as times, timed(Phase.CODEGEN):
        time.sleep(5 * STEP)
    (phase,) = times.phases
    assert phase.processor_seconds < STEP < phase.seconds


def test_a_span_of_torch_that_nobody_named_belongs_to_the_one_around_it() -> None:
    with inductor_npu.record_compile_times() as times, timed(Phase.LOWERING), dynamo_timed("a step of torch's"):
        time.sleep(STEP)
    assert [(phase.phase, phase.spans) for phase in times.phases] == [(Phase.LOWERING, 2)]


def test_a_span_that_fails_ends() -> None:
    with inductor_npu.record_compile_times() as times:
        with pytest.raises(ValueError, match="no"), timed(Phase.CODEGEN), timed(Phase.TILING):
            raise ValueError("no")
        with timed(Phase.LLVM):
            time.sleep(STEP)
    assert [phase.phase for phase in times.phases] == [Phase.TILING, Phase.CODEGEN, Phase.LLVM]
    assert times.seconds_in(Phase.CODEGEN) < STEP < times.seconds_in(Phase.LLVM)


def test_a_cold_training_step_goes_through_all_phases(own_caches: Path) -> None:
    torch.compile(torch.sin)(torch.ones(3).npu())  # the first in a process imports for seconds, which is no phase
    start = time.perf_counter()
    with inductor_npu.record_compile_times() as times:
        _train()
    wall = time.perf_counter() - start
    phases = {phase.phase for phase in times.phases}
    assert phases >= set(Phase) - {Phase.IMPORTS, Phase.TUNING, Phase.CPP, Phase.OTHER, Phase.FUSION}
    assert times.kernels_compiled == 2
    assert times.kernels_found == 0
    assert 0.5 * wall < times.seconds < wall


def test_a_warm_one_runs_neither_triton_nor_llvm(own_caches: Path) -> None:
    _train()
    forget()
    with inductor_npu.record_compile_times() as times:
        _train()
    assert {Phase.TILING, Phase.TRITON, Phase.LLVM_IR, Phase.LLVM}.isdisjoint(phase.phase for phase in times.phases)
    assert times.kernels_compiled == 0
    assert times.kernels_found == 2


def test_each_graph_has_its_own_times(own_caches: Path) -> None:
    with inductor_npu.record_compile_times() as times:
        for power in (2, 3):
            torch.compile(lambda x, power=power: x.exp() * power)(torch.ones(64, device="npu"))
    assert len(times.graphs) == 2
    assert sum(graph.seconds for graph in times.graphs) == pytest.approx(times.seconds)


def test_our_spans_are_among_torchs(own_caches: Path) -> None:
    _train()
    assert "inductor_npu.llvm" in torch_compile_times(repr="csv", aggregate=True)[0]


def test_a_table_and_plain_data(own_caches: Path) -> None:
    with inductor_npu.record_compile_times() as times:
        _train()
    rows = str(times).splitlines()
    assert "kernels: 2 compiled, 0 found" in rows[0]
    assert [row for row in rows if Phase.SCHEDULING.value in row]
    assert json.loads(json.dumps(times.to_json()))["phases"][0]["seconds"] > 0


@pytest.mark.slow
def test_a_process_prints_its_record_at_its_end_if_asked() -> None:
    source = "import torch; torch.compile(lambda x: x + 1)(torch.ones(8, device='npu'))"
    asked = run_forked(source, INDUCTOR_NPU_COMPILE_TIMES="1")
    assert "Compile time: 1 compile" in asked.stderr
    assert Phase.DYNAMO.value in asked.stderr
    assert "Compile time" not in run_forked(source).stderr
