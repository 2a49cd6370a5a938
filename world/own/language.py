"""Networks over sequences: words, speech, states."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


class Recurrent(nn.Module):
    """A language model of `kind` LSTM, GRU or RNN, with its loss."""

    def __init__(self, kind: str, bidirectional: bool = False) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 32)
        self.rnn = getattr(nn, kind)(32, 48, 2, batch_first=True, bidirectional=bidirectional)
        self.out = nn.Linear(96 if bidirectional else 48, 50)

    def forward(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        states, _ = self.rnn(self.embedding(ids))
        logits = self.out(states)
        return logits, F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


class Seq2Seq(nn.Module):
    """An encoder, and a decoder cell that attends to it step by step."""

    def __init__(self) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(40, 24), nn.Embedding(40, 24)
        self.encoder, self.decoder = nn.GRU(24, 32, batch_first=True), nn.GRUCell(56, 32)
        self.query, self.out = nn.Linear(32, 32), nn.Linear(64, 40)

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        memory, last = self.encoder(self.source(source))
        state, context, logits = last[0], memory.mean(1), []
        mask = source == 0
        for step in range(target.shape[1]):
            state = self.decoder(torch.cat([self.target(target[:, step]), context], dim=-1), state)
            scores = torch.bmm(memory, self.query(state)[..., None]).squeeze(-1).masked_fill(mask, -1e9)
            context = torch.bmm(scores.softmax(-1)[:, None], memory).squeeze(1)
            logits.append(self.out(torch.cat([state, context], dim=-1)))
        return torch.stack(logits, dim=1).log_softmax(-1)


class SelectiveScan(nn.Module):
    """A Mamba-like block, the scan as a loop."""

    def __init__(self) -> None:
        super().__init__()
        self.into, self.out, self.project = nn.Linear(16, 64), nn.Linear(32, 16), nn.Linear(32, 48)
        self.conv = nn.Conv1d(32, 32, 4, padding=3, groups=32)
        self.log_a = nn.Parameter(torch.log(torch.arange(1.0, 9.0)).repeat(32, 1))
        self.d = nn.Parameter(torch.ones(32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        u, gate = self.into(x).chunk(2, dim=-1)
        u = F.silu(self.conv(u.transpose(1, 2))[..., : x.shape[1]].transpose(1, 2))
        delta, b, c = self.project(u).split([32, 8, 8], dim=-1)
        delta, a = F.softplus(delta), -torch.exp(self.log_a)
        h, ys = torch.zeros(x.shape[0], 32, 8, device=x.device, dtype=x.dtype), []
        for i in range(x.shape[1]):
            h = h * torch.exp(delta[:, i, :, None] * a) + (delta[:, i] * u[:, i])[..., None] * b[:, i, None]
            ys.append((h * c[:, i, None]).sum(-1))
        return self.out((torch.stack(ys, 1) + u * self.d) * F.silu(gate))


class Retention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.norm, self.out = nn.Linear(32, 96), nn.GroupNorm(4, 32), nn.Linear(32, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, 4, 8)).permute(2, 0, 3, 1, 4)
        n = torch.arange(x.shape[1], device=x.device)
        gap = n[:, None] - n
        decay = torch.where(gap >= 0, 0.9 ** gap.clamp(min=0), 0)
        y = ((q @ k.mT) * decay @ v).transpose(1, 2).flatten(2)
        return self.out(self.norm(y.flatten(0, 1)).view_as(x))


class SparseExperts(nn.Module):
    """A mixture of experts: each gets its own tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(32, 4)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32)) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights, chosen = torch.topk(self.gate(x).softmax(-1), 2, dim=-1)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            rows, slots = torch.where(chosen == i)
            out.index_add_(0, rows, expert(x[rows]) * weights[rows, slots, None])
        return out


