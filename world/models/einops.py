"""einops: networks that are written with it."""

from __future__ import annotations

import torch
from torch import nn

from world.case import Built, stirred


def _vit() -> Built:
    from einops import rearrange, reduce, repeat
    from einops.layers.torch import Rearrange

    class Vit(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            patches = Rearrange("b c (h p) (w q) -> b (h w) (p q c)", p=8, q=8)
            self.patches = nn.Sequential(patches, nn.Linear(192, 64))
            self.token, self.qkv, self.out = nn.Parameter(torch.randn(1, 1, 64)), nn.Linear(64, 192), nn.Linear(64, 10)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.patches(x)
            x = torch.cat([repeat(self.token, "1 1 d -> b 1 d", b=x.shape[0]), x], 1)
            q, k, v = rearrange(self.qkv(x), "b n (three h d) -> three b h n d", three=3, h=4)
            a = torch.einsum("bhid,bhjd->bhij", q, k).softmax(-1)
            x = rearrange(torch.einsum("bhij,bhjd->bhid", a, v), "b h n d -> b n (h d)")
            return self.out(reduce(x, "b n d -> b d", "mean"))

    return Built(Vit(), (torch.randn(2, 3, 32, 32),))


def _mixer() -> Built:
    from einops import reduce
    from einops.layers.torch import EinMix, Rearrange

    class Mixer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patches = Rearrange("b c (h p) (w q) -> b (h w) (c p q)", p=8, q=8)
            self.embed = EinMix("b t c -> b t d", weight_shape="c d", bias_shape="d", c=192, d=64)
            self.tokens = EinMix("b t d -> b s d", weight_shape="t s", bias_shape="s", t=16, s=16)
            self.channels = EinMix("b t d -> b t e", weight_shape="d e", d=64, e=64)
            self.norm = nn.LayerNorm(64)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.embed(self.patches(x))
            x = x + nn.functional.gelu(self.tokens(self.norm(x)))
            x = x + nn.functional.gelu(self.channels(self.norm(x)))
            return reduce(x, "b t d -> b d", "max")

    return Built(Mixer(), (torch.randn(2, 3, 32, 32),))


def _pack() -> Built:
    from einops import einsum, pack, unpack

    class Packed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(16, 16) / 4)

        def forward(self, image: torch.Tensor, words: torch.Tensor) -> tuple[torch.Tensor, ...]:
            everything, shapes = pack([image, words], "b * c")
            mixed = einsum(everything, self.weight, "b n c, c d -> b n d").softmax(1)
            return tuple(unpack(mixed, shapes, "b * c"))

    return Built(Packed(), (torch.randn(2, 4, 5, 16), torch.randn(2, 7, 16)))


NETWORKS = {"vit": _vit, "mixer": _mixer, "pack": _pack}


def members() -> list[str]:
    return list(NETWORKS)


def build(member: str) -> Built:
    built = NETWORKS[member]()
    stirred(built.model)
    return built
