"""What a grouped product computes: a product for each group, along one axis of which groups lie one after the other.

The axis is that of rows (tokens sorted by expert, times a matrix for each expert), of columns (the same, turned), or
the inner one (the gradient of each expert's matrix). Group g has the indices from offsets[g - 1], or 0, to offsets[g].
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

import sympy
import torch

from inductor_npu import providers
from inductor_npu.codegen.templates.tensor import Tensor
from inductor_npu.tiling import cube


class Along(Enum):
    """The axis along which the groups lie."""

    ROWS = "rows"
    COLUMNS = "columns"
    INNER = "inner"


@dataclass(frozen=True)
class GroupedProduct:
    """`left` [M, K] and `right` [K, N] have a first axis for the groups where the axis `along` is none of theirs; each
    is contiguous along its rows or its columns. `offsets` [groups] is int32. `groups` are without gaps, in the order of
    the axis; what lies behind the last one is in none.
    """

    left: Tensor
    right: Tensor
    offsets: Tensor
    along: Along

    @property
    def groups(self) -> sympy.Expr:
        """How many there are."""
        return self.offsets.sizes[0]

    @property
    def rows(self) -> sympy.Expr:
        """The rows of the result, of all groups together where they lie along them."""
        return self.left.sizes[-2]

    @property
    def columns(self) -> sympy.Expr:
        """The columns of the result, of all groups together where they lie along them."""
        return self.right.sizes[-1]

    @property
    def inner(self) -> sympy.Expr:
        """The terms of a sum, of all groups together where they lie along them."""
        return self.left.sizes[-1]


def why_library(dtypes: Iterable[torch.dtype], result: torch.dtype | None, has_bias: bool) -> str | None:
    """Returns why no kernel of ours multiplies groups of matrices of `dtypes`; None if one does."""
    different = {*dtypes}
    if has_bias:
        return "a grouped product with a bias"
    if len(different) == 1 and result not in (None, torch.float32, *different):
        return f"a grouped product of {different.pop()} with a result of {result}"
    return cube.why_library(different, providers.current_target())
