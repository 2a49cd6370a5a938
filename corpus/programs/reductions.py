"""Programs that reduce or scan: norms, softmaxes, losses, statistics, sorting; rows that fit on chip or do not."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from corpus.programs.program import case, family
from corpus.programs.tensors import booleans, floats, integers, positive

HALF = torch.float16


def _rms_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight


def _residual_norm(x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x + y, (x.shape[-1],), weight, bias)


def _row_quantise(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    scale = x.abs().amax(-1, keepdim=True) / 127
    return torch.round(x / scale).to(torch.int8), scale


def _masked_softmax(scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return torch.softmax((scores * 0.125).masked_fill(mask, float("-inf")), dim=-1)


def _causal_softmax(scores: torch.Tensor) -> torch.Tensor:
    tokens = scores.shape[-1]
    mask = torch.ones(tokens, tokens, dtype=torch.bool, device=scores.device).tril()
    return torch.softmax(scores.masked_fill(~mask, float("-inf")), dim=-1)


def _router(logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    weights, experts = torch.softmax(logits, -1).topk(2, -1)
    return weights / weights.sum(-1, keepdim=True), experts


NORMS = [
    case(
        "layer norm 768",
        lambda x, w, b: F.layer_norm(x, (768,), w, b),
        floats(64, 768),
        floats(768),
        floats(768),
        backward=True,
    ),
    case(
        "layer norm 1001",
        lambda x, w, b: F.layer_norm(x, (1001,), w, b),
        floats(64, 1001),
        floats(1001),
        floats(1001),
        backward=True,
    ),
    case(
        "layer norm long",
        lambda x, w, b: F.layer_norm(x, (16384,), w, b),
        floats(16, 16384),
        floats(16384),
        floats(16384),
        backward=True,
    ),
    case(
        "layer norm half",
        lambda x, w, b: F.layer_norm(x, (768,), w, b),
        floats(64, 768, dtype=HALF),
        floats(768, dtype=HALF),
        floats(768, dtype=HALF),
        backward=True,
    ),
    case(
        "layer norm dynamic",
        lambda x, w, b: F.layer_norm(x, (768,), w, b),
        floats(37, 768),
        floats(768),
        floats(768),
        dynamic=True,
    ),
    case(
        "residual layer norm", _residual_norm, floats(64, 768), floats(64, 768), floats(768), floats(768), backward=True
    ),
    case("rms norm", _rms_norm, floats(64, 1024), floats(1024), backward=True),
    case(
        "rms norm brain",
        _rms_norm,
        floats(64, 1024, dtype=torch.bfloat16),
        floats(1024, dtype=torch.bfloat16),
        backward=True,
    ),
    case(
        "group norm",
        lambda x, w, b: F.group_norm(x, 8, w, b),
        floats(4, 64, 14, 14),
        floats(64),
        floats(64),
        backward=True,
    ),
    case("instance norm", F.instance_norm, floats(4, 32, 28, 28), backward=True),
    case(
        "batch norm training",
        lambda x, w, b: F.relu(F.batch_norm(x, None, None, w, b, training=True)),
        floats(8, 32, 14, 14),
        floats(32),
        floats(32),
        backward=True,
    ),
    case(
        "batch norm inference",
        lambda x, m, v, w, b: F.batch_norm(x, m, v, w, b),
        floats(8, 32, 14, 14),
        floats(32),
        positive(32),
        floats(32),
        floats(32),
    ),
    case(
        "batch norm 1d",
        lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
        floats(256, 300),
        floats(300),
        floats(300),
        backward=True,
    ),
    case("l2 normalise", lambda x: F.normalize(x, dim=-1), floats(64, 384), backward=True),
    case(
        "weight norm",
        lambda v, g: v * (g / v.norm(dim=1, keepdim=True)),
        floats(256, 512),
        floats(256, 1),
        backward=True,
    ),
    case(
        "cosine similarity",
        lambda a, b: F.cosine_similarity(a, b, dim=-1),
        floats(64, 384),
        floats(64, 384),
        backward=True,
    ),
]

SOFTMAXES = [
    case("softmax 128", lambda x: torch.softmax(x, -1), floats(256, 128), backward=True),
    case("softmax 777", lambda x: torch.softmax(x, -1), floats(64, 777), backward=True),
    case("softmax vocabulary", lambda x: torch.softmax(x, -1), floats(16, 32000), backward=True),
    case("softmax outer axis", lambda x: torch.softmax(x, 0), floats(128, 300), backward=True),
    case("softmax middle axis", lambda x: torch.softmax(x, 1), floats(8, 21, 200), backward=True),
    case("softmax dynamic", lambda x: torch.softmax(x, -1), floats(33, 129), dynamic=True),
    case("log softmax", lambda x: F.log_softmax(x, -1), floats(64, 1000), backward=True),
    case("masked softmax", _masked_softmax, floats(4, 8, 64, 64), booleans(4, 1, 1, 64), backward=True),
    case("causal softmax", _causal_softmax, floats(4, 8, 64, 64), backward=True),
    case("gumbel softmax", lambda x: torch.softmax(x - torch.log(-torch.log(torch.rand_like(x))), -1), floats(64, 100)),
    case("logsumexp", lambda x: torch.logsumexp(x, -1), floats(64, 1000), backward=True),
]

LOSSES = [
    case("cross entropy", F.cross_entropy, floats(64, 1000), integers(1000, 64), backward=True),
    case(
        "cross entropy ignore",
        lambda x, t: F.cross_entropy(x, t, ignore_index=0),
        floats(64, 100),
        integers(100, 64),
        backward=True,
    ),
    case(
        "cross entropy smoothed",
        lambda x, t: F.cross_entropy(x, t, label_smoothing=0.1),
        floats(64, 1000),
        integers(1000, 64),
        backward=True,
    ),
    case("mean square", F.mse_loss, floats(64, 1000), floats(64, 1000), backward=True),
    case("smooth l1", F.smooth_l1_loss, floats(64, 1000), floats(64, 1000), backward=True),
    case(
        "binary cross entropy",
        F.binary_cross_entropy_with_logits,
        floats(64, 100),
        lambda: torch.rand(64, 100),
        backward=True,
    ),
    case(
        "kl divergence",
        lambda a, b: F.kl_div(F.log_softmax(a, -1), F.softmax(b, -1), reduction="batchmean"),
        floats(64, 100),
        floats(64, 100),
        backward=True,
    ),
    case(
        "contrastive",
        lambda s: F.cross_entropy(s, torch.arange(s.shape[0], device=s.device)),
        floats(64, 64),
        backward=True,
    ),
]

STATISTICS = [
    case("sum rows", lambda x: x.sum(-1), floats(64, 1000), backward=True),
    case("sum columns", lambda x: x.sum(0), floats(1000, 256), backward=True),
    case("sum columns long", lambda x: x.sum(0), floats(8192, 64)),
    case("sum all", lambda x: x.sum(), floats(512, 1000), backward=True),
    case("sum all long", lambda x: (x * x).sum(), floats(1 << 20)),
    case("sum middle", lambda x: x.sum(1), floats(8, 50, 100)),
    case("sum two axes", lambda x: x.sum((0, 2, 3)), floats(8, 32, 14, 14)),
    case("mean keepdim", lambda x: x - x.mean(-1, keepdim=True), floats(64, 1000), backward=True),
    case("global average pool", lambda x: x.mean((2, 3)), floats(8, 64, 7, 7), backward=True),
    case("variance", lambda x: torch.var_mean(x, -1), floats(64, 1000)),
    case("standard deviation outer", lambda x: x.std(0), floats(500, 100)),
    case("maximum minimum", lambda x: x.amax(-1) - x.amin(-1), floats(64, 1000)),
    case("maximum with index", lambda x: x.max(-1), floats(64, 1000)),
    case("argmax", lambda x: x.argmax(-1), floats(64, 1000)),
    case("argmin outer", lambda x: x.argmin(0), floats(200, 100)),
    case("argmax all", lambda x: x.argmax(), floats(64, 1000)),
    case("product", lambda x: x.prod(-1), positive(64, 50)),
    case("any all", lambda x: (x > 2).any(-1) & (x > -9).all(-1), floats(64, 1000)),
    case("count nonzero", lambda x: (x > 0).sum(-1), floats(64, 1000)),
    case("integer sum", lambda x: x.sum(-1), integers(99, 64, 1000)),
    case("norm", lambda x: x.norm(), floats(256, 1000)),
    case("clip gradient norm", lambda x: x * (1.0 / (x.norm() + 1e-6)).clamp(max=1.0), floats(256, 512)),
    case("row quantise", _row_quantise, floats(64, 1024)),
    case("moments of images", lambda x: (x.mean((1, 2, 3)), x.square().mean((1, 2, 3))), floats(8, 3, 32, 32)),
]

SCANS = [
    case("cumulative sum rows", lambda x: x.cumsum(-1), floats(64, 500), backward=True),
    case("cumulative sum outer", lambda x: x.cumsum(0), floats(200, 100)),
    case("cumulative sum vector", lambda x: x.cumsum(0), floats(100_000)),
    case("cumulative product", lambda x: x.cumprod(-1), positive(64, 100)),
    case("cumulative maximum", lambda x: x.cummax(-1), floats(64, 100)),
    case("log cumulative sum exp", lambda x: x.logcumsumexp(-1), floats(64, 100)),
    case("sort", lambda x: x.sort(-1), floats(64, 100)),
    case("sort values", lambda x: x.sort(-1).values, floats(64, 128)),
    case("argsort", lambda x: x.argsort(-1), floats(64, 100)),
    case("top k", lambda x: x.topk(8, -1), floats(64, 100)),
    case("router", _router, floats(64, 8)),
    case("bucketize", lambda x, b: torch.bucketize(x, b), floats(64, 100), lambda: torch.linspace(-2, 2, 33)),
    case("positions of mask", lambda m: m.long().cumsum(1) * m, booleans(8, 128)),
]

PROGRAMS = [
    *family("norm", NORMS),
    *family("softmax", SOFTMAXES),
    *family("loss", LOSSES),
    *family("statistic", STATISTICS),
    *family("scan", SCANS),
]
