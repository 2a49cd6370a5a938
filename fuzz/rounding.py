"""Eager with other roundings: the movement of its results bounds the difference of two correct compilers.

An operation that rounds may give a neighbouring result in another compiler (a sum in another order, an exponential of
another library). Later operations may magnify that beyond any tolerance: the group norm of equal numbers is 0 where
their mean is exact, and 316 units in the last place where it is off by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode


@contextmanager
def integers_become_float64() -> Iterator[None]:
    """Within it they do where they meet what has a fraction: in float32 they would be rounded."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


class RoundsOtherwise(TorchDispatchMode):
    """Within it each number that an operation of eager on the CPU has rounded is, by chance, itself or one of its two
    neighbours. What is exact stays as it is, so that comparisons of exact numbers come to the same.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._generator = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        settings = kwargs or {}
        if func.is_view:
            return func(*args, **settings)
        exact = _in_float64(func, args, settings)  # first: `func` may write into its operands
        result = func(*args, **settings)
        for ours, wide in zip(pytree.tree_leaves(result), exact):
            if _is_float(ours) and _is_float(wide) and ours.shape == wide.shape:
                self._move(_parts(ours), _parts(wide))
        return result

    def _move(self, ours: torch.Tensor, wide: torch.Tensor) -> None:
        """Moves the elements of `ours` that are not those of `wide`."""
        numbers = ours.double()
        unit = torch.full_like(numbers, torch.finfo(ours.dtype).eps).ldexp(numbers.frexp().exponent - 1)
        steps = torch.randint(-1, 2, ours.shape, generator=self._generator)
        is_rounded = (numbers != wide.double()) & numbers.isfinite()
        ours.copy_(torch.where(is_rounded, numbers + steps * unit, numbers))


def _in_float64(func: Any, args: Any, settings: Any) -> Sequence[Any]:
    """The results of `func` without rounding, as far as float64 goes; none if there is no such call."""

    def wider(dtype: torch.dtype) -> torch.dtype:
        if dtype.is_complex:
            return torch.complex128
        # A conversion to eight bits is asked for, and of exact values only: it is no rounding that may go another way.
        return torch.float64 if dtype.is_floating_point and dtype.itemsize > 1 else dtype

    def widened(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.to(wider(value.dtype), copy=True)
        return wider(value) if isinstance(value, torch.dtype) else value

    wide_args, wide_settings = pytree.tree_map(widened, (args, settings))
    try:
        with integers_become_float64():
            return pytree.tree_leaves(func(*wide_args, **wide_settings))
    except RuntimeError:  # dtypes that only agree as they are
        return []


def _is_float(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())


def _parts(tensor: torch.Tensor) -> torch.Tensor:
    """The real numbers of it, in its memory."""
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
