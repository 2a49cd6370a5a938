"""Watching launches: who is called, with what, and what is left out."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from inductor_npu.simulator.triton_backend.observer import observe

pytestmark = pytest.mark.compiled


def fresh_kernel() -> Any:
    """A kernel that this process has not loaded: one loaded before is not seen."""

    @triton.jit
    def add_kernel(source, target, count, amount, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(target + i, tl.load(source + i, mask=i < count) + amount, mask=i < count)

    return add_kernel


def test_an_observer_sees_kernel_grid_and_arguments_and_memory_before_and_after():
    x, out = torch.ones(100, device="npu"), torch.zeros(100, device="npu")
    seen = []

    def observer(source, options, grid, arguments, launch):
        before = arguments["target"].cpu()
        launch()
        seen.append((source.fn.__name__, grid, arguments, before, arguments["target"].cpu()))

    kernel = fresh_kernel()
    with observe(observer):
        kernel[(2,)](x, out, 100, 3, BLOCK=64)
    kernel[(2,)](x, out, 100, 3, BLOCK=64)  # after the block nobody is told

    ((name, grid, arguments, before, after),) = seen
    assert (name, grid) == ("add_kernel", (2, 1, 1))
    assert arguments["source"] is x and arguments["count"] == 100 and arguments["amount"] == 3
    assert before.sum() == 0 and torch.equal(after, torch.full((100,), 4.0))


def test_a_kernel_loaded_before_is_launched_directly():
    kernel, launches = fresh_kernel(), []
    x, out = torch.ones(100, device="npu"), torch.zeros(100, device="npu")
    kernel[(2,)](x, out, 100, 3, BLOCK=64)
    with observe(lambda *launch: launches.append(launch)):
        kernel[(2,)](x, out, 100, 3, BLOCK=64)
    assert launches == [] and torch.equal(out.cpu(), torch.full((100,), 4.0))


def test_candidates_of_the_autotuner_are_not_the_programs_launches():
    tuned = triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], key=["count"])(
        fresh_kernel()
    )
    x, out = torch.ones(100, device="npu"), torch.zeros(100, device="npu")
    blocks = []

    def observer(source, options, grid, arguments, launch):
        blocks.append(grid)
        launch()

    with observe(observer):
        for _ in range(3):
            tuned[lambda meta: (triton.cdiv(100, meta["BLOCK"]),)](x, out, 100, 3)
    # The chosen kernel was loaded while it was timed, but still tells of its launches afterwards.
    assert len(blocks) == 3 and len(set(blocks)) == 1
    assert torch.equal(out.cpu(), torch.full((100,), 4.0))


def test_observing_twice_at_once_is_refused():
    with observe(print), pytest.raises(RuntimeError, match="already"), observe(print):
        pass
