"""FlexAttention by the cases of PyTorch's own test file (test/inductor/test_flex_attention.py), written anew for `npu`.

Each case has the name of PyTorch's test. Results and gradients are held against all scores at once in float64 on the
CPU. docs/attention.md has the table of what passes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend
from torch.nn.attention.flex_attention import BlockMask, and_masks, create_block_mask, flex_attention, or_masks

from tests.compile.attention.cases import assert_close, heads, kernels, on_npu, with_gradients

Captured = dict[str, torch.Tensor]
Score = Callable[..., torch.Tensor]

B, H, S, D = 2, 4, 96, 32
NOTHING = -float("inf")

TABLES: Captured = {
    "head": torch.linspace(0.5, 1.5, H),
    "batch": torch.linspace(-1, 1, B),
    "token": torch.linspace(-3, 3, 2 * S).sin(),
    "relative": torch.linspace(-2, 2, 2 * S).cos(),
    "square": torch.linspace(-2, 2, S * S).cos().reshape(S, S),
    "of batch": torch.linspace(-2, 2, B * S * S).sin().reshape(B, S, S),
    "rows": torch.linspace(-1, 1, B * S).reshape(B, S),
    "outer": torch.linspace(-1, 1, 4 * B * H * S).cos().reshape(4, B, H, S),
    "inner": torch.linspace(-1, 1, B * H * 4 * S).cos().reshape(B, H, 4, S),
    "which": torch.tensor(0),
    "start": torch.tensor(50),
    "scale": torch.ones((), dtype=torch.int32),
    "bidirectional": torch.tensor([17, 60], dtype=torch.int32),
    "lengths": torch.tensor([1, 2], dtype=torch.int32),
    "offsets": torch.tensor([0, 40, 64], dtype=torch.int32),
    "sequence": torch.bucketize(torch.arange(S), torch.tensor([40, 64]), right=True).to(torch.int32),
    "half": torch.arange(S) >= S // 2,
    "allowed": torch.ones(B, 1, S, S, dtype=torch.bool).tril(),
}


def _causal(score: torch.Tensor, b: Any, h: Any, q: Any, k: Any, of: Captured) -> torch.Tensor:
    return torch.where(q >= k, score, NOTHING)


def _rel_bias(score: torch.Tensor, b: Any, h: Any, q: Any, k: Any, of: Captured) -> torch.Tensor:
    return score + (q - k)


def _natten(score: torch.Tensor, b: Any, h: Any, q: Any, k: Any, of: Captured) -> torch.Tensor:
    near = ((q / 8 - k / 8).abs() <= 3) | ((q % 8 - k % 8).abs() <= 3)
    return torch.where(near, score, NOTHING)


def _njt(score: torch.Tensor, b: Any, h: Any, q: Any, k: Any, of: Captured) -> torch.Tensor:
    offsets, sequence = of["offsets"], of["sequence"]
    return _causal(score, b, h, q - offsets[sequence[q]], k - offsets[sequence[k]], of)


SCORES: dict[str, Score] = {
    "identity": lambda s, b, h, q, k, of: s,
    "times_two": lambda s, b, h, q, k, of: s * 2,
    "squared": lambda s, b, h, q, k, of: s * s,
    "causal": _causal,
    "inverse_causal": lambda s, b, h, q, k, of: torch.where(q <= k, s, NOTHING),
    "rel_bias": _rel_bias,
    "rel_causal": lambda s, b, h, q, k, of: _causal(s + (q - k), b, h, q, k, of),
    "alibi_bias": lambda s, b, h, q, k, of: s + (k - q) * torch.exp2(-((h + 1) * 8.0 / H)),
    "trig": lambda s, b, h, q, k, of: torch.sin(torch.cos(s)) + torch.tan(b),
    "trig2": lambda s, b, h, q, k, of: torch.cos(s) * torch.sin(s) + torch.tan(b),
    "silu_on_score": lambda s, b, h, q, k, of: torch.nn.functional.silu(s),
    "head_offset": lambda s, b, h, q, k, of: s * of["head"][h],
    "captured_buffers_all_dims": lambda s, b, h, q, k, of: s + of["token"][q] + of["batch"][b] + of["head"][h],
    "load_from_bias_seq_only": lambda s, b, h, q, k, of: s + of["square"][q, k],
    "load_from_bias_seq_batch": lambda s, b, h, q, k, of: s + of["of batch"][b, q, k],
    "load_rel_bias": lambda s, b, h, q, k, of: s + of["relative"][(q - k) + S],
    "index_multiple": lambda s, b, h, q, k, of: s + of["rows"][b][q],
    "index_weird1": lambda s, b, h, q, k, of: s + of["outer"][0][b, h][q],
    "index_weird2": lambda s, b, h, q, k, of: s + of["inner"][b, h, of["which"], q],
    "captured_scale": lambda s, b, h, q, k, of: s + of["scale"],
    "dependent_causal_bidirectional": lambda s, b, h, q, k, of: torch.where(
        ((q <= of["bidirectional"][b]) & (k <= of["bidirectional"][b])) | (q >= k), s, NOTHING
    ),
    "natten_2d": _natten,
    "subgraph_respect_decomposition": lambda s, b, h, q, k, of: s - q // (1 + k),
    "padded_dense_causal": lambda s, b, h, q, k, of: torch.where(
        s <= of["lengths"][b], _causal(s, b, h, q, k, of), NOTHING
    ),
    "njt_causal": _njt,
    "seq_masking": lambda s, b, h, q, k, of: torch.where(of["half"][q] == of["half"][k], s, NOTHING),
    "skip_odd_keys": lambda s, b, h, q, k, of: torch.where(k % 2 == 0, s, NOTHING),
    "function_composition": lambda s, b, h, q, k, of: torch.where(q <= k, _rel_bias(s, b, h, q, k, of), NOTHING),
    "new_empty_mask_mod": lambda s, b, h, q, k, of: s + of["allowed"][b, torch.zeros_like(h), q, k],
}
# The definition of what indexes a tensor twice: with indices of all scores, the second index would be another axis.
DEFINITIONS: dict[str, Score] = {
    **SCORES,
    "index_multiple": lambda s, b, h, q, k, of: s + of["rows"][b, q],
    "index_weird1": lambda s, b, h, q, k, of: s + of["outer"][0, b, h, q],
}

MASKS: dict[str, Score] = {
    "causal_block": lambda b, h, q, k, of: q >= k,
    "document_masking": lambda b, h, q, k, of: of["sequence"][q] == of["sequence"][k],
    "doc_mask_sparse": lambda b, h, q, k, of: (of["sequence"][q] == of["sequence"][k]) & (q >= k),
    "fully_masked_out_rows": lambda b, h, q, k, of: (q < S // 2) & (k >= 0),
    "new_empty_mask_mod": lambda b, h, q, k, of: of["allowed"][b, torch.zeros_like(h), q, k],
    "mask_mod_combiners": lambda b, h, q, k, of: and_masks(
        lambda b, h, q, k: q >= k, or_masks(lambda b, h, q, k: q - k <= 20, lambda b, h, q, k: k < 4)
    )(b, h, q, k),
    "noop": lambda b, h, q, k, of: (q >= 0) & (k >= 0),
}


def on(device: torch.device | str) -> Captured:
    """The captured tensors on a device."""
    return {name: table.to(device) for name, table in TABLES.items()}


def written_out(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    score: Score | None = None,
    mask: Score | None = None,
) -> torch.Tensor:
    """The definition: all scores at once; of queries without a score, 0."""
    of, groups = on("cpu"), query.shape[1] // key.shape[1]
    key, value = (each.expand(query.shape[0], -1, -1, -1).repeat_interleave(groups, 1) for each in (key, value))
    scores = query @ key.mT / query.shape[-1] ** 0.5
    scores = scores if scores.dtype == torch.float64 else scores.float()
    indices = [
        torch.arange(size).reshape([-1 if axis == place else 1 for axis in range(4)])
        for place, size in enumerate(scores.shape)
    ]
    if score is not None:
        scores = score(scores, *indices, of)
    if mask is not None:
        scores = torch.where(mask(*indices, of), scores, NOTHING)
    weights = torch.softmax(scores, -1)
    return torch.where((scores == NOTHING).all(-1, keepdim=True), 0.0, weights).to(value.dtype) @ value


def blocks_of(mask: Score, rows: int = S, columns: int = S, block: Any = 32) -> BlockMask:
    """The blocks of a mask, with its captured tensors on `npu`."""
    of = on("npu")
    of_npu = lambda b, h, q, k: mask(b, h, q, k, of)  # noqa: E731 - a mask_mod
    return create_block_mask(of_npu, B, H, rows, columns, device="npu", BLOCK_SIZE=block)


def flex(score: Score | None = None, blocks: BlockMask | None = None, **options: Any) -> Callable[..., Any]:
    """flex_attention of queries, keys and values on `npu`, as a function."""
    of = on("npu")
    modify = None if score is None else lambda s, b, h, q, k: score(s, b, h, q, k, of)
    return lambda *tensors: flex_attention(*tensors, modify, blocks, enable_gqa=True, **options)


def check(
    function: Callable[..., Any],
    tensors: list[torch.Tensor],
    score: Score | None = None,
    mask: Score | None = None,
    **options: Any,
) -> None:
    """Whether results and gradients of the compiled function are as near to the definition's as PyTorch's file asks: by
    the mean error, at most 10 times that of float32 in eager, where scores are large, and 1.1 times that of halves.
    """

    def definition(*tensors: torch.Tensor) -> torch.Tensor:
        return written_out(*tensors, score, mask)

    expected = with_gradients(definition, [tensor.double() for tensor in tensors])
    eager = with_gradients(definition, tensors)
    actual = with_gradients(torch.compile(function, fullgraph=True, **options), on_npu(tensors))
    most = 10.0 if tensors[0].dtype == torch.float32 else 1.1
    for got, rounded, wanted in zip(actual, eager, expected, strict=True):
        error = float((got - wanted).abs().mean())
        assert error <= most * float((rounded - wanted).abs().mean()) + 1e-7 * float(wanted.abs().mean())


@pytest.mark.slow
@pytest.mark.parametrize("name", SCORES)
def test_builtin_and_captured_score_mods(name: str) -> None:
    check(flex(SCORES[name]), heads(B, H, S, S, D), DEFINITIONS[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", MASKS)
def test_mask_mods(name: str) -> None:
    check(flex(blocks=blocks_of(MASKS[name])), heads(B, H, S, S, D), mask=MASKS[name])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("causal", torch.float16),
        ("alibi_bias", torch.bfloat16),
        ("alibi_bias", torch.float16),
        ("squared", torch.bfloat16),
    ],
)
def test_builtin_score_mods_in_halves(name: str, dtype: torch.dtype) -> None:
    check(flex(SCORES[name]), heads(B, H, S, S, D, dtype), SCORES[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["identity", "causal", "rel_bias", "alibi_bias"])
def test_builtin_score_mods_different_seqlen(name: str) -> None:
    check(flex(SCORES[name]), heads(B, H, S // 2, S, D), SCORES[name])


@pytest.mark.slow
@pytest.mark.parametrize("block", [32, 64, (32, 64), (64, 32), 256])
def test_builtin_score_mods_different_block_size(block: Any) -> None:
    """256: a block that is longer than the sequence (`seqlen_lt_custom_sparse_block_size`)."""
    causal = MASKS["causal_block"]
    check(flex(SCORES["rel_bias"], blocks_of(causal, block=block)), heads(B, H, S, S, D), SCORES["rel_bias"], causal)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "shared"), [("rel_causal", 2), ("identity", 1)])
def test_kv_batch_broadcast(name: str, shared: int) -> None:
    query, key, value = heads(B, H, S, S, D, shared=shared)
    check(flex(SCORES[name], blocks_of(MASKS["noop"])), [query, key[:1], value[:1]], SCORES[name])


@pytest.mark.slow
def test_kv_batch_broadcast_causal_mask() -> None:
    query, key, value = heads(B, H, S, S, D, shared=2)
    causal = MASKS["causal_block"]
    check(flex(blocks=blocks_of(causal)), [query, key[:1], value[:1]], mask=causal)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["identity", "alibi_bias"])
def test_gqa(name: str) -> None:
    check(flex(SCORES[name]), heads(B, H, S // 4, S, D, shared=1), SCORES[name])


@pytest.mark.slow
@pytest.mark.parametrize("dims", [(32, 16), (16, 32)])
def test_non_equal_head_dims(dims: tuple[int, int]) -> None:
    query, key, _ = heads(B, H, S, S, dims[0])
    check(flex(_causal), [query, key, heads(B, H, S, S, dims[1])[2]], _causal)


# Strides and offsets of tensors [B, H, S, D], as PyTorch's file has them.
STRIDES = {
    "offset": ((H * S * D, S * D, D, 1), 997),
    "transposed": ((H * D, D, B * H * D, 1), 499),
    "heads behind the sequence": ((H * S * D, D, H * D, 1), 0),
    "gaps": ((S * (D + 1), B * S * (D + 1), D + 1, 1), 293),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("of_queries", "of_keys"),
    [
        ("offset", "transposed"),
        ("transposed", "heads behind the sequence"),
        ("offset", "gaps"),
        ("transposed", "offset"),
    ],
)
def test_strided_inputs(of_queries: str, of_keys: str) -> None:
    def placed(flat: torch.Tensor, name: str) -> torch.Tensor:
        strides, offset = STRIDES[name]
        return torch.as_strided(flat, (B, H, S, D), strides, offset)

    def strided(modified: Callable[..., Any]) -> Callable[..., Any]:
        return lambda q, k, v: modified(placed(q, of_queries), placed(k, of_keys), placed(v, "transposed"))

    torch.manual_seed(0)
    flat = [torch.randn(2 * B * H * S * D) for _ in range(3)]
    alibi = SCORES["alibi_bias"]
    expected = with_gradients(strided(lambda *each: written_out(*each, alibi)), [each.double() for each in flat])
    actual = with_gradients(torch.compile(strided(flex(alibi)), fullgraph=True), on_npu(flat))
    assert_close(actual, expected, torch.float32)


@pytest.mark.slow
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (1, 0, 2, 3), (0, 2, 1, 3), (2, 0, 1, 3)])
def test_flex_attention_stride_ordering(order: tuple[int, ...]) -> None:
    from torch._inductor.ir import get_stride_order

    tensors = [torch.randn(2, 4, 32, 16).npu().permute(order) for _ in range(3)]
    out = torch.compile(flex_attention, fullgraph=True)(*tensors)
    assert get_stride_order(out.stride()) == get_stride_order(tensors[0].stride())


@pytest.mark.slow
def test_multiple_score_mod_calls() -> None:
    first, second = flex(_rel_bias), flex(_causal)

    def of_npu(query: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        return first(second(first(query, *others[:2]), *others[2:]), *others[:2])

    def by_definition(query: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        middle = written_out(written_out(query, *others[:2], _rel_bias), *others[2:], _causal)
        return written_out(middle, *others[:2], _rel_bias)

    tensors = [*heads(1, H, S, S, D), *heads(1, H, S, S, D)[1:]]
    expected = with_gradients(by_definition, [each.double() for each in tensors])
    assert_close(with_gradients(torch.compile(of_npu, fullgraph=True), on_npu(tensors)), expected, torch.float32)


@pytest.mark.slow
def test_multiple_mask_calls() -> None:
    names = ("causal_block", "mask_mod_combiners")
    calls = [flex(blocks=blocks_of(MASKS[name])) for name in names]
    tensors = heads(B, H, S, S, D)
    expected = with_gradients(
        lambda *each: sum(written_out(*each, mask=MASKS[name]) for name in names), [each.double() for each in tensors]
    )
    both = torch.compile(lambda *each: calls[0](*each) + calls[1](*each), fullgraph=True)
    assert_close(with_gradients(both, on_npu(tensors)), expected, torch.float32)


@pytest.mark.slow
def test_inputs_are_realized() -> None:
    """What is captured is computed in the graph, and so are the queries; so is what follows."""

    def of_npu(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        far = torch.arange(S, device=query.device) * 2.0 / S
        return flex_attention(query.sin(), key, value, lambda s, b, h, q, k: s + far[k]).cos()

    def by_definition(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        far = torch.arange(S) * 2.0 / S
        return written_out(query.sin(), key, value, lambda s, b, h, q, k, of: s + far[k]).cos()

    tensors = heads(B, H, S, S, D)
    expected = with_gradients(by_definition, [each.double() for each in tensors])
    assert_close(with_gradients(torch.compile(of_npu, fullgraph=True), on_npu(tensors)), expected, torch.float32)


@pytest.mark.slow
def test_load_from_view_buffer() -> None:
    """A bias by blocks of keys that is a product of the queries."""
    table = torch.linspace(-1, 1, 12 * D).sin().reshape(12, D)

    def bias(query: torch.Tensor) -> torch.Tensor:
        return torch.einsum("bhqd,nd->bhqn", query.detach(), table.to(query)).reshape(B, H, S, 12)

    def of_npu(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        relative = bias(query)
        return flex_attention(query, key, value, lambda s, b, h, q, k: s + relative[b, h, q, k // 8])

    def by_definition(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        relative = bias(query)
        return written_out(query, key, value, lambda s, b, h, q, k, of: s + relative[b, h, q, k // 8])

    tensors = heads(B, H, S, S, D)
    expected = with_gradients(by_definition, [each.double() for each in tensors])
    compiled = torch.compile(of_npu, fullgraph=True, mode="max-autotune-no-cudagraphs")
    assert_close(with_gradients(compiled, on_npu(tensors)), expected, torch.float32)


@pytest.mark.slow
def test_fully_masked_out_rows_0_check() -> None:
    blocks = blocks_of(MASKS["fully_masked_out_rows"])
    leaves = [each.requires_grad_() for each in on_npu(heads(B, H, S, S, D))]
    out, log = torch.compile(flex(blocks=blocks, return_lse=True))(*leaves)
    assert out[:, :, S // 2 :].abs().sum() == 0
    assert (log[:, :, S // 2 :] == NOTHING).all()
    (out.sum() + log[:, :, : S // 2].sum()).backward()
    assert leaves[0].grad[:, :, S // 2 :].abs().sum() == 0
    assert not any(leaf.grad.isnan().any() for leaf in leaves)


@pytest.mark.slow
def test_block_mask_non_divisible() -> None:
    def documents(b: Any, h: Any, q: Any, k: Any, of: Captured) -> torch.Tensor:
        return q // 32 == k // 32

    check(flex(blocks=blocks_of(documents, 95, 95)), heads(B, H, 95, 95, D), mask=documents)


def test_block_mask_reuse() -> None:
    """A mask of longer sequences is cut to those that there are."""
    causal = MASKS["causal_block"]
    longer = blocks_of(causal, 2 * S, 2 * S)
    shorter = longer._adjust(S, S)
    tensors = heads(B, H, S, S, D)
    with torch.no_grad():
        actual = torch.compile(flex(blocks=shorter))(*on_npu(tensors))
    assert_close([actual.cpu()], [written_out(*[each.double() for each in tensors], mask=causal)], torch.float32)


def test_custom_block_mask_generator() -> None:
    """Lists written by hand, with those of queries that PyTorch makes of them."""
    counts = (torch.arange(S // 32, device="npu", dtype=torch.int32) + 1)[None, None]
    indices = torch.arange(S // 32, device="npu", dtype=torch.int32).expand(1, 1, S // 32, S // 32).contiguous()
    blocks = BlockMask.from_kv_blocks(counts, indices, BLOCK_SIZE=32, mask_mod=lambda b, h, q, k: q >= k)
    check(flex(blocks=blocks), heads(B, H, S, S, D), mask=MASKS["causal_block"])


@pytest.mark.slow
def test_make_block_mask() -> None:
    def causal(b: Any, h: Any, q: Any, k: Any) -> torch.Tensor:
        return q >= k

    compiled = torch.compile(create_block_mask)(causal, 1, 1, 256, 256, device="npu")
    eager = create_block_mask(causal, 1, 1, 256, 256, device="cpu")
    for name in ("kv_num_blocks", "kv_indices", "q_num_blocks", "full_kv_num_blocks"):
        assert torch.equal(getattr(compiled, name).cpu(), getattr(eager, name))


def test_logsumexp_only_return() -> None:
    tensors = heads(B, H, S, S, D)
    with torch.no_grad():
        log = torch.compile(lambda *each: flex(_causal, return_lse=True)(*each)[1] * 2)(*on_npu(tensors))
    scores = tensors[0].double() @ tensors[1].double().mT / D**0.5
    expected = scores.masked_fill(torch.ones(S, S).triu(1) > 0, NOTHING).logsumexp(-1) * 2
    assert_close([log.cpu()], [expected], torch.float32)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"BLOCK_M": 16, "BLOCK_N": 16}, {"FORCE_USE_FLEX_ATTENTION": True}, {}])
def test_kernel_options_change_nothing(options: dict[str, Any]) -> None:
    """They are about PyTorch's own templates (`kernel_options_argument_is_respected` in PyTorch's file)."""
    tensors = heads(B, H, S, S, D)
    result, found = kernels(flex(_causal, kernel_options=options), *tensors)
    assert_close([result], [written_out(*[each.double() for each in tensors], _causal)], torch.float32)
    assert any("# attention, forward" in each for each in found)


def test_captured_reduction_is_refused() -> None:
    """As in PyTorch's file, where the test is expected to fail: sum before the call."""
    summed = flex(lambda s, b, h, q, k, of: s + of["rows"][b].sum(-1))
    with pytest.raises(Exception, match="Buffers cannot be created while lowering a pointwise subgraph"):
        torch.compile(summed)(*on_npu(heads(B, H, S, S, D)))


