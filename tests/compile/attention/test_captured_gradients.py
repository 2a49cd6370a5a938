"""FlexAttention with learned tensors in `score_mod`: their gradients, in float64 on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import inductor_npu.config as config
from inductor_npu.errors import NpuWarning
from tests.compile.attention.cases import assert_close, heads, on_npu, with_gradients

Score = Callable[..., torch.Tensor]

B, H, S, D = 2, 4, 70, 32
# Which bucket a distance is in, by device.
BUCKETS: dict[str, torch.Tensor] = {}

# What a score becomes by learned tensors t and u: of which sizes, and how.
LEARNED: dict[str, tuple[list[tuple[int, ...]], Score]] = {
    "bias of heads": ([(H,)], lambda s, b, h, q, k, t: s + t[h]),
    "bias of queries": ([(S,)], lambda s, b, h, q, k, t: s + t[q]),
    "bias of all scores": ([(B, H, S, S)], lambda s, b, h, q, k, t: s + t[b, h, q, k]),
    "bias of pairs": ([(S, S)], lambda s, b, h, q, k, t: s + t[k, q]),
    "relative bias": ([(2 * S,)], lambda s, b, h, q, k, t: s + t[q - k + S]),
    "relative bias of heads": ([(H, 2 * S)], lambda s, b, h, q, k, t: s + t[h, q - k + S]),
    "from the end": ([(2 * S,)], lambda s, b, h, q, k, t: s + t[q - k]),
    "buckets": ([(20, H)], lambda s, b, h, q, k, t: s + t[BUCKETS[t.device.type][(q - k).abs()], h]),
    "scale of heads": ([(H,)], lambda s, b, h, q, k, t: s * t[h]),
    "a number": ([()], lambda s, b, h, q, k, t: s * t),
    "gates": ([(B, S)], lambda s, b, h, q, k, t: s * torch.sigmoid(t[b, k])),
    "not linear": ([(H, S)], lambda s, b, h, q, k, t: torch.tanh(s * t[h, q]) + torch.sin(t[h, k])),
    "two tensors": ([(H,), (S,)], lambda s, b, h, q, k, t, u: s * t[h] + u[q] * u[k]),
    "one of two": ([(H,), (S,)], lambda s, b, h, q, k, t, u: s * t[h] + u.detach()[q]),
    "a part": ([(3, S)], lambda s, b, h, q, k, t: s + t[1, q]),
}


@pytest.fixture(autouse=True)
def buckets() -> None:
    for device in ("cpu", "npu"):
        BUCKETS[device] = torch.arange(2 * S).float().sqrt().to(torch.int64).to(device)


def written_out(score: Score, causal: bool = False) -> Callable[..., torch.Tensor]:
    """All scores at once."""

    def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *learned: torch.Tensor) -> torch.Tensor:
        key, value = (each.repeat_interleave(query.shape[1] // key.shape[1], 1) for each in (key, value))
        scores = query @ key.mT / query.shape[-1] ** 0.5
        indices = torch.meshgrid(*map(torch.arange, scores.shape), indexing="ij")
        scores = score(scores, *indices, *learned)
        if causal:
            scores = scores.masked_fill(indices[2] < indices[3], -torch.inf)
        return torch.softmax(scores, -1) @ value

    return attend


def flex(score: Score, causal: bool = False) -> Callable[..., torch.Tensor]:
    def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *learned: torch.Tensor) -> torch.Tensor:
        rows, columns = query.shape[2], key.shape[2]
        mask = lambda b, h, q, k: q >= k  # noqa: E731 - a mask_mod
        blocks = create_block_mask(mask, None, None, rows, columns, device="npu", BLOCK_SIZE=32) if causal else None
        modify = lambda s, b, h, q, k: score(s, b, h, q, k, *learned)  # noqa: E731 - a score_mod
        return flex_attention(query, key, value, modify, blocks, enable_gqa=True)

    return attend


def learned_of(sizes: list[tuple[int, ...]], dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    return [torch.randn(size, dtype=dtype) for size in sizes]


def check(score: Score, tensors: list[torch.Tensor], causal: bool = False, compiled: Any = None) -> None:
    """Result, gradients of queries, keys and values, and of what is learned."""
    expected = with_gradients(written_out(score, causal), [tensor.double() for tensor in tensors])
    actual = with_gradients(compiled or torch.compile(flex(score, causal)), on_npu(tensors))
    assert_close(actual, expected, tensors[0].dtype)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in LEARNED if name != "one of two"])
def test_gradients(name: str) -> None:
    sizes, score = LEARNED[name]
    check(score, [*heads(B, H, S, S, D), *learned_of(sizes)])


@pytest.mark.slow
def test_what_needs_no_gradient_has_none() -> None:
    sizes, score = LEARNED["one of two"]
    q, k, v, t, u = (each.requires_grad_() for each in on_npu([*heads(B, H, S, S, D), *learned_of(sizes)]))
    torch.compile(flex(score))(q, k, v, t, u).sum().backward()
    assert t.grad.abs().sum() > 0 and u.grad.abs().sum() == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["relative bias of heads", "scale of heads", "buckets"])
def test_blocks_that_are_left_out_add_nothing(name: str) -> None:
    sizes, score = LEARNED[name]
    check(score, [*heads(B, H, S, S, D), *learned_of(sizes)], causal=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_halves(dtype: torch.dtype) -> None:
    sizes, score = LEARNED["relative bias of heads"]
    check(score, [*heads(B, H, S, S, D, dtype), *learned_of(sizes, dtype)])


@pytest.mark.slow
def test_grouped_queries_of_another_length() -> None:
    sizes, score = LEARNED["relative bias"]
    check(score, [*heads(B, H, 33, S, D, shared=2), *learned_of(sizes)])


@pytest.mark.slow
def test_dynamic_lengths() -> None:
    sizes, score = LEARNED["relative bias of heads"]
    compiled = torch.compile(flex(score), dynamic=True)
    for length in (S, 65, 33):
        check(score, [*heads(B, H, length, length, D), *learned_of(sizes)], compiled=compiled)


def test_a_training_step_learns_the_bias() -> None:
    """The bias of a model with relative positions, and another step after an update."""
    _, score = LEARNED["relative bias of heads"]
    tensors = heads(B, H, S, S, D)
    bias = {"cpu": torch.zeros(H, 2 * S, requires_grad=True)}
    bias["npu"] = bias["cpu"].detach().npu().requires_grad_()
    compiled = torch.compile(flex(score))
    for _ in range(3):
        for device, attend in (("cpu", written_out(score)), ("npu", compiled)):
            learned = bias[device]
            loss = attend(*(each.to(device) for each in tensors), learned).square().mean()
            (gradient,) = torch.autograd.grad(loss, learned)
            bias[device] = (learned - 10 * gradient).detach().requires_grad_()
    torch.testing.assert_close(bias["npu"].detach().cpu(), bias["cpu"].detach(), rtol=1e-4, atol=1e-6)


def test_more_than_an_index_is_refused() -> None:
    score = lambda s, b, h, q, k, t: s + t.reshape(-1)[q]  # noqa: E731 - a score_mod
    tensors = [each.requires_grad_() for each in on_npu([*heads(B, H, S, S, D), torch.randn(S, 1)])]
    with pytest.raises(Exception, match="does more with it than index it"):
        torch.compile(flex(score))(*tensors).sum().backward()


@pytest.mark.slow
def test_eager_stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    from inductor_npu.codegen.scheduling import npu_scheduling

    sizes, score = LEARNED["scale of heads"]
    monkeypatch.setattr(npu_scheduling, "compile_in_process", lambda name, source: RuntimeError("refused"))
    with config.patch(strict=False), pytest.warns(NpuWarning, match="flex attention"):
        check(score, [*heads(B, H, 75, 75, D), *learned_of(sizes)], causal=True)
