"""Run-time support for kernels of attention that are written as eager operators (codegen/attention/stand_in.py).

All scores are in memory here, as float32: [batch, heads, rows, columns].
"""

from __future__ import annotations

import torch

Lists = tuple[torch.Tensor | None, torch.Tensor | None]


def products(query: torch.Tensor, key: torch.Tensor, scale: float) -> torch.Tensor:
    """The products of queries [batch, heads, rows, D] and keys [batch, shared heads, columns, D], times `scale`."""
    return query.float() @ _of_all_heads(key, query).transpose(2, 3) * scale


def _of_all_heads(tensor: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Keys or values as float32, one for each head and batch of `like`."""
    heads = tensor.float().repeat_interleave(like.shape[1] // tensor.shape[1], 1)
    return heads.expand(like.shape[0], -1, -1, -1)


def _of_shared_heads(gradient: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """The gradient of keys or values `like`, of that of all heads and batches."""
    shared = gradient.unflatten(1, (like.shape[1], -1)).sum(2)
    return shared.sum(0, keepdim=True) if like.shape[0] != shared.shape[0] else shared


def listed(
    scores: torch.Tensor, partial: Lists, full: Lists, blocks: tuple[int, int], by_column: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Which of `scores` are computed at all, and which of them without asking the mask. `partial` and `full` are counts
    and indices of blocks of `blocks` scores (rows, columns); by_column: they are lists of blocks of rows for each block
    of columns.
    """
    marked = [_marked(scores, counts, indices, blocks, by_column) for counts, indices in (partial, full)]
    return marked[0] | marked[1], marked[1]


def _marked(
    scores: torch.Tensor,
    counts: torch.Tensor | None,
    indices: torch.Tensor | None,
    blocks: tuple[int, int],
    by_column: bool,
) -> torch.Tensor:
    rows, columns = scores.shape[2:]
    places = -(-rows // blocks[0]), -(-columns // blocks[1])
    if counts is None or indices is None:
        return torch.zeros((1, 1, rows, columns), dtype=torch.bool, device=scores.device)
    outer, inner = places[::-1] if by_column else places
    named = torch.arange(indices.shape[3], device=scores.device) < counts[..., None]
    # Entries behind the last one are marked in a place of their own.
    at = torch.where(named, indices, inner)[:, :, :outer].long()
    marked = torch.zeros((*at.shape[:3], inner + 1), dtype=torch.bool, device=scores.device)
    marked = marked.scatter(3, at, torch.ones_like(at, dtype=torch.bool))[..., :inner]
    marked = marked.transpose(2, 3) if by_column else marked
    row, column = (torch.arange(n, device=scores.device) // block for n, block in zip((rows, columns), blocks))
    return marked[:, :, row][..., column]


def forward(scores: torch.Tensor, value: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The weighted sum of values [batch, heads, rows, E], the logarithms of the sums of exponentials and the greatest
    scores [batch, heads, rows]. Of queries without a score it is 0.
    """
    greatest = scores.amax(3)
    log = torch.logsumexp(scores, 3)
    weight = torch.exp(scores - _finite(log)[..., None])
    return weight @ _of_all_heads(value, scores), log, greatest


def _finite(log: torch.Tensor) -> torch.Tensor:
    return torch.where(log == -torch.inf, 0.0, log)


def gradients(
    scores: torch.Tensor, value: torch.Tensor, d_out: torch.Tensor, log: torch.Tensor, delta: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradients of `scores` and of `value`; `log` are natural logarithms."""
    weight = torch.exp(scores - _finite(log)[..., None])
    d_value = weight.transpose(2, 3) @ d_out.float()
    d_weight = d_out.float() @ _of_all_heads(value, scores).transpose(2, 3)
    return weight * (d_weight - delta[..., None]), _of_shared_heads(d_value, value)


def key_gradient(d_products: torch.Tensor, query: torch.Tensor, key: torch.Tensor, scale: float) -> torch.Tensor:
    """The gradient of keys, of that of scaled products."""
    return _of_shared_heads(d_products.transpose(2, 3) @ query.float(), key) * scale


def query_gradient(d_products: torch.Tensor, key: torch.Tensor, scale: float) -> torch.Tensor:
    """The gradient of queries, of that of scaled products."""
    return d_products @ _of_all_heads(key, d_products) * scale
