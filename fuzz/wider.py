"""Operators that other devices support and the CPU does not: the CPU computes them in a wider dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def wider(
    operator: Callable[..., torch.Tensor], tensor: torch.Tensor, *others: Any, within: torch.dtype, **options: Any
) -> torch.Tensor:
    """`operator(tensor, *others, **options)`. On the CPU, which has no kernel for it in the dtype of `tensor` (or in
    that of the option `dtype`), it is computed in `within`, and then converted.
    """
    if tensor.device.type != "cpu":
        return operator(tensor, *others, **options)
    narrow = options.pop("dtype", tensor.dtype)
    return operator(tensor.to(narrow).to(within), *others, **options).to(narrow)


def as_elsewhere(
    operator: Callable[..., torch.Tensor], tensor: torch.Tensor, *others: Any, within: torch.dtype, **options: Any
) -> torch.Tensor:
    """What `wider` does on other devices, on the CPU: Inductor may generate code for what has no kernel in eager."""
    return operator(tensor, *others, **options)
