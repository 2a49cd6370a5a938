"""Sums of products as loops of Inductor's: on the cube cores, or in float32 on the vector cores."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import sympy
import torch
from torch._inductor import ir
from torch._inductor.utils import sympy_product
from torch._inductor.virtualized import V, ops

# The two factors at indices of the result and of the sum.
Factors = Callable[[Sequence[sympy.Expr], Sequence[sympy.Expr]], tuple[Any, Any]]

# A sum over so few taps is written out, one after the other, as Inductor does with fewer: each is a load of its own.
_MOST_WRITTEN_OUT = 64


def dot(
    like: ir.IRNode, dtype: torch.dtype, factors: Factors, ranges: Sequence[sympy.Expr], reduced: Sequence[sympy.Expr]
) -> ir.TensorBox:
    """The sums of products of two loads over `reduced`, in `dtype`, in memory, on the device of `like`, whose dtype the
    factors have: a kernel of the cube cores.
    """
    return _summed(
        like, (dtype, like.get_dtype()), lambda *indices: ops.dot(*factors(*indices)), ranges, reduced, "dot"
    )


def total(
    like: ir.IRNode, dtype: torch.dtype, factors: Factors, ranges: Sequence[sympy.Expr], reduced: Sequence[sympy.Expr]
) -> ir.TensorBox:
    """As `dot`, but on the vector cores, in float32; the last of `reduced` are channels."""

    def term(index: Sequence[sympy.Expr], summed: Sequence[sympy.Expr]) -> Any:
        return ops.mul(*(ops.to_dtype(factor, torch.float32) for factor in factors(index, summed)))

    count = sympy_product(reduced)
    if is_one(reduced[-1]) and isinstance(count, sympy.Integer) and count <= _MOST_WRITTEN_OUT:
        every = list(itertools.product(*(map(sympy.Integer, range(length)) for length in reduced)))

        def written_out(index: Sequence[sympy.Expr]) -> Any:
            return functools.reduce(ops.add, (term(index, summed) for summed in every))

        return computed(like, written_out, ranges, dtype)
    return _summed(like, (dtype, torch.float32), term, ranges, reduced, "sum")


def _summed(
    like: ir.IRNode,
    dtypes: tuple[torch.dtype, torch.dtype],
    term: Callable[..., Any],
    ranges: Sequence[sympy.Expr],
    reduced: Sequence[sympy.Expr],
    kind: ir.ReductionType,
) -> ir.TensorBox:
    """The sums of `term` over `reduced`; `dtypes` are those of the result and of the terms."""
    made = ir.Reduction.create(
        device=like.get_device(),
        dst_dtype=dtypes[0],
        src_dtype=dtypes[1],
        inner_fn=term,
        ranges=list(ranges),
        reduction_ranges=list(reduced),
        reduction_type=kind,
    )
    return in_order(made)


def computed(
    like: ir.IRNode, element: Callable[..., Any], ranges: Sequence[sympy.Expr], dtype: torch.dtype | None = None
) -> ir.TensorBox:
    """`element` at each index of `ranges`, in memory on the device of `like`, in `dtype` or that of `like`."""
    dtype = dtype or like.get_dtype()
    made = ir.Pointwise.create(device=like.get_device(), dtype=dtype, inner_fn=element, ranges=list(ranges))
    return in_order(made)


def load_at(name: str, start: sympy.Expr, indices: Sequence[sympy.Expr], strides: Sequence[sympy.Expr]) -> Any:
    """Loads the element of buffer `name` at `indices`, which are `strides` apart, counted from `start`."""
    return ops.load(name, start + sympy.Add(*(at * step for at, step in zip(indices, strides, strict=True))))


def in_order(made: ir.TensorBox) -> ir.TensorBox:
    """`made` in memory, its last index innermost."""
    made.realize()
    ir.as_storage_and_layout(made, freeze=True, want_contiguous=True)
    return made


def is_one(*sizes: Any) -> bool:
    """Whether the product of `sizes` is known to be 1."""
    return bool(V.graph.sizevars.statically_known_equals(sympy_product(sizes), 1))
