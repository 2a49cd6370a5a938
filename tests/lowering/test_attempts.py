"""A graph that does not compile is compiled again without what is optional: an error planted into each step in turn
leaves the values right, warns once and says of which step, operator and line it came from.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NoReturn

import pytest
import torch
import torch.nn.functional as F
from torch._inductor import compile_fx  # noqa: F401 (registers the lowerings)
from torch._inductor import config as inductor_config
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import inductor_npu
from inductor_npu import config
from inductor_npu.codegen.scheduling import npu_scheduling  # noqa: F401 (its steps)
from inductor_npu.errors import NpuWarning, UnknownTargetError
from inductor_npu.lowering.graph_passes import passes
from inductor_npu.lowering.graph_passes.passes import PASSES
from inductor_npu.support.optional_steps import STEPS, Kind

torch.npu.is_available()  # lowerings are registered, as steps, once the device is there

Program = tuple[Callable[..., Any], list[torch.Tensor]]


def _loops() -> Program:
    """A product, a softmax and another reduction: kernels of several loops, which are fused, split and tiled."""

    def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return (x @ w).relu().softmax(-1) + x.sum(-1, keepdim=True)

    return f, [torch.randn(33, 65), torch.randn(65, 65)]


def _list_of_tensors() -> Program:
    def f(*tensors: torch.Tensor) -> list[torch.Tensor]:
        return torch._foreach_mul(list(tensors), 2)

    return f, [torch.randn(shape) for shape in [(5, 7), (33,), ()]]


def _gradients(of: Callable[..., torch.Tensor], *shapes: tuple[int, ...]) -> Program:
    """The function `of` tensors of `shapes`, and their gradients."""

    def f(*tensors: torch.Tensor) -> Any:
        return of(*tensors), *torch.autograd.grad(of(*tensors).sum(), tensors)

    return f, [torch.randn(shape, requires_grad=True) for shape in shapes]


def _grouped() -> Program:
    """Small integers, of which sums are exact in bfloat16."""
    left, right = (torch.randint(-2, 3, shape).bfloat16() for shape in [(32, 16), (2, 16, 32)])
    ends = torch.tensor([8, 32], dtype=torch.int32)
    return lambda left, right, ends: F.grouped_mm(left, right, offs=ends), [left, right, ends]


def _summed_in_float32(product: Callable[..., torch.Tensor], *shapes: tuple[int, ...]) -> Program:
    """A product of tensors in bfloat16 with results in float32, which PyTorch has on CUDA alone."""

    def f(*tensors: torch.Tensor) -> torch.Tensor:
        if tensors[0].device.type == "npu":
            return product(*tensors, out_dtype=torch.float32)
        return product(*(each.float() for each in tensors))

    return f, [torch.randn(shape).bfloat16() for shape in shapes]


def _causal(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """FlexAttention on npu; on the CPU, where it has no gradients, the same by other operators."""
    if query.device.type != "npu":
        places = torch.arange(query.shape[-2])
        mask = torch.where(places[:, None] >= places, bias[:, None, :], -torch.inf)
        return F.scaled_dot_product_attention(query, key, value, mask)
    blocks = create_block_mask(lambda b, h, i, j: i >= j, None, None, 64, 64, device="npu", BLOCK_SIZE=32)
    return flex_attention(query, key, value, lambda score, b, h, i, j: score + bias[h, j], blocks)


PROGRAMS: dict[str, Program] = {
    "combo kernels": _list_of_tensors(),
    "aten.mm": (torch.mm, [torch.randn(33, 65), torch.randn(65, 34)]),
    "aten.bmm": (torch.bmm, [torch.randn(2, 33, 65), torch.randn(2, 65, 34)]),
    "aten.addmm": (torch.addmm, [torch.randn(34), torch.randn(33, 65), torch.randn(65, 34)]),
    "aten.baddbmm": (torch.baddbmm, [torch.randn(2, 33, 34), torch.randn(2, 33, 65), torch.randn(2, 65, 34)]),
    "aten._int_mm": (torch._int_mm, [torch.randint(-9, 9, (32, 64), dtype=torch.int8) for _ in range(2)]),
    "aten._grouped_mm.default": _grouped(),
    "aten.mm.dtype": _summed_in_float32(torch.mm, (33, 65), (65, 34)),
    "aten.bmm.dtype": _summed_in_float32(torch.bmm, (2, 33, 65), (2, 65, 34)),
    "aten.addmm.dtype": _summed_in_float32(torch.addmm, (34,), (33, 65), (65, 34)),
    "aten.convolution": (F.conv2d, [torch.randn(2, 4, 9, 9), torch.randn(5, 4, 3, 3)]),
}
PROGRAMS["aten._int_mm"][1][1] = PROGRAMS["aten._int_mm"][1][1].t()
TRAINED: dict[str, Program] = {
    "aten.convolution_backward": _gradients(F.conv2d, (2, 4, 9, 9), (5, 4, 3, 3)),
    "aten._scaled_dot_product_fused_attention_overrideable.default": _gradients(
        F.scaled_dot_product_attention, *[(2, 2, 64, 32)] * 3
    ),
    "aten._scaled_dot_product_fused_attention_overrideable_backward.default": _gradients(
        F.scaled_dot_product_attention, *[(2, 2, 64, 32)] * 3
    ),
    "kernel": _gradients(F.scaled_dot_product_attention, *[(2, 2, 64, 32)] * 3),
    "flex_attention": _gradients(_causal, *[(2, 2, 64, 32)] * 3, (2, 64)),
    "flex_attention_backward": _gradients(_causal, *[(2, 2, 64, 32)] * 3, (2, 64)),
}
NAMES = [name for name in STEPS if not name.startswith("npu.")]


def _fail(*args: Any, **options: Any) -> NoReturn:
    raise RuntimeError("planted")


def _compiled_with_an_error_in(
    name: str, monkeypatch: pytest.MonkeyPatch, fail: Callable[..., NoReturn] = _fail
) -> tuple[Any, list[str]]:
    """The results of the step's program with an error in the step, beside those of the CPU; the warnings."""
    monkeypatch.setattr(STEPS[name], "function", fail)
    function, inputs = {**PROGRAMS, **TRAINED}.get(name) or _loops()
    on_npu = [each.detach().npu().requires_grad_(each.requires_grad) for each in inputs]
    torch._dynamo.reset()
    with (
        warnings.catch_warnings(record=True) as caught,
        config.patch(templates="all"),
        inductor_config.patch(force_disable_caches=True, combo_kernels=True),
    ):
        warnings.simplefilter("always", NpuWarning)
        results = torch.compile(function)(*on_npu)
    expected = function(*inputs)
    torch.testing.assert_close(results, expected, check_device=False, rtol=1e-4, atol=1e-4)
    return results, [str(each.message) for each in caught if each.category is NpuWarning]


