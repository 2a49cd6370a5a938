"""Fused operations as they occur in real models: each a function of tensors and the inputs it is measured on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

Inputs = tuple[torch.Tensor, ...]

ROWS, COLUMNS = 2048, 1024


@dataclass(frozen=True)
class Operation:
    """`function(*inputs())` is what is compiled and timed. `exact` is false where results are random on purpose."""

    name: str
    function: Callable[..., Any]
    inputs: Callable[[], Inputs]
    tolerance: float = 1e-4
    exact: bool = True


def matrix(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Normal random numbers, [2048, 1024]."""
    return torch.randn(ROWS, COLUMNS).to(dtype)


def vector(length: int = COLUMNS) -> torch.Tensor:
    """Normal random numbers, [length]."""
    return torch.randn(length)


def heads() -> torch.Tensor:
    """Queries or keys of attention, [batch 4, tokens 256, heads 8, width 64]."""
    return torch.randn(4, 256, 8, 64)


def images() -> torch.Tensor:
    """Feature maps, [32, 64, 28, 28]."""
    return torch.randn(32, 64, 28, 28)


def pointwise_chain(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    return (torch.sin(x) * y + torch.sigmoid(z)).clamp(-1, 1) * 0.5


def swiglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    return F.silu(gate) * up


def rms_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight


def residual_layer_norm(x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x + y, (x.shape[-1],), weight, bias)


def batch_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.relu(F.batch_norm(x, None, None, weight, bias, training=True))


def rope(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, dim=-1)
    return x * cosine + torch.cat((-second, first), dim=-1) * sine


def rope_inputs() -> Inputs:
    angle = torch.outer(torch.arange(256.0), 10000 ** (-torch.arange(32.0) / 32)).repeat(1, 2)[None, :, None, :]
    return heads(), angle.cos(), angle.sin()


def masked_softmax(scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return torch.softmax((scores * 0.125).masked_fill(mask, float("-inf")), dim=-1)


def masked_softmax_inputs() -> Inputs:
    return torch.randn(4, 8, 256, 256), torch.ones(256, 256, dtype=torch.bool).triu(1)


def adamw(parameter: torch.Tensor, gradient: torch.Tensor, mean: torch.Tensor, square: torch.Tensor) -> Inputs:
    mean = mean.lerp(gradient, 0.1)
    square = square.lerp(gradient * gradient, 0.001)
    return parameter * (1 - 1e-5) - 1e-3 * (mean / 0.1) / ((square / 0.001).sqrt() + 1e-8), mean, square


def quantize(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    scale = x.abs().amax(-1, keepdim=True) / 127
    return torch.round(x / scale).clamp(-128, 127).to(torch.int8), scale


def embed(ids: torch.Tensor, words: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    return F.embedding(ids, words) + positions[: ids.shape[1]]


def embed_inputs() -> Inputs:
    return torch.randint(0, 8192, (16, 256)), torch.randn(8192, 512), torch.randn(256, 512)


def loss_inputs() -> Inputs:
    return torch.randn(1024, 8192), torch.randint(0, 8192, (1024,))


def gradient_of_gelu(x: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    return torch.ops.aten.gelu_backward(gradient, x)


def scatter_inputs() -> Inputs:
    return torch.randn(2048, 300), torch.randint(0, 300, (2048, 200)), torch.randn(2048, 200)


def row_inputs() -> Inputs:
    return torch.randn(5000, 64), torch.randint(0, 5000, (8192,)), torch.randn(8192, 64)


OPERATIONS = (
    Operation("pointwise chain", pointwise_chain, lambda: (matrix(), matrix(), matrix())),
    Operation("pointwise, 256 elements", pointwise_chain, lambda: (vector(256), vector(256), vector(256))),
    Operation("pointwise, bf16", pointwise_chain, lambda: (matrix(torch.bfloat16),) * 3, 2e-2),
    Operation("gelu(x + bias)", lambda x, b: F.gelu(x + b), lambda: (matrix(), vector())),
    Operation("gelu tanh", lambda x: F.gelu(x, approximate="tanh"), lambda: (matrix(),)),
    Operation("gelu backward", gradient_of_gelu, lambda: (matrix(), matrix())),
    Operation("swiglu", swiglu, lambda: (matrix(), matrix())),
    Operation("softmax", lambda x: torch.softmax(x, -1), lambda: (matrix(),)),
    Operation("masked softmax of attention", masked_softmax, masked_softmax_inputs),
    Operation("layer norm of a sum", residual_layer_norm, lambda: (matrix(), matrix(), vector(), vector())),
    Operation("rms norm", rms_norm, lambda: (matrix(), vector())),
    Operation("rms norm, bf16", rms_norm, lambda: (matrix(torch.bfloat16), vector().bfloat16()), 5e-2),
    Operation("batch norm + relu, training", batch_norm, lambda: (images(), vector(64), vector(64))),
    Operation("group norm", lambda x: F.group_norm(x, 8), lambda: (images(),)),
    Operation("rope", rope, rope_inputs),
    Operation("cross entropy", F.cross_entropy, loss_inputs),
    Operation("sum over rows", lambda x: x.exp().sum(-1), lambda: (matrix(),)),
    Operation("sum over columns", lambda x: x.exp().sum(0), lambda: (matrix(),), 1e-3),
    Operation("sum of all", lambda x: x.square().sum(), lambda: (matrix(),), 1e-3),
    Operation("variance and mean", lambda x: torch.var_mean(x, -1), lambda: (matrix(),)),
    Operation("argmax", lambda x: x.argmax(-1), lambda: (matrix(),)),
    Operation("cumulative sum", lambda x: x.cumsum(-1), lambda: (matrix(),), 1e-3),
    Operation("sort rows of 512", lambda x: x.sort(-1)[0], lambda: (torch.randn(512, 512),)),
    Operation("sort rows of 100", lambda x: x.sort(-1)[0], lambda: (torch.randn(4096, 100),)),
    Operation("argsort of rows", lambda x: x.argsort(-1), lambda: (torch.randn(512, 512),)),
    Operation("scatter_add in short rows", lambda x, i, y: x.scatter_add(1, i, y), scatter_inputs),
    Operation("scatter in short rows", lambda x, i, y: x.scatter(1, i, y), scatter_inputs),
    Operation("index_add of rows", lambda x, i, y: x.index_add(0, i, y), row_inputs),
    Operation("cat + relu", lambda x, y: F.relu(torch.cat((x, y), 1)), lambda: (matrix(), matrix())),
    Operation("transpose + add", lambda x, y: x.t() + y, lambda: (matrix(), matrix().t().contiguous())),
    Operation("split heads", lambda x: (x * 0.125).permute(0, 2, 1, 3).contiguous(), lambda: (heads(),)),
    Operation("dropout + residual", lambda x, y: F.dropout(x, 0.1) + y, lambda: (matrix(), matrix()), exact=False),
    Operation("embedding + position", embed, embed_inputs),
    Operation("max pool", lambda x: F.max_pool2d(F.relu(x), 2), lambda: (images(),)),
    Operation("average pool", lambda x: F.avg_pool2d(x, 3, stride=1, padding=1), lambda: (images(),)),
    Operation("global average pool", lambda x: F.relu(x).mean((2, 3)), lambda: (images(),)),
    Operation("AdamW step", adamw, lambda: (matrix(), matrix(), matrix(), matrix().abs())),
    Operation("quantize rows to int8", quantize, lambda: (matrix(),)),
    Operation(
        "mixed bf16 * fp32 + fp16",
        lambda x, y, z: (x * y + z).half(),
        lambda: (matrix(torch.bfloat16), matrix(), matrix(torch.float16)),
        2e-2,
    ),
    Operation(
        "where and compare", lambda x, y: torch.where(x > y, x - y, (y - x).sqrt()), lambda: (matrix(), matrix())
    ),
)
