"""Networks over graphs, points, and rows of tables."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


class MessagePassing(nn.Module):
    """A graph network by scatter, normalised by degree."""

    def __init__(self) -> None:
        super().__init__()
        self.message, self.update = nn.Linear(24, 16), nn.GRUCell(16, 8)

    def forward(self, x: torch.Tensor, edges: torch.Tensor, attributes: torch.Tensor) -> torch.Tensor:
        source, target = edges
        for _ in range(2):
            messages = F.relu(self.message(torch.cat([x[source], x[target], attributes], dim=-1)))
            total = torch.zeros(x.shape[0], 16, device=x.device, dtype=x.dtype).index_add_(0, target, messages)
            degree = torch.zeros(x.shape[0], device=x.device, dtype=x.dtype)
            degree = degree.scatter_add_(0, target, torch.ones_like(target, dtype=x.dtype))
            x = self.update(total / degree.clamp(min=1)[:, None], x)
        return x


class EdgeAttention(nn.Module):
    """Graph attention: a softmax over the edges into each node."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.a = nn.Linear(8, 16), nn.Linear(32, 1)

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        h, (source, target) = self.linear(x), edges
        scores = F.leaky_relu(self.a(torch.cat([h[source], h[target]], -1)).squeeze(-1), 0.2)
        most = torch.full((x.shape[0],), -1e9, device=x.device, dtype=x.dtype)
        most = most.scatter_reduce(0, target, scores, "amax", include_self=True)
        weights = torch.exp(scores - most[target].detach())
        total = torch.zeros(x.shape[0], device=x.device, dtype=x.dtype).index_add(0, target, weights)
        return F.elu(torch.zeros_like(h).index_add(0, target, h[source] * (weights / total[target])[:, None]))


class PointNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            *(nn.Conv1d(3, 32, 1), nn.BatchNorm1d(32), nn.ReLU(), nn.Conv1d(32, 64, 1), nn.BatchNorm1d(64))
        )
        self.out = nn.Linear(64, 10)

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        return F.log_softmax(self.out(torch.max(self.features(points), 2)[0]), dim=-1)


class EdgeConvolution(nn.Module):
    """DGCNN: features of the nearest neighbours' differences."""

    def __init__(self) -> None:
        super().__init__()
        self.mlp, self.out = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 32)), nn.Linear(32, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        nearest = torch.cdist(x, x).topk(5, largest=False).indices
        batch = torch.arange(x.shape[0], device=x.device)[:, None, None]
        center = x[:, :, None].expand(-1, -1, 5, -1)
        return self.out(self.mlp(torch.cat([center, x[batch, nearest] - center], -1)).amax(2).mean(1))


class Dlrm(nn.Module):
    """Recommendation: bags of embeddings, pairwise products."""

    def __init__(self) -> None:
        super().__init__()
        self.bottom = nn.Sequential(nn.Linear(13, 32), nn.ReLU(), nn.Linear(32, 16))
        self.bags = nn.ModuleList(nn.EmbeddingBag(100, 16, mode="sum") for _ in range(5))
        self.top = nn.Sequential(nn.Linear(31, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, dense: torch.Tensor, ids: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        x = self.bottom(dense)
        parts = torch.stack([x] + [bag(i, offsets) for bag, i in zip(self.bags, ids)], dim=1)
        products = torch.bmm(parts, parts.transpose(1, 2))
        rows, columns = torch.tril_indices(6, 6, offset=-1, device=dense.device)
        return torch.sigmoid(self.top(torch.cat([x, products[:, rows, columns]], dim=1)))


class MatrixFactorisation(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.users, self.items = nn.Embedding(30, 8), nn.Embedding(50, 8)
        self.user_bias, self.item_bias = nn.Embedding(30, 1), nn.Embedding(50, 1)

    def forward(self, user: torch.Tensor, item: torch.Tensor, rating: torch.Tensor) -> torch.Tensor:
        score = (self.users(user) * self.items(item)).sum(-1)
        score = score + self.user_bias(user).squeeze(-1) + self.item_bias(item).squeeze(-1)
        penalty = self.users(user).pow(2).mean() + self.items(item).pow(2).mean()
        return F.mse_loss(score, rating) + 1e-2 * penalty


class FactorisationMachine(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.embedding = nn.Embedding(60, 1), nn.Embedding(60, 8)
        self.deep = nn.Sequential(nn.Flatten(), nn.Linear(48, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, fields: torch.Tensor) -> torch.Tensor:
        e = self.embedding(fields)
        pairs = 0.5 * (e.sum(1).square() - e.square().sum(1)).sum(-1)
        return torch.sigmoid(self.linear(fields).sum((1, 2)) + pairs + self.deep(e).squeeze(-1))


class TabularTransformer(nn.Module):
    """Numbers and categories as tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.randn(5, 32) / 6), nn.Parameter(torch.randn(5, 32) / 6)
        self.categories, self.token = nn.Embedding(3 * 7, 32), nn.Parameter(torch.randn(1, 1, 32))
        self.encoder = nn.TransformerEncoderLayer(32, 4, 64, 0.0, batch_first=True, norm_first=True)
        self.head = nn.Sequential(nn.LayerNorm(32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, numbers: torch.Tensor, categories: torch.Tensor) -> torch.Tensor:
        offsets = torch.arange(3, device=categories.device) * 7
        x = torch.cat([numbers[..., None] * self.scale + self.shift, self.categories(categories + offsets)], dim=1)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], dim=1)
        return self.head(self.encoder(x)[:, 0])


R = torch.randn
NETWORKS = {
    "message_passing": lambda: (MessagePassing(), (R(12, 8), torch.randint(0, 12, (2, 40)), R(40, 8))),
    "edge_attention": lambda: (EdgeAttention(), (R(12, 8), torch.randint(0, 12, (2, 40)))),
    "pointnet": lambda: (PointNet(), (R(4, 3, 50),)),
    "edge_convolution": lambda: (EdgeConvolution(), (R(2, 30, 3),)),
    "dlrm": lambda: (Dlrm(), (R(8, 13), torch.randint(0, 100, (5, 24)), torch.arange(0, 24, 3))),
    "matrix_factorisation": lambda: (
        MatrixFactorisation(),
        (torch.randint(0, 30, (20,)), torch.randint(0, 50, (20,)), R(20)),
    ),
    "factorisation_machine": lambda: (FactorisationMachine(), (torch.randint(0, 60, (9, 6)),)),
    "tabular_transformer": lambda: (TabularTransformer(), (R(6, 5), torch.randint(0, 7, (6, 3)))),
}
