"""Arithmetic on the lengths of axes: known numbers need no proof."""

from __future__ import annotations

import pytest
import sympy

from inductor_npu.codegen.index import split_points as cuts

NUMBERS = [sympy.Integer(number) for number in (1, 2, 3, 12, 512, 1 << 40)]


@pytest.mark.parametrize("a", NUMBERS)
@pytest.mark.parametrize("b", NUMBERS)
def test_numbers_are_compared_without_a_graph(a: sympy.Integer, b: sympy.Integer):
    assert cuts.equal(a, b) is (int(a) == int(b))
    assert cuts.is_multiple(a, b) is (int(a) % int(b) == 0)
    assert cuts.product([a, b]) == int(a) * int(b)
    assert cuts.quotient(a * b, b) == a


@pytest.mark.compiled
def test_inductors_tilings_for_gpus_are_not_looked_for(monkeypatch: pytest.MonkeyPatch):
    """A kernel's own axes take their place, and what is not used must not cost time, nor tell two kernels apart."""
    import torch
    from torch._inductor import tiling_utils
    from torch._inductor.utils import run_and_get_code

    def refuse(*_: object) -> None:
        raise AssertionError("the accesses were analysed for a GPU")

    for name in ("_analyze_memory_coalescing", "analyze_memory_coalescing"):
        monkeypatch.setattr(tiling_utils, name, refuse, raising=False)
    compiled = torch.compile(lambda x: x.t() + 1 + x.sum(1))
    _, (code,) = run_and_get_code(compiled, torch.ones(64, 64, device="npu"))
    assert "tiling_scores" not in code