def test_every_optional_pass_is_a_step() -> None:
    assert [each.name for each in PASSES if each.optional] == [
        step.name for step in STEPS.values() if step.kind is Kind.GRAPH_PASS
    ]


@pytest.mark.parametrize("name", NAMES)
def test_an_error_in_a_step_leaves_the_program_right(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with config.patch(strict=False):
        _, told = _compiled_with_an_error_in(name, monkeypatch)
    assert told and all(str(STEPS[name]) in text and "planted" in text for text in told)


def test_the_warning_names_the_operator_and_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with config.patch(strict=False):
        _, (text,) = _compiled_with_an_error_in("tile", monkeypatch)
    assert "test_attempts.py" in text and "(x @ w).relu()" in text


def test_strict_mode_raises_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with config.patch(strict=True), pytest.raises(Exception, match="planted"):
        _compiled_with_an_error_in("repeated_masks", monkeypatch)


def test_a_chip_that_is_not_known_is_the_users_to_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any, **options: Any) -> NoReturn:
        raise UnknownTargetError(name="Ascend310P3", known="Ascend910B3")

    with config.patch(strict=False), pytest.raises(Exception, match="Ascend310P3"):
        _compiled_with_an_error_in("repeated_masks", monkeypatch, fail)


def test_explain_counts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(STEPS["repeated_masks"], "function", _fail)
    function, inputs = _loops()
    with config.patch(strict=False), inductor_config.patch(force_disable_caches=True), pytest.warns(NpuWarning):
        explained = inductor_npu.explain(function, *[each.npu() for each in inputs])
    (graph,) = explained.graphs
    assert graph.compiled_without is not None and "repeated_masks" in graph.compiled_without.left_out
    assert "planted" in str(explained)


def test_an_error_that_every_attempt_meets_is_raised_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one: the others come from an Inductor that has less."""
    failing = [each if each.optional else replace(each, apply=_fail) for each in PASSES]
    monkeypatch.setattr(passes, "PASSES", tuple(failing))
    function, inputs = _loops()
    torch._dynamo.reset()
    with (
        config.patch(strict=False),
        inductor_config.patch(force_disable_caches=True),
        pytest.raises(Exception, match="planted"),
    ):
        torch.compile(function)(*[each.npu() for each in inputs])