def test_mixed_dtypes_fails() -> None:
    query, key, value = on_npu(heads(B, H, S, S, D))
    with pytest.raises(Exception, match=r"no kernel for the dtypes torch\.float16, torch\.float32"):
        torch.compile(flex_attention)(query, key.half(), value.half())


@pytest.mark.slow
def test_max_autotune() -> None:
    captured = SCORES["captured_buffers_all_dims"]
    check(flex(captured), heads(B, H, S, S, D), captured, mode="max-autotune-no-cudagraphs")


def test_autograd_function_in_score_mod() -> None:
    class Masked(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(score: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return torch.where(mask, score, NOTHING)

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.mark_non_differentiable(inputs[1])

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
            return gradient, None

    tensors = heads(B, H, S, S, D)
    with torch.no_grad():
        actual = torch.compile(flex(lambda s, b, h, q, k, of: Masked.apply(s, q >= k)))(*on_npu(tensors))
    assert_close([actual.cpu()], [written_out(*[each.double() for each in tensors], _causal)], torch.float32)


@pytest.mark.slow
def test_recompile_changed_score_mod() -> None:
    adds = True

    def either(s: torch.Tensor, b: Any, h: Any, q: Any, k: Any, of: Captured) -> torch.Tensor:
        return s + of["scale"] if adds else s * 2

    compiled = torch.compile(flex(either))
    tensors = heads(B, H, S, S, D)
    for adds in (True, False):  # noqa: B007 - what the function reads
        expected = written_out(*[each.double() for each in tensors], either)
        with torch.no_grad():
            assert_close([compiled(*on_npu(tensors)).cpu()], [expected], torch.float32)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["causal", "rel_bias", "alibi_bias"])
def test_builtin_score_mods_automatic_dynamic(name: str) -> None:
    """The second length makes sizes dynamic; the third compiles nothing."""
    counter = CompileCounterWithBackend("inductor")
    compiled = torch.compile(flex(SCORES[name]), backend=counter)
    for length in (96, 80, 64):
        tensors = heads(B, H, length, length, D)
        expected = written_out(*[each.double() for each in tensors], SCORES[name])
        with torch.no_grad():
            assert_close([compiled(*on_npu(tensors)).cpu()], [expected], torch.float32)
    assert counter.frame_count == 2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["causal", "squared"])
def test_builtin_score_mods_dynamic(name: str) -> None:
    compiled = torch.compile(flex(SCORES[name]), dynamic=True, fullgraph=True)
    for length in (96, 70):
        tensors = heads(B, H, length, length, D)
        expected = with_gradients(lambda *each: written_out(*each, SCORES[name]), [each.double() for each in tensors])
        assert_close(with_gradients(compiled, on_npu(tensors)), expected, torch.float32)


@pytest.mark.parametrize(("name", "rows"), [("causal", 1), ("identity", 1), ("head_offset", 3)])
def test_decoding(name: str, rows: int) -> None:
    """A few queries against a cache, at a position that is captured (test_flex_decoding.py)."""

    def placed(s: torch.Tensor, b: Any, h: Any, q: Any, k: Any, of: Captured) -> torch.Tensor:
        return SCORES[name](s, b, h, q + of["start"], k, of)

    tensors = heads(B, H, rows, S, D, shared=2)
    with torch.no_grad():
        actual = torch.compile(flex(placed), fullgraph=True)(*on_npu(tensors))
    assert_close([actual.cpu()], [written_out(*[each.double() for each in tensors], placed)], torch.float32)
