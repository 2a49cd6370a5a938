"""Where a generated kernel came from: operators, source lines, kernels that users wrote."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl

from inductor_npu import config
from inductor_npu.ascend.collect.afresh import compiled_afresh
from inductor_npu.codegen.annotations import provenance


@triton.jit
def add_one_kernel(source, target, count, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(target + i, tl.load(source + i, mask=i < count) + 1, mask=i < count)


def origins_of(function, *inputs: torch.Tensor) -> list[provenance.Provenance]:
    """The origins of the kernels that compiling `function` afresh makes."""
    with compiled_afresh(), provenance.record() as remembered:
        result = torch.compile(function)(*inputs)
        if result.requires_grad:
            result.sum().backward()
    return list(remembered.values())


def texts(origin: provenance.Provenance) -> list[str]:
    return [line.text for line in origin.lines]


def test_a_fused_kernel_names_each_operator_and_source_line_once():
    def model(x):
        y = torch.nn.functional.gelu(x)
        return y.exp() * y

    (origin,) = origins_of(model, torch.randn(64, device="npu"))
    assert origin.operators == ("aten.gelu", "aten.exp", "aten.mul") and origin.failure is None
    assert texts(origin) == ["y = torch.nn.functional.gelu(x)", "return y.exp() * y"]
    line = origin.lines[0]
    assert (
        Path(line.file) == Path(__file__)
        and Path(__file__).read_text().splitlines()[line.line - 1].strip() == line.text
    )


def test_a_kernel_of_the_backward_pass_names_the_line_of_the_forward_pass():
    def model(x):
        return torch.nn.functional.gelu(x)

    origins = origins_of(model, torch.randn(64, device="npu", requires_grad=True))
    backward = next(origin for origin in origins if "aten.gelu_backward" in origin.operators)
    assert texts(backward) == ["return torch.nn.functional.gelu(x)"]


def test_a_kernel_that_a_user_wrote_names_its_own_definition():
    def model(x):
        out = torch.empty_like(x)
        add_one_kernel[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), BLOCK=64)
        return out

    origins = origins_of(model, torch.randn(64, device="npu"))
    assert ["def add_one_kernel(source, target, count, BLOCK: tl.constexpr):"] in [texts(origin) for origin in origins]


def test_a_kernel_that_does_not_compile_says_why(monkeypatch: pytest.MonkeyPatch):
    from inductor_npu.codegen.scheduling import npu_scheduling as scheduling

    monkeypatch.setattr(scheduling, "compile_in_process", lambda name, source: ValueError("no such instruction"))
    with config.patch(strict=False), pytest.warns(match="no such instruction"):
        (origin,) = origins_of(torch.exp, torch.randn(64, device="npu"))
    assert origin.failure == "ValueError: no such instruction" and origin.operators == ("aten.exp",)


def test_nothing_is_remembered_unless_asked():
    with compiled_afresh():
        torch.compile(lambda x: x.sin() + 3)(torch.randn(64, device="npu"))
    with provenance.record() as remembered:
        assert remembered == {}
        with pytest.raises(RuntimeError, match="already"), provenance.record():
            pass
