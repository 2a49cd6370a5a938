"""Attention of operands and masks as programs leave them in memory: turned, broadcast, cut out, made by operators."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

import inductor_npu.config as config
from tests.compile.attention.cases import assert_close, check, heads, kernels

BATCH, HEADS, LENGTH, DIM = 2, 4, 33, 16
SIZES = (BATCH, HEADS, LENGTH, DIM)

Layout = tuple[tuple[int, ...], Callable[[torch.Tensor], torch.Tensor]]
Mask = tuple[tuple[int, ...], Callable[[torch.Tensor], torch.Tensor]]


def rotated(x: torch.Tensor) -> torch.Tensor:
    """A rotary embedding."""
    angle = torch.arange(LENGTH, device=x.device)[:, None] * torch.linspace(0.1, 1, DIM // 2, device=x.device)
    even, odd = x.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack([even * angle.cos() - odd * angle.sin(), even * angle.sin() + odd * angle.cos()], -1).flatten(-2)


def convolved(x: torch.Tensor) -> torch.Tensor:
    """Channels of an image, [2, 3, 33, 1]: heads, then their elements."""
    weight = torch.linspace(-1, 1, HEADS * DIM * 3, device=x.device).sin().view(HEADS * DIM, 3, 1, 1)
    return F.conv2d(x, weight.to(x.dtype)).view(BATCH, HEADS, DIM, LENGTH).transpose(2, 3)


def shifted(scores: torch.Tensor) -> torch.Tensor:
    """Scores by distance [2, 4, 33, 65] as scores by key, by padding, a view and a slice (Transformer-XL)."""
    padded = F.pad(scores, (1, 0)).view(BATCH, HEADS, -1, LENGTH)
    return padded[:, :, 1:].reshape(BATCH, HEADS, LENGTH, -1)[..., :LENGTH]


LAYOUTS: dict[str, Layout] = {
    "heads behind positions": ((BATCH, LENGTH, HEADS, DIM), lambda x: x.transpose(1, 2)),
    "heads innermost": ((BATCH, LENGTH, DIM, HEADS), lambda x: x.permute(0, 3, 1, 2)),
    "positions innermost": ((BATCH, HEADS, DIM, LENGTH), lambda x: x.mT),
    "batches innermost": (SIZES[::-1], lambda x: x.permute(3, 2, 1, 0)),
    "one batch": ((1, HEADS, LENGTH, DIM), lambda x: x.expand(SIZES)),
    "one head": ((BATCH, LENGTH, 1, DIM), lambda x: x.expand(-1, -1, HEADS, -1).transpose(1, 2)),
    "one position": ((BATCH, HEADS, 1, DIM), lambda x: x.expand(SIZES)),
    "one element": ((BATCH, HEADS, LENGTH, 1), lambda x: x.expand(SIZES)),
    "cut out": ((BATCH, HEADS, LENGTH + 3, DIM + 5), lambda x: x[..., 2:-1, 3:-2]),
    "every other": ((BATCH, 2 * HEADS, 2 * LENGTH, 2 * DIM), lambda x: x[:, 1::2, ::2, 1::2]),
    "backwards": ((BATCH, LENGTH, HEADS, DIM), lambda x: x.flip(1).transpose(1, 2)),
    "rolled": ((BATCH, LENGTH, HEADS, DIM), lambda x: x.roll(5, 1).transpose(1, 2)),
    "rotated, heads innermost": ((BATCH, LENGTH, DIM, HEADS), lambda x: rotated(x.permute(0, 3, 1, 2))),
    "rotated, positions innermost": ((BATCH, HEADS, DIM, LENGTH), lambda x: rotated(x.mT)),
    "convolved": ((BATCH, 3, LENGTH, 1), convolved),
}
RESULTS: list[Callable[[torch.Tensor], torch.Tensor]] = [
    lambda out: out.transpose(1, 2).flatten(2),
    lambda out: out.sum((0, 1)),
    lambda out: out.permute(3, 0, 2, 1).sin(),
    lambda out: out[:, :, 1::2, 3:],
]


def test_operands_between_convolutions() -> None:
    """What is kept for gradients between convolutions lies with channels, here heads, innermost; so would copies."""

    def run(image: torch.Tensor, first: torch.Tensor, last: torch.Tensor) -> torch.Tensor:
        query = rotated(F.conv2d(image, first, padding=1).view(2, 4, 16, 33).transpose(2, 3))
        out = F.scaled_dot_product_attention(query, query + 1, query.sin())
        return F.conv2d(out.transpose(2, 3).reshape(2, 64, 3, 11), last, padding=1)

    shapes = (2, 32, 3, 11), (64, 32, 3, 3), (32, 64, 3, 3)
    check(run, [torch.linspace(-1e4, 1e4, math.prod(shape)).sin().view(shape) / 4 for shape in shapes])


def test_a_mask_whose_elements_no_strides_name() -> None:
    def run(*tensors: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(*tensors[:3], shifted(tensors[3]))

    inputs = [*heads(*SIZES[:3], LENGTH, DIM), torch.linspace(-9, 9, 8 * 33 * 65).sin().view(2, 4, 33, 65)]
    actual, _ = kernels(run, *inputs)
    assert_close([actual], [run(*inputs)], torch.float32)


@pytest.mark.slow
@pytest.mark.parametrize("names", [list(LAYOUTS)[start::5] for start in range(5)], ids="; ".join)
def test_operands(names: list[str]) -> None:
    """Each of queries, keys and values lies in memory in each way; each result's gradient, in one of four."""

    def run(*tensors: torch.Tensor) -> torch.Tensor:
        placed = [LAYOUTS[name][1](tensor) for name, tensor in zip(names, tensors, strict=True)]
        turns = [placed[turn:] + placed[:turn] for turn in range(len(placed))]
        results = [F.scaled_dot_product_attention(*turn) for turn in turns]
        return torch.cat([RESULTS[(place + len(names[0])) % 4](each).flatten() for place, each in enumerate(results)])

    generator = torch.Generator().manual_seed(0)
    with config.patch(templates="all"):
        check(run, [torch.randn(LAYOUTS[name][0], generator=generator) for name in names])


