"""Programs that move data: transposes, concatenations, slices, pads, gathers, scatters, pooling, attention."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from corpus.programs.program import case, family
from corpus.programs.tensors import booleans, floats, integers, positive


def _rope_halves(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, dim=-1)
    return x * cosine + torch.cat((-second, first), dim=-1) * sine


def _rope_pairs(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    pairs = x.unflatten(-1, (-1, 2))
    even, odd = pairs[..., 0], pairs[..., 1]
    return torch.stack((even * cosine - odd * sine, even * sine + odd * cosine), -1).flatten(-2)


def _split_heads(x: torch.Tensor, bias: torch.Tensor) -> tuple[torch.Tensor, ...]:
    batch, tokens, width = x.shape
    q, k, v = (x + bias).view(batch, tokens, 3, 8, width // 24).permute(2, 0, 3, 1, 4)
    return q.contiguous() * 0.125, k.contiguous(), v.contiguous()


def _merge_heads(x: torch.Tensor) -> torch.Tensor:
    return x.transpose(1, 2).flatten(2) * 2


def _window_shift(x: torch.Tensor) -> torch.Tensor:
    batch, height, width, channels = x.shape
    rolled = torch.roll(x, (-2, -2), (1, 2)).view(batch, height // 4, 4, width // 4, 4, channels)
    return rolled.permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, channels) * 2


def _key_value_cache(cache: torch.Tensor, new: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
    return cache.index_copy(2, position, new) * 1.0


def _embed(ids: torch.Tensor, table: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    return F.embedding(ids, table) + positions[: ids.shape[1]]


def _label_score(x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return torch.log_softmax(x, -1).gather(-1, labels[:, None]).squeeze(-1)


PERMUTES = [
    case("transpose", lambda x: x.t().contiguous() + 1, floats(300, 200)),
    case("transpose add", lambda x, y: x.t() + y, floats(300, 200), floats(200, 300), backward=True),
    case("transpose half", lambda x: x.t().contiguous() * 2, floats(256, 256, dtype=torch.float16)),
    case("permute 021", lambda x: x.permute(0, 2, 1).contiguous() * 2, floats(8, 60, 90)),
    case("permute 102", lambda x: x.permute(1, 0, 2).contiguous() * 2, floats(8, 60, 90)),
    case("permute 210", lambda x: x.permute(2, 1, 0).contiguous() * 2, floats(8, 60, 90)),
    case("permute 120", lambda x: x.permute(1, 2, 0).contiguous() * 2, floats(8, 60, 90)),
    case("channels last", lambda x: x.to(memory_format=torch.channels_last) * 2, floats(4, 32, 14, 14)),
    case("channels first", lambda x: x.permute(0, 3, 1, 2).contiguous() * 2, floats(4, 14, 14, 32)),
    case("split heads", _split_heads, floats(2, 50, 768), floats(768), backward=True),
    case("merge heads", _merge_heads, floats(2, 8, 50, 32), backward=True),
    case("window shift", _window_shift, floats(2, 16, 16, 32), backward=True),
    case("pixel shuffle", lambda x: F.pixel_shuffle(x, 2) * 2, floats(2, 16, 14, 14), backward=True),
    case("pixel unshuffle", lambda x: F.pixel_unshuffle(x, 2) * 2, floats(2, 4, 28, 28)),
    case("channel shuffle", lambda x: F.channel_shuffle(x, 4) * 2, floats(2, 16, 14, 14)),
    case(
        "patches",
        lambda x: x.unfold(2, 8, 8).unfold(3, 8, 8).permute(0, 2, 3, 1, 4, 5).reshape(2, 16, 192) * 2,
        floats(2, 3, 32, 32),
    ),
    case("symmetrise", lambda x: (x + x.t()) / 2, floats(200, 200), backward=True),
]

PIECES = [
    case("cat inner", lambda a, b: torch.cat((a, b), -1) * 2, floats(64, 100), floats(64, 156), backward=True),
    case("cat outer", lambda a, b: torch.cat((a, b), 0) * 2, floats(30, 200), floats(34, 200), backward=True),
    case(
        "cat channels",
        lambda a, b: torch.cat((a, b), 1) + 1,
        floats(4, 16, 14, 14),
        floats(4, 24, 14, 14),
        backward=True,
    ),
    case(
        "cat of computed",
        lambda a, b: torch.cat((torch.relu(a), torch.sigmoid(b)), -1),
        floats(64, 128),
        floats(64, 128),
    ),
    case("stack", lambda a, b: torch.stack((a, b), -1) * 2, floats(64, 128), floats(64, 128)),
    case("split and multiply", lambda x: torch.mul(*x.split(128, -1)), floats(64, 256), backward=True),
    case("chunk three", lambda x: [c * 2 for c in x.chunk(3, -1)], floats(64, 384), backward=True),
    case("select last token", lambda x: x[:, -1] * 2, floats(4, 50, 256), backward=True),
    case("every second", lambda x: x[..., ::2] + x[..., 1::2], floats(64, 512), backward=True),
    case("every third", lambda x: x[:, ::3] * 2, floats(64, 300)),
    case("shifted difference", lambda x: x[:, 1:] - x[:, :-1], floats(64, 301), backward=True),
    case("pad constant", lambda x: F.pad(x, (2, 3, 1, 1)) * 2, floats(4, 8, 14, 14), backward=True),
    case("pad reflect", lambda x: F.pad(x, (2, 2, 2, 2), mode="reflect") * 2, floats(4, 8, 14, 14), backward=True),
    case("pad replicate", lambda x: F.pad(x, (2, 2), mode="replicate") * 2, floats(4, 8, 100)),
    case("roll", lambda x: torch.roll(x, 3, -1) * 2, floats(64, 100)),
    case("flip", lambda x: x.flip(-1) * 2, floats(64, 100)),
    case("flip rows", lambda x: x.flip(0) * 2, floats(64, 100)),
    case("lower triangle", lambda x: x.tril() * 2, floats(128, 128), backward=True),
    case("diagonal", lambda x: x.diagonal() * 2, floats(128, 128)),
    case("tile", lambda x: x.tile(1, 3) * 2, floats(64, 100)),
    case("rope halves", _rope_halves, floats(4, 64, 8, 64), floats(64, 1, 64), floats(64, 1, 64), backward=True),
    case("rope pairs", _rope_pairs, floats(4, 64, 8, 64), floats(64, 1, 32), floats(64, 1, 32), backward=True),
    case("slice write", lambda x, y: torch.slice_scatter(x, y, 1, 10, 74) * 2, floats(64, 100), floats(64, 64)),
]

INDEXED = [
    case("embedding", F.embedding, integers(1000, 8, 64), floats(1000, 256), backward=True),
    case("embedding odd width", F.embedding, integers(1000, 8, 64), floats(1000, 100), backward=True),
    case("embedding with positions", _embed, integers(1000, 8, 64), floats(1000, 256), floats(128, 256), backward=True),
    case("gather rows", lambda x, i: x[i] * 2, floats(500, 128), integers(500, 300), backward=True),
    case(
        "gather columns", lambda x, i: torch.gather(x, -1, i) * 2, floats(64, 200), integers(200, 64, 50), backward=True
    ),
    case(
        "index select columns", lambda x, i: x.index_select(1, i) * 2, floats(64, 200), integers(200, 50), backward=True
    ),
    case("take along outer", lambda x, i: torch.gather(x, 0, i) * 2, floats(64, 200), integers(64, 30, 200)),
    case("label score", _label_score, floats(64, 1000), integers(1000, 64), backward=True),
    case("one hot", lambda i: F.one_hot(i, 100).float(), integers(100, 64)),
    case(
        "scatter add", lambda x, i, s: x.scatter_add(-1, i, s), floats(64, 100), integers(100, 64, 50), floats(64, 50)
    ),
    case("scatter value", lambda x, i: x.scatter(-1, i, 1.0), floats(64, 100), integers(100, 64, 5)),
    case(
        "index put",
        lambda x, i, v: x.index_put((i,), v) * 2,
        floats(100, 64),
        lambda: torch.randperm(100)[:30],
        floats(30, 64),
    ),
    case("index add", lambda x, i, v: x.index_add(0, i, v) * 2, floats(100, 64), integers(100, 30), floats(30, 64)),
    case("masked rows", lambda x, m: x * m[:, None], floats(100, 64), booleans(100)),
    case("key value cache", _key_value_cache, floats(2, 8, 128, 64), floats(2, 8, 4, 64), lambda: torch.arange(10, 14)),
    case("relative position", lambda t, i: t[i].permute(2, 0, 1) * 2, floats(31, 8), integers(31, 16, 16)),
]

IMAGES = [
    case("max pool 2", lambda x: F.max_pool2d(x, 2), floats(4, 16, 28, 28), backward=True),
    case("max pool 3 stride 2", lambda x: F.max_pool2d(x, 3, 2, 1), floats(4, 16, 28, 28), backward=True),
    case(
        "max pool channels last",
        lambda x: F.max_pool2d(x, 3, 2, 1),
        lambda: torch.randn(4, 16, 28, 28).to(memory_format=torch.channels_last),
    ),
    case("max pool 5 stride 1", lambda x: F.max_pool2d(x, 5, 1, 2), floats(4, 16, 28, 28), backward=True),
    case("max pool 3d", lambda x: F.max_pool3d(x, 3, 2, 1), floats(2, 8, 8, 28, 28), backward=True),
    case("average pool", lambda x: F.avg_pool2d(x, 2), floats(4, 16, 28, 28), backward=True),
    case("average pool with a border", lambda x: F.avg_pool2d(x, 3, 1, 1), floats(4, 16, 28, 28)),
    case("adaptive average pool", lambda x: F.adaptive_avg_pool2d(x, 7), floats(4, 16, 28, 28), backward=True),
    case("upsample nearest", lambda x: F.interpolate(x, scale_factor=2), floats(4, 16, 14, 14), backward=True),
    case(
        "upsample bilinear",
        lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
        floats(4, 16, 14, 14),
        backward=True,
    ),
    case(
        "convolution bias relu",
        lambda x, w, b: F.relu(F.conv2d(x, w, b, padding=1)),
        floats(2, 8, 14, 14),
        floats(16, 8, 3, 3),
        floats(16),
        backward=True,
    ),
    case(
        "normalise image",
        lambda x, m, s: (x.float() / 255 - m[:, None, None]) / s[:, None, None],
        integers(255, 4, 3, 32, 32, dtype=torch.uint8),
        floats(3),
        positive(3),
    ),
    case(
        "image to channels first",
        lambda x: x.permute(0, 3, 1, 2).float().contiguous() / 255,
        integers(255, 4, 32, 32, 3, dtype=torch.uint8),
    ),
]

ATTENTION = [
    case(
        "linear gelu",
        lambda x, w, b: F.gelu(F.linear(x, w, b)),
        floats(64, 128),
        floats(256, 128),
        floats(256),
        backward=True,
    ),
    case(
        "attention by hand",
        lambda q, k, v: torch.softmax(q @ k.transpose(-1, -2) * 0.125, -1) @ v,
        *[floats(2, 4, 50, 64)] * 3,
        backward=True,
    ),
    case("attention fused", F.scaled_dot_product_attention, *[floats(2, 4, 50, 64)] * 3, backward=True),
    case(
        "mean pooling",
        lambda x, m: (x * m[..., None]).sum(1) / m.sum(1, keepdim=True).clamp(min=1e-9),
        floats(8, 50, 384),
        lambda: (torch.rand(8, 50) > 0.5).float(),
        backward=True,
    ),
    case(
        "causal mask",
        lambda x: torch.ones(x.shape[-1], x.shape[-1], device=x.device).triu(1) * -1e9 + x,
        floats(4, 64, 64),
    ),
    case("positions", lambda x: torch.arange(x.shape[1], device=x.device) + x, integers(9, 4, 64)),
    case(
        "sinusoids", lambda x: torch.sin(torch.arange(x.shape[0], device=x.device)[:, None] * x[None, :]), floats(128)
    ),
]

PROGRAMS = [
    *family("permute", PERMUTES),
    *family("piece", PIECES),
    *family("indexed", INDEXED),
    *family("image", IMAGES),
    *family("attention", ATTENTION),
]
