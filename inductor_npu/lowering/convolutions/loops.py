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
    made = ir.Reduction.create(
        device=like.get_device(),
        dst_dtype=dtype,
        src_dtype=like.get_dtype(),
        inner_fn=lambda index, summed: ops.dot(*factors(index, summed)),
        ranges=list(ranges),
        reduction_ranges=list(reduced),
        reduction_type="dot",
    )
    return in_order(made)


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

        return in_order(
            ir.Pointwise.create(device=like.get_device(), dtype=dtype, inner_fn=written_out, ranges=list(ranges))
        )
    made = ir.Reduction.create(
        device=like.get_device(),
        dst_dtype=dtype,
        src_dtype=torch.float32,
        inner_fn=term,
        ranges=list(ranges),
        reduction_ranges=list(reduced),
        reduction_type="sum",
    )
    return in_order(made)


def in_order(made: ir.TensorBox) -> ir.TensorBox:
    """`made` in memory, its last index innermost."""
    made.realize()
    ir.as_storage_and_layout(made, freeze=True, want_contiguous=True)
    return made


def is_one(*sizes: Any) -> bool:
    """Whether the product of `sizes` is known to be 1."""
    return bool(V.graph.sizevars.statically_known_equals(sympy_product(sizes), 1))