class DenseExperts(nn.Module):
    """A mixture of experts: all tokens through all of them, weighted; with the loss that balances them."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(32, 4)
        self.up, self.down = nn.Parameter(torch.randn(4, 32, 64) / 6), nn.Parameter(torch.randn(4, 64, 32) / 8)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        probabilities = self.gate(x).softmax(-1)
        weights, chosen = probabilities.topk(2, dim=-1)
        mixed = torch.zeros_like(probabilities).scatter(1, chosen, weights)
        y = torch.einsum("teh,ehd->ted", F.silu(torch.einsum("td,edh->teh", x, self.up)), self.down)
        load = F.one_hot(chosen, 4).to(x.dtype).sum(1).mean(0)
        return torch.einsum("te,ted->td", mixed, y), (load * probabilities.mean(0)).sum() * 4


class Tcn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList(
            nn.utils.parametrizations.weight_norm(nn.Conv1d(16, 16, 3, dilation=2**k)) for k in range(3)
        )
        self.out = nn.Linear(16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for k, conv in enumerate(self.convs):
            x = x + F.gelu(conv(F.pad(x, (2 * 2**k, 0))))
        return self.out(x.mean(-1))


class Ctc(nn.Module):
    """Speech: features, a recurrent network, CTC's loss."""

    def __init__(self) -> None:
        super().__init__()
        self.front = nn.Conv1d(16, 24, 3, stride=2, padding=1)
        self.rnn, self.out = nn.GRU(24, 24, batch_first=True), nn.Linear(24, 9)

    def forward(self, x: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        states, _ = self.rnn(F.relu(self.front(x)).transpose(1, 2))
        log_probs = self.out(states).log_softmax(-1).transpose(0, 1)
        lengths = torch.full((x.shape[0],), log_probs.shape[0]), torch.full((x.shape[0],), targets.shape[1])
        return F.ctc_loss(log_probs, targets, *lengths), log_probs


class AdaptiveSoftmax(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(40, 16, padding_idx=0)
        self.out = nn.AdaptiveLogSoftmaxWithLoss(16, 40, [10, 20])

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return tuple(self.out(self.embedding(x).mean(1), y))


def _words(*shape: int) -> torch.Tensor:
    return torch.randint(0, 40, shape)


def _encoder(**settings: object) -> nn.Module:
    layer = nn.TransformerEncoderLayer(64, 4, 128, 0.0, batch_first=True, **settings)  # type: ignore[arg-type]
    return nn.TransformerEncoder(layer, 2)


NETWORKS = {
    "lstm": lambda: (Recurrent("LSTM"), (_words(3, 11),)),
    "lstm_bidirectional": lambda: (Recurrent("LSTM", bidirectional=True), (_words(3, 11),)),
    "gru": lambda: (Recurrent("GRU"), (_words(3, 11),)),
    "rnn": lambda: (Recurrent("RNN"), (_words(3, 11),)),
    "seq2seq": lambda: (Seq2Seq(), (_words(3, 9), _words(3, 5))),
    "transformer_encoder": lambda: (_encoder(), (torch.randn(2, 10, 64),)),
    "transformer_causal": lambda: (
        _encoder(norm_first=True, activation="gelu"),
        (torch.randn(2, 10, 64), nn.Transformer.generate_square_subsequent_mask(10)),
    ),
    "transformer": lambda: (
        nn.Transformer(64, 4, 2, 2, 128, 0.0, batch_first=True),
        (torch.randn(2, 9, 64), torch.randn(2, 7, 64)),
    ),
    "selective_scan": lambda: (SelectiveScan(), (torch.randn(2, 12, 16),)),
    "retention": lambda: (Retention(), (torch.randn(2, 13, 32),)),
    "experts_sparse": lambda: (SparseExperts(), (torch.randn(24, 32),)),
    "experts_dense": lambda: (DenseExperts(), (torch.randn(24, 32),)),
    "tcn": lambda: (Tcn(), (torch.randn(2, 16, 40),)),
    "ctc_speech": lambda: (Ctc(), (torch.randn(2, 16, 28), torch.randint(1, 9, (2, 4)))),
    "adaptive_softmax": lambda: (AdaptiveSoftmax(), (_words(12, 5), _words(12))),
}
