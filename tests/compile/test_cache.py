"""Compiled graphs on disk: found by a second process, and never by one with another target, version or knob."""

from __future__ import annotations

from pathlib import Path

from tests.processes import run_python

PROGRAM = """
import torch
from torch._dynamo.utils import counters
x = torch.arange(12.0).reshape(3, 4).to("npu").requires_grad_()
y = torch.compile(lambda x: torch.softmax(x, -1).pow(2))(x)
y.sum().backward()
torch.testing.assert_close(y.detach().cpu(), torch.softmax(x.detach().cpu(), -1).pow(2))
assert x.grad is not None
print(counters["inductor"]["fxgraph_cache_hit"], counters["inductor"]["fxgraph_cache_miss"],
      counters["aot_autograd"]["autograd_cache_hit"])
"""


def _run(cache: Path, **environment: str) -> tuple[int, int, int]:
    finished = run_python(PROGRAM, TORCHINDUCTOR_CACHE_DIR=str(cache), **environment)
    graph_hits, graph_misses, autograd_hits = map(int, finished.lines()[-1].split())
    return graph_hits, graph_misses, autograd_hits


def test_second_process_compiles_nothing(tmp_path: Path) -> None:
    assert _run(tmp_path)[1] > 0
    hits, misses, autograd_hits = _run(tmp_path)
    assert misses == 0
    assert hits + autograd_hits > 0


def test_another_knob_is_another_graph(tmp_path: Path) -> None:
    _run(tmp_path)
    assert _run(tmp_path, INDUCTOR_NPU_STRICT="1")[1] > 0
