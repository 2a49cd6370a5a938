"""Modules that call one operator for a whole layer in eval mode: compiled to kernels, against float64 on the CPU."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

import inductor_npu

X = torch.linspace(-9, 9, 2 * 10 * 32).sin().view(2, 10, 32)
LATER = torch.ones(10, 10, dtype=torch.bool).triu(1)
PADDING = torch.arange(10) > torch.tensor([[9], [6]])
MASKS: dict[str, dict[str, torch.Tensor]] = {
    "none": {},
    "later positions": {"mask": LATER},
    "both": {"mask": LATER, "src_key_padding_mask": PADDING},
}


def compiled(module: nn.Module, *inputs: Any, **options: Any) -> Any:
    """What the compiled module returns without gradients; nothing of it is left to eager."""
    torch._dynamo.reset()
    on_npu = {name: each.npu() if isinstance(each, torch.Tensor) else each for name, each in options.items()}
    with torch.no_grad(), inductor_npu.record_explanation() as recorded:
        result = torch.compile(copy.deepcopy(module).npu(), fullgraph=True)(*(each.npu() for each in inputs), **on_npu)
    assert recorded.explanation.kernels
    assert not recorded.explanation.left_to_eager
    return result


@pytest.mark.slow
@pytest.mark.parametrize("masks", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize(("activation", "norm_first"), [("relu", False), ("gelu", True)])
def test_encoder(activation: str, norm_first: bool, masks: dict[str, torch.Tensor]) -> None:
    layer = nn.TransformerEncoderLayer(32, 4, 64, 0.0, activation, batch_first=True, norm_first=norm_first)
    module = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    actual = compiled(module, X, **masks)
    with torch.enable_grad():  # not by the operator
        expected = module.double()(X.double(), **masks)
    torch.testing.assert_close(actual.cpu().double(), expected.detach(), rtol=0, atol=5e-6)


@pytest.mark.parametrize(
    "options",
    [{}, {"need_weights": False, "attn_mask": LATER}, {"key_padding_mask": PADDING, "average_attn_weights": False}],
    ids=["averaged weights", "no weights", "weights of heads"],
)
def test_attention(options: dict[str, Any]) -> None:
    module = nn.MultiheadAttention(32, 4, batch_first=True).eval()
    actual = compiled(module, X, X, X, **options)
    expected = module.double()(*[X.double()] * 3, **options)
    for got, wanted in zip(actual, expected, strict=True):
        assert (got is None) == (wanted is None)
        if wanted is not None:
            torch.testing.assert_close(got.cpu().double(), wanted.detach(), rtol=0, atol=5e-6)
