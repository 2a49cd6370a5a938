"""Networks that make images, sounds and samples."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn


class Gan(nn.Module):
    """Both losses of a step."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = nn.Sequential(
            *(nn.ConvTranspose2d(16, 32, 4), nn.BatchNorm2d(32), nn.ReLU()),
            *(nn.ConvTranspose2d(32, 16, 4, 2, 1), nn.BatchNorm2d(16), nn.ReLU()),
            *(nn.ConvTranspose2d(16, 3, 4, 2, 1), nn.Tanh()),
        )
        self.critic = nn.Sequential(
            *(nn.utils.spectral_norm(nn.Conv2d(3, 16, 4, 2, 1)), nn.LeakyReLU(0.2)),
            *(nn.Conv2d(16, 32, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(32, 1, 4)),
        )

    def forward(self, z: torch.Tensor, real: torch.Tensor) -> tuple[torch.Tensor, ...]:
        fake = self.generator(z[:, :, None, None])
        a, b = self.critic(real).flatten(1), self.critic(fake.detach()).flatten(1)
        return F.softplus(-a).mean() + F.softplus(b).mean(), F.softplus(-self.critic(fake)).mean(), fake


class Vae(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 16))
        self.decoder = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 256))

    def forward(self, x: torch.Tensor, noise: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mean, log_var = self.encoder(x.flatten(1)).chunk(2, dim=-1)
        out = self.decoder(mean + noise * torch.exp(0.5 * log_var))
        bce = F.binary_cross_entropy_with_logits(out, x.flatten(1).sigmoid(), reduction="sum")
        kld = -0.5 * torch.sum(1 + log_var - mean.pow(2) - log_var.exp())
        return out, bce + kld


class VqVae(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Linear(20, 8), nn.Linear(8, 20)
        self.codebook = nn.Embedding(16, 8)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        z = self.encoder(x)
        codes = torch.cdist(z, self.codebook.weight).argmin(dim=-1)
        q = self.codebook(codes)
        loss = F.mse_loss(z, q.detach()) + 0.25 * F.mse_loss(q, z.detach())
        return self.decoder(z + (q - z).detach()), loss, codes


class WaveNet(nn.Module):
    """Gated, dilated, causal convolutions."""

    def __init__(self, channels: int = 16, layers: int = 4) -> None:
        super().__init__()
        self.embed = nn.Embedding(64, channels)
        self.gates = nn.ModuleList(nn.Conv1d(channels, 2 * channels, 2, dilation=2**i) for i in range(layers))
        self.skips = nn.ModuleList(nn.Conv1d(channels, channels, 1) for _ in range(layers))
        self.head = nn.Sequential(nn.ReLU(), nn.Conv1d(channels, 64, 1))

    def forward(self, samples: torch.Tensor) -> torch.Tensor:
        x = self.embed(samples).transpose(1, 2)
        skip = torch.zeros_like(x)
        for gate, one in zip(self.gates, self.skips):
            a, b = gate(F.pad(x, (gate.dilation[0], 0))).chunk(2, dim=1)
            h = one(torch.tanh(a) * torch.sigmoid(b))
            x, skip = x + h, skip + h
        logits = self.head(skip)
        return F.cross_entropy(logits[..., :-1], samples[:, 1:])


class RealNvp(nn.Module):
    """A normalising flow of affine couplings."""

    def __init__(self) -> None:
        super().__init__()
        self.nets = nn.ModuleList(nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 12)) for _ in range(4))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        log_det = torch.zeros(x.shape[0], device=x.device, dtype=x.dtype)
        for net in self.nets:
            a, b = x.chunk(2, dim=-1)
            s, t = net(a).chunk(2, dim=-1)
            s = torch.tanh(s)
            x = torch.cat([b * torch.exp(s) + t, a], dim=-1)
            log_det = log_det + s.sum(dim=-1)
        return x, log_det - 0.5 * (x**2).sum(dim=-1) - x.shape[-1] * 0.5 * math.log(2 * math.pi)


class Diffusion(nn.Module):
    """A training step: noise at a random step, predicted."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(48, 64), nn.SiLU(), nn.Linear(64, 32))
        betas = torch.linspace(1e-4, 0.02, 100)
        self.register_buffer("alpha_bar", torch.cumprod(1 - betas, dim=0))

    def forward(self, x: torch.Tensor, noise: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        a = self.alpha_bar[t][:, None]
        x_t = a.sqrt() * x + (1 - a).sqrt() * noise
        freqs = torch.exp(-math.log(10000) * torch.arange(8, device=x.device, dtype=x.dtype) / 8)
        angles = t[:, None] * freqs[None]
        return F.mse_loss(self.net(torch.cat([x_t, angles.sin(), angles.cos()], dim=-1)), noise)


class Nerf(nn.Module):
    """Radiance along rays, composited."""

    def __init__(self) -> None:
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(33, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))

    def forward(self, origins: torch.Tensor, directions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        t = torch.linspace(2.0, 6.0, 16, device=origins.device, dtype=origins.dtype)
        points = origins[:, None] + directions[:, None] * t[:, None]
        encoded = torch.cat([points] + [f(points * 2.0**k) for k in range(5) for f in (torch.sin, torch.cos)], -1)
        raw = self.mlp(encoded)
        rgb, sigma = torch.sigmoid(raw[..., :3]), F.relu(raw[..., 3])
        delta = torch.cat([t[1:] - t[:-1], torch.full((1,), 1e3, device=t.device, dtype=t.dtype)])
        alpha = 1 - torch.exp(-sigma * delta)
        ones = torch.ones_like(alpha[:, :1])
        weights = alpha * torch.cumprod(torch.cat([ones, 1 - alpha + 1e-10], -1), -1)[:, :-1]
        return (weights[..., None] * rgb).sum(-2), (weights * t).sum(-1)


class Siren(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2, 32), nn.Linear(32, 32)])
        self.out = nn.Linear(32, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.sin(30 * layer(x))
        return self.out(x)


NETWORKS = {
    "gan": lambda: (Gan(), (torch.randn(4, 16), torch.randn(4, 3, 16, 16))),
    "vae": lambda: (Vae(), (torch.randn(4, 1, 16, 16), torch.randn(4, 8))),
    "vq_vae": lambda: (VqVae(), (torch.randn(3, 10, 20),)),
    "wavenet": lambda: (WaveNet(), (torch.randint(0, 64, (2, 40)),)),
    "normalising_flow": lambda: (RealNvp(), (torch.randn(8, 12),)),
    "diffusion_step": lambda: (Diffusion(), (torch.randn(8, 32), torch.randn(8, 32), torch.randint(0, 100, (8,)))),
    "nerf": lambda: (Nerf(), (torch.randn(20, 3), F.normalize(torch.randn(20, 3), dim=-1))),
    "siren": lambda: (Siren(), (torch.rand(64, 2),)),
}
