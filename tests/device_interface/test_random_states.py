"""PyTorch's operators that keep a generator's state around a random operator take those of npu."""

from __future__ import annotations

import pytest
import torch
from torch._prims.rng_prims import run_and_save_rng_state, run_with_rng_state
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

RAND = torch.ops.aten.rand.default
DROPOUT = torch.ops.aten.native_dropout.default


@pytest.mark.parametrize("device", ["npu", torch.device("npu", 0)])
def test_an_operator_runs_again_with_the_state_that_was_kept(device: str | torch.device) -> None:
    state, first = run_and_save_rng_state(RAND, [100], device=device)
    other = torch.rand(100, device=device)
    before = torch.npu.get_rng_state()
    again = run_with_rng_state(state, RAND, [100], device=device)
    assert first.device.type == again.device.type == "npu"
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(torch.npu.get_rng_state(), before)


def test_the_device_is_that_of_the_operators_tensors() -> None:
    x = torch.ones(200, device="npu")
    with torch.inference_mode():
        state, (first, mask) = run_and_save_rng_state(DROPOUT, x, 0.5, True)
        again, _ = run_with_rng_state(state, DROPOUT, x, 0.5, True)
    assert torch.equal(first, again)
    assert torch.equal(mask, first != 0)


def test_the_generator_is_put_back_where_the_operator_fails() -> None:
    state, _ = run_and_save_rng_state(RAND, [4], device="npu")
    before = torch.npu.get_rng_state()
    with pytest.raises(RuntimeError, match="negative dimension"):
        run_with_rng_state(state, RAND, [-1], device="npu")
    assert torch.equal(torch.npu.get_rng_state(), before)


def test_other_devices_have_what_they_had() -> None:
    state, first = run_and_save_rng_state(RAND, [4], device="cpu")
    assert torch.equal(run_with_rng_state(state, RAND, [4], device="cpu"), first)
    with pytest.raises(AssertionError, match="Backend not supported for meta"):
        run_and_save_rng_state(RAND, [4], device="meta")


def test_those_who_trace_see_the_operator() -> None:
    with FakeTensorMode():
        state, x = run_and_save_rng_state(RAND, [4], device="npu")
    assert (x.device.type, state.dtype, state.dim()) == ("npu", torch.uint8, 1)
    traced = make_fx(lambda x: run_and_save_rng_state(DROPOUT, x, 0.5, True)[1][0])(torch.ones(4, device="npu"))
    assert next(node.target for node in traced.graph.nodes if node.op == "call_function") is run_and_save_rng_state
