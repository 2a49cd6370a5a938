"""Inputs of the hand-written programs: each a function that makes a tensor on the CPU when the program runs."""

from __future__ import annotations

from collections.abc import Callable

import torch

Input = Callable[[], torch.Tensor]


def floats(*shape: int, dtype: torch.dtype = torch.float32) -> Input:
    """Normal random numbers."""
    return lambda: torch.randn(shape).to(dtype)


def positive(*shape: int) -> Input:
    """Uniform random numbers from 0.1 to 1.1."""
    return lambda: torch.rand(shape) + 0.1


def integers(high: int, *shape: int, dtype: torch.dtype = torch.int64) -> Input:
    """Uniform random integers in [0, high)."""
    return lambda: torch.randint(high, shape).to(dtype)


def booleans(*shape: int) -> Input:
    return lambda: torch.rand(shape) > 0.5
