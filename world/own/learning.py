"""Networks that are known by how they learn: policies, contrasts, mixtures."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import nn


def _mlp(*widths: int, activation: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    layers: list[nn.Module] = []
    for a, b in pairwise(widths):
        layers += [nn.Linear(a, b), activation()]
    return nn.Sequential(*layers[:-1])


class Ppo(nn.Module):
    """The losses of an update."""

    def __init__(self) -> None:
        super().__init__()
        self.actor, self.critic = _mlp(8, 32, 4, activation=nn.Tanh), _mlp(8, 32, 1, activation=nn.Tanh)

    def forward(
        self, states: torch.Tensor, actions: torch.Tensor, old: torch.Tensor, rewards: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        policy = torch.distributions.Categorical(logits=self.actor(states), validate_args=False)
        values = self.critic(states).squeeze(-1)
        advantages = rewards - values.detach()
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        ratio = torch.exp(policy.log_prob(actions) - old)
        clipped = torch.clamp(ratio, 0.8, 1.2) * advantages
        loss = -torch.min(ratio * advantages, clipped).mean() - 0.01 * policy.entropy().mean()
        return loss, 0.5 * F.mse_loss(values, rewards)


class Sac(nn.Module):
    """The actor's loss of soft actor-critic."""

    def __init__(self) -> None:
        super().__init__()
        self.actor, self.q1, self.q2 = _mlp(10, 32, 6), _mlp(13, 32, 1), _mlp(13, 32, 1)

    def forward(self, state: torch.Tensor, noise: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mean, log_std = self.actor(state).chunk(2, dim=-1)
        normal = torch.distributions.Normal(mean, log_std.clamp(-5, 2).exp(), validate_args=False)
        raw = mean + noise * normal.scale
        action = torch.tanh(raw)
        log_prob = (normal.log_prob(raw) - torch.log(1 - action.pow(2) + 1e-6)).sum(-1)
        both = torch.cat([state, action], dim=-1)
        return (0.2 * log_prob - torch.min(self.q1(both), self.q2(both)).squeeze(-1)).mean(), log_prob


class Contrastive(nn.Module):
    """Two views, InfoNCE in both directions."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head, self.temperature = _mlp(16, 32, 16), nn.Parameter(torch.tensor(math.log(10.0)))

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x, y = (F.normalize(self.head(self.encoder(view)), dim=-1) for view in (a, b))
        logits = self.temperature.exp() * x @ y.T
        labels = torch.arange(len(a), device=a.device)
        return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels)) / 2, logits


class Siamese(nn.Module):
    """A shared encoder, the triplet's margin."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv1d(1, 8, 5), nn.BatchNorm1d(8), nn.ReLU(), nn.MaxPool1d(2), nn.Flatten())
        self.out = nn.LazyLinear(16)
        self(*(torch.zeros(2, 1, 24) for _ in "123"))  # makes the lazy layer

    def forward(self, anchor: torch.Tensor, same: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        a, b, c = (self.out(self.encoder(x)) for x in (anchor, same, other))
        return F.triplet_margin_loss(a, b, c, margin=1.0, reduction="none")


class MixtureDensity(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = _mlp(4, 32, 5 * 3, activation=nn.Tanh)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        logits, mean, log_sigma = self.net(x).chunk(3, dim=-1)
        sigma = log_sigma.exp()
        log_prob = -0.5 * ((y - mean) / sigma) ** 2 - log_sigma - 0.5 * math.log(2 * math.pi)
        return -torch.logsumexp(logits.log_softmax(-1) + log_prob, dim=-1)


class Distillation(nn.Module):
    """A student beside a frozen teacher."""

    def __init__(self) -> None:
        super().__init__()
        self.student, self.teacher = _mlp(20, 16, 10), _mlp(20, 64, 10)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        student = self.student(x)
        with torch.no_grad():
            target = F.softmax(self.teacher(x) / 2.0, dim=-1)
        soft = F.kl_div(F.log_softmax(student / 2.0, dim=-1), target, reduction="batchmean") * 4.0
        return soft + F.cross_entropy(student, labels, label_smoothing=0.1), student


class Maml(nn.Module):
    """An inner step of gradient descent, and the loss after it."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(3, 8) / 3), nn.Parameter(torch.zeros(3))

    def forward(self, x: torch.Tensor, y: torch.Tensor, x2: torch.Tensor, y2: torch.Tensor) -> torch.Tensor:
        error = F.linear(x, self.weight, self.bias) - y
        weight = self.weight - 0.1 * 2 * error.T @ x / error.numel()
        bias = self.bias - 0.1 * 2 * error.sum(0) / error.numel()
        return F.mse_loss(F.linear(x2, weight, bias), y2)


R = torch.randn
NETWORKS = {
    "ppo": lambda: (Ppo(), (R(16, 8), torch.randint(0, 4, (16,)), -1.4 + 0.1 * R(16), R(16))),
    "sac": lambda: (Sac(), (R(16, 10), R(16, 3))),
    "contrastive": lambda: (Contrastive(), (R(6, 3, 16, 16), R(6, 3, 16, 16))),
    "siamese": lambda: (Siamese(), (R(4, 1, 24), R(4, 1, 24), R(4, 1, 24))),
    "mixture_density": lambda: (MixtureDensity(), (R(12, 4), R(12, 1))),
    "distillation": lambda: (Distillation(), (R(8, 20), torch.randint(0, 10, (8,)))),
    "maml": lambda: (Maml(), (R(10, 8), R(10, 3), R(6, 8), R(6, 3))),
}
