"""Small models that are packaged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch.nn.attention.flex_attention import flex_attention

import inductor_npu

MODEL = "data/aotinductor/model/"


class Classifier(torch.nn.Module):
    """A linear layer, a normalisation, a buffer that is not saved, a number that is learned."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = torch.nn.Linear(16, 32), torch.nn.LayerNorm(32), torch.nn.Linear(32, 8)
        self.register_buffer("offset", torch.randn(8), persistent=False)
        self.scale = torch.nn.Parameter(torch.tensor(2.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.relu(self.norm(self.first(x)))).softmax(-1) * self.scale + self.offset


def packaged_classifier(folder: Path) -> tuple[Classifier, Path]:
    """A classifier, and its package for batches of 1 to 64."""
    torch.manual_seed(0)
    model = Classifier().eval()
    batch = torch.export.Dim("batch", min=1, max=64)
    args = (torch.randn(4, 16),)
    return model, inductor_npu.package(model, args, path=folder / "classifier.pt2", dynamic_shapes=({0: batch},))


class Images(torch.nn.Module):
    """Convolutions, a batch normalisation with statistics, pooling."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8)
        self.second, self.last = torch.nn.Conv2d(8, 8, 3, stride=2), torch.nn.Linear(8, 5)
        self.norm.running_mean.normal_()
        self.norm.running_var.uniform_(0.5, 2.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(F.relu(self.norm(self.first(x))), 2)
        return self.last(self.second(x).mean((2, 3)))


class Encoder(torch.nn.Module):
    """One layer of a transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(31, 32)
        self.layer = torch.nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True, norm_first=True)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.layer(self.embedding(tokens))


class Structured(torch.nn.Module):
    """Arguments and results with a structure, and values that do not vary."""

    def forward(
        self,
        pair: tuple[torch.Tensor, torch.Tensor],
        *,
        times: int,
        flag: bool = True,
        name: str = "",
        bias: Any = None,
    ) -> dict[str, Any]:
        x, y = pair
        return {"sum": (x + y) * times, "rest": [x - y if flag and name else x, None, times, 0.5]}


class Operators(torch.nn.Module):
    """What the library computes between kernels, also of sizes that depend on data."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        top, _ = torch.topk(x, 2)
        return top + 1, torch.fft.fft(x).abs(), x[x > 0].exp(), x.chunk(2, 1)[1]


class Counter(torch.nn.Module):
    """Writes a buffer, and its argument."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(1)
        x.mul_(2)
        return x + self.count


class Folding(torch.nn.Module):
    """Computes a weight of two others, as weight_norm does."""

    def __init__(self) -> None:
        super().__init__()
        self.direction, self.length = torch.nn.Parameter(torch.randn(8, 16)), torch.nn.Parameter(torch.rand(8, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ (self.length * self.direction / self.direction.norm(dim=1, keepdim=True)).t()


@triton.jit
def _count_programs(x_ptr, count_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    tl.atomic_add(count_ptr, tl.sum((x > 0).to(tl.float32)))


class OwnKernel(torch.nn.Module):
    """Launches a Triton kernel that a user wrote, which is wrong if it is launched with more programs."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        count = torch.zeros(1, device=x.device)
        torch.library.wrap_triton(_count_programs)[(triton.cdiv(x.numel(), 64),)](x, count, x.numel(), BLOCK=64)
        return count + 1


class Flexible(torch.nn.Module):
    """FlexAttention with a bias of its own."""

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return flex_attention(query, key, value, score_mod=lambda score, b, h, q, k: score + (q - k) * 0.1)
