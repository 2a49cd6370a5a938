"""What a kernel of attention computes: its tensors in memory, and what is done to the scores.

    score = scale * query @ key^T;  score = modification(score);  out = softmax(score) @ value

An axis is a symbol: `BATCH` and `HEAD` are one index at a time; a tile has several indices along `ROW`, the queries,
and along `COLUMN`, the keys.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import sympy
import torch

from inductor_npu.codegen.templates.tensor import Tensor

BATCH, HEAD, ROW, COLUMN = (
    sympy.Symbol(name, integer=True, nonnegative=True) for name in ("batch", "head", "row", "column")
)
AXES = (BATCH, HEAD, ROW, COLUMN)
# The head of keys and values that a head of queries reads.
SHARED_HEAD = sympy.Symbol("head_of_keys", integer=True, nonnegative=True)

# The greatest score where there is none. Not an infinity, of which differences would be NaN; scores that are masked
# with the least number of float32 have equal weights, as in eager.
LEAST = torch.finfo(torch.float32).min

# What a modification makes of the value of a score, or whether it counts; it writes operators of Inductor (`ops`), in
# which the indices of the score are AXES.
Modification = Callable[[Any], Any]
# The same of the product of a score, and of the gradient of what the score became.
GradientOfScore = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class BlockLists:
    """Which blocks of a score matrix are computed: for each batch, head and block of one axis, a list of blocks of the
    other axis. `counts` [batch, heads, blocks] and `indices` [batch, heads, blocks, entries] are int32, of dimension 1
    where all batches or heads have the same lists. A block has `rows` x `columns` scores.

    The masks of `full` blocks hold everywhere; None where there are no such lists.
    """

    counts: Tensor
    indices: Tensor
    full_counts: Tensor | None
    full_indices: Tensor | None
    rows: int
    columns: int


@dataclass(frozen=True)
class Attention:
    """One attention. `query` is [batch, heads, rows, D], `key` [batch, shared heads, columns, D] and `value` [batch,
    shared heads, columns, E], all with a contiguous last axis; a batch of length 1 is every batch's. Each head of keys
    and values belongs to as many successive heads of queries.

    `scale`: the factor of products, a number or a symbol of a size. `is_causal`: whether a query sees no key behind
    its own position. `score`: what a score becomes, None if nothing else. `gradient`: the derivative by the product of
    a sum over `score` by weights, of a pair (product, weight); None where `score` adds only what does not depend on the
    product. `kept`: what of the same pair the kernel of queries' gradients stores, for each score. `mask`: whether a
    score counts, asked in blocks that are not full.

    `masks_rows`: whether it may be that no score of a query counts. Its result is 0 then, and the logarithm of its sum
    of exponentials minus infinity. `log_unit`: 1 where logarithms are natural, log(2) where they are binary.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    scale: Any
    is_causal: bool = False
    score: Modification | None = None
    gradient: GradientOfScore | None = None
    kept: tuple[GradientOfScore, ...] = ()
    mask: Modification | None = None
    blocks: BlockLists | None = None
    masks_rows: bool = False
    log_unit: float = 1.0

    @property
    def rows(self) -> sympy.Expr:
        """How many queries there are."""
        return self.query.sizes[2]

    @property
    def columns(self) -> sympy.Expr:
        """How many keys there are."""
        return self.key.sizes[2]

    @property
    def heads(self) -> sympy.Expr:
        """How many heads the queries have."""
        return self.query.sizes[1]

    @property
    def shared_heads(self) -> sympy.Expr:
        """How many heads keys and values have."""
        return self.key.sizes[1]

    @property
    def batch(self) -> sympy.Expr:
        """How many batches there are."""
        return self.query.sizes[0]

    def sizes(self) -> Sequence[sympy.Expr]:
        """The lengths of AXES."""
        return self.batch, self.heads, self.rows, self.columns
