"""flex_attention as kernels: what modifies and masks scores, blocks that are left out, gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend
from torch.nn.attention.flex_attention import AuxRequest, BlockMask, create_block_mask, flex_attention

import inductor_npu.config as config
from inductor_npu.errors import NpuWarning
from tests.compile.attention.cases import assert_close, heads, kernels, on_npu, with_gradients

Captured = dict[str, torch.Tensor]
Score = Callable[..., torch.Tensor]

TABLES: Captured = {
    "documents": torch.arange(200) // 37,
    "relative": torch.linspace(-1, 1, 4 * 399).sin().reshape(4, 399),
    "bias": torch.linspace(-2, 2, 2 * 4 * 200 * 200).cos().reshape(2, 4, 200, 200),
    "prefix": torch.tensor([3, 90]),
    "slopes": torch.linspace(0.01, 0.1, 4),
}

SCORES: dict[str, Score] = {
    "alibi": lambda score, b, h, q, k, of: score + (k - q) * of["slopes"][h],
    "softcap": lambda score, b, h, q, k, of: 20 * torch.tanh(score / 20),
    "relative": lambda score, b, h, q, k, of: score + of["relative"][h, q - k + 199],
    "bias": lambda score, b, h, q, k, of: score + of["bias"][b, h, q, k],
    "masked by the score": lambda score, b, h, q, k, of: torch.where(k <= q, score, -float("inf")),
    "constant": lambda score, b, h, q, k, of: score * 0 + 2.0,
}
MASKS: dict[str, Score] = {
    "causal": lambda b, h, q, k, of: q >= k,
    "window": lambda b, h, q, k, of: (q >= k) & (q - k <= 40),
    "documents": lambda b, h, q, k, of: (of["documents"][q] == of["documents"][k]) & (q >= k),
    "prefix": lambda b, h, q, k, of: (k < of["prefix"][b]) | (q >= k),
    "dilated": lambda b, h, q, k, of: (q - k) % 4 == 0,
    "by head": lambda b, h, q, k, of: (q // 8 >= k // 8) | (h == 3),
    "empty rows": lambda b, h, q, k, of: (q >= k) & (q != 5) & (q < 130),
}


def flex(
    score: Score | None = None, mask: Score | None = None, length: int = 200, block: int = 128, **options: Any
) -> Callable[..., Any]:
    """flex_attention of queries, keys and values as a function; in float64 on the CPU written out."""

    def run(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> Any:
        of = {name: table.to(query.device) for name, table in TABLES.items()}
        if query.device.type == "cpu":
            return written_out(query, key, value, score, mask, of)
        modify = None if score is None else lambda value, b, h, q, k: score(value, b, h, q, k, of)
        return flex_attention(query, key, value, modify, blocks, enable_gqa=True, **options)

    blocks: BlockMask | None = None
    if mask is not None:
        of = {name: table.npu() for name, table in TABLES.items()}
        blocks = create_block_mask(
            lambda b, h, q, k: mask(b, h, q, k, of), 2, 4, length, length, device="npu", BLOCK_SIZE=block
        )
    return run


def written_out(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, score: Score | None, mask: Score | None, of: Captured
) -> torch.Tensor:
    """The definition: all scores at once."""
    groups = query.shape[1] // key.shape[1]
    key, value = (each.repeat_interleave(groups, 1) for each in (key, value))
    scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
    indices = torch.meshgrid(*map(torch.arange, scores.shape), indexing="ij")
    if score is not None:
        scores = score(scores, *indices, of)
    if mask is not None:
        scores = torch.where(mask(*indices, of), scores, -float("inf"))
    weights = torch.softmax(scores, -1)
    return torch.where((scores == -float("inf")).all(-1, keepdim=True), 0, weights) @ value


def check(function: Callable[..., Any], tensors: list[torch.Tensor]) -> None:
    expected = with_gradients(function, [tensor.double() for tensor in tensors])
    actual = with_gradients(torch.compile(function, fullgraph=True), on_npu(tensors))
    assert_close(actual, expected, tensors[0].dtype)


@pytest.mark.slow
@pytest.mark.parametrize("name", SCORES)
def test_scores(name: str) -> None:
    check(flex(score=SCORES[name]), heads(2, 4, 200, 200, 32))


@pytest.mark.slow
@pytest.mark.parametrize("name", MASKS)
def test_masks(name: str) -> None:
    check(flex(mask=MASKS[name]), heads(2, 4, 200, 200, 32))


@pytest.mark.slow
def test_nothing_is_modified() -> None:
    check(flex(), heads(2, 4, 65, 130, 32))


@pytest.mark.slow
@pytest.mark.parametrize("block", [32, 64, (128, 64)])
def test_sizes_of_blocks(block: Any) -> None:
    check(flex(mask=MASKS["causal"], block=block), heads(2, 4, 200, 200, 32))


@pytest.mark.slow
def test_a_score_and_a_mask_of_grouped_queries_in_halves() -> None:
    both = flex(score=SCORES["alibi"], mask=MASKS["window"])
    check(both, heads(2, 4, 200, 200, 64, torch.bfloat16, shared=2))


@pytest.mark.slow
def test_logarithms_and_their_gradients() -> None:
    query, key, value = heads(2, 4, 200, 200, 32)

    def of_npu(*tensors: torch.Tensor) -> torch.Tensor:
        out, log = flex(mask=MASKS["causal"], return_lse=True)(*tensors)
        return torch.cat([out, log[..., None].to(out)], -1)

    def by_definition(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        out = flex(mask=MASKS["causal"])(query, key, value)
        scores = (query @ key.mT / 32**0.5).masked_fill(torch.ones(200, 200).triu(1) > 0, -float("inf"))
        return torch.cat([out, torch.logsumexp(scores, -1, keepdim=True)], -1)

    expected = with_gradients(by_definition, [each.double() for each in (query, key, value)])
    assert_close(with_gradients(torch.compile(of_npu), on_npu([query, key, value])), expected, torch.float32)


def test_decoding_with_a_cache() -> None:
    """One query, a cache that is filled in part: blocks behind its end are not read."""
    query, key, value = heads(2, 4, 1, 512, 64)
    filled = torch.tensor([130, 17]).npu()
    mask = create_block_mask(lambda b, h, q, k: k < filled[b], 2, None, 1, 512, device="npu")
    key[1, :, 128:] = value[1, :, 128:] = float("nan")
    with torch.no_grad():
        actual = torch.compile(flex_attention)(*on_npu([query, key, value]), block_mask=mask)
    for place, length in enumerate(filled.tolist()):
        weights = torch.softmax(query[place] @ key[place, :, :length].mT / 8, -1)
        assert_close([actual[place].cpu()], [weights @ value[place, :, :length]], torch.float32)


def test_blocks_are_left_out_by_lists() -> None:
    _, found = kernels(flex(mask=MASKS["window"], length=200), *heads(2, 4, 200, 200, 32))
    kernel = next(each for each in found if "# attention, forward" in each)
    assert "for step in range(0, (partial_count + full_count) * parts):" in kernel
    assert "if is_partial:" in kernel


def test_one_compile_for_all_lengths() -> None:
    counter = CompileCounterWithBackend("inductor")

    def plain(*tensors: torch.Tensor) -> torch.Tensor:
        return flex_attention(*tensors, score_mod=lambda score, b, h, q, k: score - (q - k).abs() * 0.1)

    compiled = torch.compile(plain, backend=counter, dynamic=True)
    for length in (65, 130, 200):
        tensors = heads(2, 4, length, length, 32)
        expected = written_out(
            *[each.double() for each in tensors], lambda s, b, h, q, k, of: s - (q - k).abs() * 0.1, None, TABLES
        )
        with torch.no_grad():
            assert_close([compiled(*on_npu(tensors)).cpu()], [expected], torch.float32)
    assert counter.frame_count == 1


@pytest.mark.slow
def test_one_batch_of_keys_for_all_queries() -> None:
    query, key, value = heads(2, 4, 200, 200, 32, shared=2)

    def shared(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        if query.device.type == "cpu":
            key, value = (each.expand(2, -1, -1, -1) for each in (key, value))
        return flex(mask=MASKS["window"])(query, key, value)

    check(shared, [query, key[:1], value[:1]])


@pytest.mark.slow
def test_values_of_another_dimension() -> None:
    query, key, value = heads(2, 4, 65, 70, 32)
    check(flex(), [query, key, torch.cat([value, value[..., :16]], -1)])


def test_greatest_scores() -> None:
    query, key, value = heads(2, 4, 65, 70, 32)
    wanted = AuxRequest(lse=True, max_scores=True)
    with torch.no_grad():
        _, aux = torch.compile(flex_attention)(*on_npu([query, key, value]), return_aux=wanted)
    scores = query.double() @ key.double().mT / 32**0.5
    assert_close([aux.lse.cpu(), aux.max_scores.cpu()], [scores.logsumexp(-1), scores.amax(-1)], torch.float32)


@pytest.mark.slow
def test_captured_numbers_and_tensors_that_are_computed() -> None:
    def modified(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, bias: torch.Tensor, far: int) -> Any:
        added = bias.sin() * 2

        def modify(score: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
            return torch.where(q - k < far, score + added[q - k], -float("inf"))

        if query.device.type == "cpu":
            indices = torch.meshgrid(*map(torch.arange, (2, 4, 65, 65)), indexing="ij")
            return torch.softmax(modify(query @ key.mT / 32**0.5, *indices), -1) @ value
        return flex_attention(query, key, value, modify)

    compiled = torch.compile(modified)
    tensors = heads(2, 4, 65, 65, 32)
    bias = torch.linspace(0, 9, 129)  # negative indices count from its end
    for far in (20, 30, 7):
        expected = modified(*[each.double() for each in (*tensors, bias)], far)
        with torch.no_grad():
            assert_close([compiled(*on_npu([*tensors, bias]), far).cpu()], [expected], torch.float32)


def test_pages_of_a_cache() -> None:
    pytest.importorskip("torch.nn.attention.experimental._paged_attention")
    from torch.nn.attention.experimental._paged_attention import PagedAttention

    query, key, value = on_npu(heads(2, 2, 1, 256, 32))
    pages = PagedAttention(10, 64, 2, device="npu")
    for batch in range(2):
        pages.reserve(torch.tensor(batch, device="npu"), torch.tensor(256, device="npu"))
    keys, values = (torch.zeros(1, 2, 640, 32, device="npu") for _ in range(2))
    positions = torch.arange(256, device="npu").expand(2, 256)
    pages.assign(torch.arange(2, device="npu"), positions, key, value, keys, values)
    mask = create_block_mask(lambda b, h, q, k: k <= 200, 2, None, 1, 256, device="npu", BLOCK_SIZE=64)
    with torch.no_grad():
        actual = torch.compile(flex_attention)(
            query, keys, values, pages.get_score_mod(None), pages.convert_logical_block_mask(mask)
        )
    query, key, value = (each.cpu() for each in (query, key, value))
    weights = torch.softmax(query @ key[:, :, :201].mT / 32**0.5, -1)
    assert_close([actual.cpu()], [weights @ value[:, :, :201]], torch.float32)


def test_eager_stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    from inductor_npu.codegen.scheduling import npu_scheduling

    function = flex(score=SCORES["relative"], mask=MASKS["documents"])
    monkeypatch.setattr(npu_scheduling, "compile_in_process", lambda name, source: RuntimeError("refused"))
    with config.patch(strict=False), pytest.warns(NpuWarning, match="flex attention"):
        check(function, heads(2, 4, 200, 200, 32, shared=2))


def test_eager_computes_what_kernels_compute() -> None:
    """All scores at once, also with gradients, a BlockMask and a learned tensor that is captured."""
    tensors, slopes = on_npu(heads(2, 4, 40, 40, 16)), torch.linspace(0.1, 0.4, 4).npu()
    blocks = create_block_mask(lambda b, h, q, k: q >= k, None, None, 40, 40, device="npu")

    def run(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, slopes: torch.Tensor) -> torch.Tensor:
        return flex_attention(query, key, value, lambda score, b, h, q, k: score + (k - q) * slopes[h], blocks)

    eager, compiled = (with_gradients(each, [*tensors, slopes]) for each in (run, torch.compile(run)))
    assert_close(eager, compiled, torch.float32)
