"""Attention at the seat: torch_npu's fused operator as kernels of ours where they are asked for, also in models."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F

import inductor_npu
from examples.embeddings import SentenceEncoder, model_folder
from inductor_npu import config
from inductor_npu.codegen.attention import choice
from inductor_npu.diagnostics.explanation.explanation import Explanation
from models import zoo
from tests.models.test_models import assert_same, step


@pytest.fixture(autouse=True)
def _kernels_of_ours() -> Iterator[None]:
    torch._dynamo.reset()
    with config.patch(templates="all"):
        yield


def assert_all_in_kernels(explanation: Explanation) -> None:
    """Whether kernels do all products and attention, and some do attention."""
    assert explanation.arithmetic.text().startswith("100% of ")
    operators = {name for kernel in explanation.kernels if kernel.operations for name in kernel.operators}
    assert f"npu.{choice.FUSED_FORWARD}" in operators


MASK = torch.arange(33)[:, None] * 2 > torch.arange(70)  # the first query sees no key


@pytest.mark.parametrize(
    ("mask", "options"),
    [(MASK, {}), (None, {"is_causal": True}), (None, {"scale": 0.5}), (MASK.expand(2, 4, -1, -1), {})],
    ids=["mask", "causal", "scale", "mask of each head"],
)
def test_results_and_gradients(mask: torch.Tensor | None, options: dict[str, object]) -> None:
    torch.manual_seed(0)
    tensors = [torch.randn(2, 4, length, 16) for length in (33, 70, 70)]

    def attend(query, key, value, mask):
        return F.scaled_dot_product_attention(query, key, value, mask, **options)

    def results(function, leaves, mask):
        out = function(*leaves, mask)
        return [out, *torch.autograd.grad(out.square().sum(), leaves)]

    expected = results(attend, [each.double().requires_grad_() for each in tensors], mask)
    moved = [each.npu().requires_grad_() for each in tensors]
    with inductor_npu.record_explanation() as recorded:
        actual = results(torch.compile(attend), moved, mask if mask is None else mask.npu())
    for got, wanted in zip(actual, expected, strict=True):
        torch.testing.assert_close(got.cpu().double(), wanted, rtol=0, atol=1e-5 * float(wanted.detach().abs().max()))
    assert_all_in_kernels(recorded.explanation)


def test_what_is_kept_for_gradients_is_the_operators() -> None:
    """So the operator may compute gradients of what a kernel computed, and the other way round."""
    tensors = [torch.randn(2, 4, length, 16).npu() for length in (33, 70, 70)]

    def attend(*tensors):
        return torch.ops.npu.npu_fusion_attention_v3(*tensors, 4, "BNSD", scale=0.25)[:3]

    for got, wanted in zip(torch.compile(attend)(*tensors), attend(*tensors), strict=True):
        assert got.stride() == wanted.stride()
        torch.testing.assert_close(got.cpu(), wanted.cpu(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("templates", "options", "reason"),
    [
        ("auto", {}, "torch_npu's fused operator, unless INDUCTOR_NPU_TEMPLATES=all"),
        ("none", {}, "INDUCTOR_NPU_TEMPLATES=none"),
        ("all", {"pre_tockens": 5}, "pre_tockens of 5"),
    ],
)
def test_what_the_library_computes_says_why(templates: str, options: dict[str, object], reason: str) -> None:
    def attend(x):
        return torch.ops.npu.npu_fusion_attention_v3(x, x, x, 4, "BNSD", **options)[0]

    x = torch.randn(2, 4, 32, 16).npu()
    with config.patch(templates=templates):
        (call,) = inductor_npu.explain(attend, x).library_calls
    assert (call.operator, call.reason) == (f"npu.{choice.FUSED_FORWARD}", reason)
    assert call.operations == 2 * 2 * 2 * 4 * 32 * 32 * 16


def test_a_layer_of_minilm_with_its_weights() -> None:
    torch.manual_seed(0)
    encoder = SentenceEncoder(model_folder(), layers=1)
    ids, mask = torch.randint(1000, 20000, (3, 19)), torch.ones(3, 19, dtype=torch.int64)
    mask[1, 7:] = 0
    with torch.no_grad(), inductor_npu.record_explanation() as recorded:
        actual = torch.compile(copy.deepcopy(encoder).npu())(ids.npu(), mask.npu())
        torch.testing.assert_close(actual.cpu(), encoder(ids, mask), rtol=0, atol=1e-5)
    assert_all_in_kernels(recorded.explanation)


def test_a_training_step_of_bert() -> None:
    model, inputs, call = zoo.build("bert")
    model.train()
    there = copy.deepcopy(model).npu()
    expected = step(model, call, inputs, compiled=False)
    with inductor_npu.record_explanation() as recorded:
        actual = step(there, call, tuple(each.npu() for each in inputs), compiled=True)
    assert_same(actual, expected)
    assert_all_in_kernels(recorded.explanation)
