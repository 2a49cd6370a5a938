"""Compiled graphs on disk: found by a second process, and never by one with another target, version or knob."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cache.together import run_in_turn

PROGRAM = """
import inductor_npu.config
inductor_npu.config.strict = os.environ["RANK"] == "2"
x = torch.arange(12.0).reshape(3, 4).to("npu").requires_grad_()
y = torch.compile(lambda x: torch.softmax(x, -1).pow(2))(x)
y.sum().backward()
torch.testing.assert_close(y.detach().cpu(), torch.softmax(x.detach().cpu(), -1).pow(2))
assert x.grad is not None
graphs = counters["inductor"]
tell(
    found=graphs["fxgraph_cache_hit"] + counters["aot_autograd"]["autograd_cache_hit"],
    compiled=graphs["fxgraph_cache_miss"],
)
"""


@pytest.mark.slow
def test_a_second_process_compiles_nothing_and_another_knob_is_another_graph(tmp_path: Path) -> None:
    first, second, with_another_knob = run_in_turn(PROGRAM, range(3), tmp_path / "caches")
    assert first["compiled"] > 0
    assert (second["compiled"], second["found"] > 0) == (0, True)
    assert with_another_knob["compiled"] > 0
