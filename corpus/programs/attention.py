"""Programs of attention: heads, lengths, masks, grouped queries, gradients, FlexAttention."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch.nn.attention.flex_attention import flex_attention

from corpus.programs.program import Program, case, family
from corpus.programs.tensors import Input, booleans, floats

_DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


def _heads(length: int, head: int, name: str = "float16", heads: int = 2) -> list[Input]:
    return [floats(1, heads, length, head, dtype=_DTYPES[name])] * 3


def _attention(**options: object) -> Callable[..., torch.Tensor]:
    return lambda q, k, v, *mask: F.scaled_dot_product_attention(q, k, v, *mask, **options)


def _sdpa() -> Iterator[Program]:
    for head in (32, 64, 80, 128):
        for causal in (False, True):
            yield case(f"heads of {head}{' causal' * causal}", _attention(is_causal=causal), *_heads(128, head))
    for name in _DTYPES:
        for length in (64, 130):
            more = f"{length} positions {name}"
            yield case(f"{more}", _attention(), *_heads(length, 64, name))
            yield case(f"{more} causal backward", _attention(is_causal=True), *_heads(length, 64, name), backward=True)
    yield case("more keys", _attention(), *_heads(33, 64)[:1], *_heads(150, 64)[:2])
    yield case("one query", _attention(), *_heads(1, 64)[:1], *_heads(150, 64)[:2])
    yield case("bool mask", _attention(), *_heads(65, 64), booleans(65, 65))
    yield case("added mask", _attention(), *_heads(65, 64), floats(1, 1, 65, 65, dtype=torch.float16))
    grouped = (floats(1, 4, 65, 64, dtype=torch.float16), *_heads(65, 64)[:2])
    yield case("grouped queries", _attention(enable_gqa=True), *grouped)
    yield case("grouped queries causal backward", _attention(enable_gqa=True, is_causal=True), *grouped, backward=True)
    yield case("dynamic", _attention(is_causal=True), *_heads(100, 64), dynamic=True)


_SCORES: dict[str, Callable[..., torch.Tensor]] = {
    "alibi": lambda score, b, h, q, k: score + (k - q) * torch.exp2(-(h + 1.0)),
    "softcap": lambda score, b, h, q, k: 20 * torch.tanh(score / 20),
    "window": lambda score, b, h, q, k: torch.where((q - k).abs() <= 16, score, -float("inf")),
}


def _flex() -> Iterator[Program]:
    for name, change in _SCORES.items():
        for backward in (False, True):
            more = " backward" * backward
            yield case(f"flex {name}{more}", _flexible(change), *_heads(130, 64), backward=backward)


def _flexible(change: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    return lambda q, k, v: flex_attention(q, k, v, change)


PROGRAMS = family("attention", [*_sdpa(), *_flex()])
