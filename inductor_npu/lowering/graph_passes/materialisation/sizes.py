"""How large values are against each other, also where sizes are known when the program runs only."""

from __future__ import annotations

from collections.abc import Hashable

import sympy
import torch


def elements_of(value: torch.Tensor) -> Hashable:
    """How many elements `value` has: a number, or an expression of sizes. Equal for equal ones."""
    count = value.numel()
    return count if isinstance(count, int) else count.node.expr


def share_of(part: torch.Tensor, whole: torch.Tensor) -> float:
    """Which share of the elements of `whole` a loop over `part` takes: all where that is not known."""
    share = _ratio(part, whole)
    return 1.0 if share is None else min(share, 1.0)


def bytes_against(read: torch.Tensor, computed: torch.Tensor) -> float:
    """How many bytes of `read` a loop over `computed` reads, as a multiple of the bytes of `computed`; 0 for tensors
    with fewer axes of a size that varies, which are small beside it, and where there are no elements.
    """
    share = _ratio(read, computed)
    return 0.0 if share is None else min(share, 1.0) * read.itemsize / computed.itemsize


def _ratio(one: torch.Tensor, other: torch.Tensor) -> float | None:
    """How many times as many elements `one` has, where that is a number."""
    first, second = elements_of(one), elements_of(other)
    if isinstance(first, int) and isinstance(second, int):
        return first / second if second else None
    ratio = sympy.sympify(first) / sympy.sympify(second)
    return float(ratio) if ratio.is_number and ratio.is_finite else None