def distances(device: torch.device) -> torch.Tensor:
    """How far each query is from each key, counted from 0."""
    place = torch.arange(LENGTH, device=device)
    return place[:, None] - place + LENGTH - 1


def windowed(bias: torch.Tensor) -> torch.Tensor:
    """A bias [heads, queries, keys] with a mask for each window, as in a transformer of shifted windows."""
    window = torch.arange(BATCH, device=bias.device)[:, None, None]
    is_far = (distances(bias.device) + window) % 4 == 0
    return bias + torch.where(is_far, -100.0, 0.0).to(bias.dtype)[:, None]


def split(scores: torch.Tensor) -> torch.Tensor:
    """Scores by row and by column of a 3 x 11 image [8, 33, 14], decomposed as in SAM."""
    rows, columns = scores.view(BATCH, HEADS, LENGTH, 14).split([3, 11], -1)
    return (rows[..., :, None] + columns[..., None, :]).flatten(-2)


MASKS: dict[str, Mask] = {
    "by distance": ((2 * LENGTH - 1, HEADS), lambda t: t[distances(t.device)].permute(2, 0, 1)),
    "by distance from the end": ((2 * LENGTH, HEADS), lambda t: t[distances(t.device) - LENGTH].permute(2, 0, 1)),
    "windows": (
        (2 * LENGTH - 1, HEADS),
        lambda t: windowed(t[distances(t.device).view(-1)].view(LENGTH, LENGTH, -1).permute(2, 0, 1).contiguous()),
    ),
    "shifted": ((BATCH, HEADS, LENGTH, 2 * LENGTH - 1), shifted),
    "split": ((BATCH * HEADS, LENGTH, 14), split),
    "turned": ((LENGTH, LENGTH, HEADS), lambda t: t.permute(2, 1, 0)),
    "cut out": ((BATCH, 1, LENGTH + 2, LENGTH + 5), lambda t: t[..., 1:-1, 2:-3]),
    "every other": ((2 * LENGTH, 3 * LENGTH), lambda t: t[::2, 1::3]),
    "one number": ((1,), lambda t: t.view(1, 1, 1, 1).expand(BATCH, HEADS, LENGTH, LENGTH)),
    "one for each key": ((BATCH, 1, 1, LENGTH), lambda t: t.expand(-1, HEADS, LENGTH, -1)),
    "padded": ((LENGTH, LENGTH - 3), lambda t: F.pad(t, (1, 2), value=-1.0)),
    "summed": ((LENGTH, LENGTH), lambda t: t.cumsum(0)),
    "minus infinity": ((LENGTH, LENGTH), lambda t: t.masked_fill(distances(t.device) < LENGTH - 1, -torch.inf)),
}


@pytest.mark.slow
@pytest.mark.parametrize("has_gradient", [True, False])
@pytest.mark.parametrize("names", [list(MASKS)[start::4] for start in range(4)], ids="; ".join)
def test_masks(names: list[str], has_gradient: bool) -> None:
    def run(*tensors: torch.Tensor) -> torch.Tensor:
        given = [tensor if has_gradient else tensor.detach() for tensor in tensors[3:]]
        masks = [MASKS[name][1](tensor) for name, tensor in zip(names, given, strict=True)]
        results = [F.scaled_dot_product_attention(*tensors[:3], mask) for mask in masks]
        return torch.stack(results).transpose(2, 3) + 0 * sum(tensor.sum() for tensor in tensors[3:])

    generator = torch.Generator().manual_seed(0)
    shapes = [*[SIZES] * 3, *(MASKS[name][0] for name in names)]
    with config.patch(templates="all"):
        check(run, [torch.randn(shape, generator=generator) for shape in shapes])
