"""What counts as right.

A result of floating-point or complex dtype is held against a *reference*: the same call in eager on the CPU with all
inputs widened to float64 or complex128 (integers stay, and promote to float64). The error that eager itself makes in
the dtype of the case, on the same sample, is the measure of what the dtype allows:

    |ours - reference| <= atol + rtol |reference| + FACTOR * w * (|reference| + m)

with torch.testing's own atol and rtol of the result's dtype, m the median magnitude of the reference, and w the largest
|eager - reference| / (|reference| + m) of the tensor: eager's error where it is worst, relative to the element and to
what is typical of the tensor. So an operator that eager computes to the last bit must be as good in ours, and one that
cancels may lose what eager loses, and FACTOR times that at most. Where it is known how far an element moves if values
on the way are rounded otherwise, FACTOR times that is allowed besides.

An element is right as well if it is exactly what eager has (overflow of half types, values at a jump of a function).
Results of integers and booleans must be equal to eager's or to the reference's. Shapes and dtypes are eager's.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.testing._comparison import default_tolerances
from torch.utils import _pytree as pytree

from tools.tables import one_line

FACTOR = 3.0
STANDARD_ERRORS = 6.0  # by which two random results' means may differ


def difference(actual: Any, eager: Any, reference: Any, narrowest: torch.dtype | None = None, moved: Any = None) -> str:
    """Why `actual` (on any device) is not right, "" if it is. `reference` is None where there is none of higher
    precision: then eager is it.

    narrowest: the floating-point dtype of fewest bits that values on the way may have, if not the results' own.
    moved: by how much the elements of each tensor may change if values on the way are rounded otherwise, if known.
    """
    ours, spec = pytree.tree_flatten(actual)
    theirs, expected_spec = pytree.tree_flatten(eager)
    if len(ours) != len(theirs):
        return one_line(f"structure {spec} instead of {expected_spec}")
    wide = [None] * len(theirs) if reference is None else pytree.tree_leaves(reference)
    if len(wide) != len(theirs):
        wide = [None] * len(theirs)
    motions = [None] * len(theirs) if moved is None else pytree.tree_leaves(moved)
    for place, (got, wanted, best, motion) in enumerate(zip(ours, theirs, wide, motions, strict=True)):
        if why := _difference_of_leaf(got, wanted, best, narrowest, motion):
            return one_line(why if len(ours) == 1 else f"result {place}: {why}")
    return ""


def _difference_of_leaf(
    got: Any, wanted: Any, best: Any, narrowest: torch.dtype | None, moved: torch.Tensor | None
) -> str:
    if wanted is None:
        return "" if got is None else f"{got!r} instead of None"
    if not isinstance(wanted, torch.Tensor):
        same = got in (wanted, best) or (got != got and wanted != wanted)
        if not same and isinstance(wanted, float | complex):
            return difference(torch.tensor(got), torch.tensor(wanted), best and torch.tensor(best))
        return "" if same else f"{got!r} instead of {wanted!r}"
    if why := shape_difference(got, wanted):
        return why
    got, wanted = plain(got), plain(wanted)
    best = wanted if best is None or best.shape != wanted.shape else plain(best)
    bad = ~right(got, wanted, best, narrowest, moved)
    if not bad.any():
        return ""
    where = tuple(bad.nonzero()[0].tolist())
    values = f"{got[where].item()} instead of {best[where].item()} (eager {wanted[where].item()})"
    return f"{int(bad.sum())} of {bad.numel()} elements, {list(where)}: {values}"


def shape_difference(got: Any, wanted: Any) -> str:
    """Why `got` is not even a tensor like `wanted`, "" if it is."""
    if not isinstance(wanted, torch.Tensor):
        return ""
    if not isinstance(got, torch.Tensor):
        return f"{type(got).__name__} instead of a tensor"
    if got.shape != wanted.shape:
        return f"shape {list(got.shape)} instead of {list(wanted.shape)}"
    return "" if got.dtype == wanted.dtype else f"{got.dtype} instead of {wanted.dtype}"


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """On the CPU, dense, without a graph, conjugation or negation that is owed."""
    tensor = tensor.detach().cpu()
    tensor = tensor.to_dense() if tensor.layout is not torch.strided else tensor
    tensor = tensor.dequantize() if tensor.is_quantized else tensor
    return tensor.resolve_conj().resolve_neg()


def right(
    got: torch.Tensor,
    eager: torch.Tensor,
    reference: torch.Tensor,
    narrowest: torch.dtype | None = None,
    moved: torch.Tensor | None = None,
) -> torch.Tensor:
    """Which elements are right (shape of the arguments, bool)."""
    dtype = eager.dtype
    if not (dtype.is_floating_point or dtype.is_complex):
        same = got == eager
        return same if reference.dtype.is_floating_point or reference.dtype.is_complex else same | (got == reference)
    rounded = reference.to(dtype)
    as_wide = torch.complex128 if dtype.is_complex else torch.float64
    got, eager, rounded, wide = (t.to(as_wide) for t in (got, eager, rounded, reference))
    same = _equal(got, eager) | _equal(got, rounded)
    known = wide.isfinite() & eager.isfinite()
    magnitude = wide.abs()
    typical = magnitude[known].median() if known.any() else torch.tensor(0.0, dtype=torch.float64)
    scale = magnitude + typical
    relative = ((eager - wide).abs() / scale)[known & (scale > 0)]
    worst = relative.max() if relative.numel() else torch.tensor(0.0, dtype=torch.float64)
    if narrowest is not None and not dtype.is_complex:
        dtype = max(dtype, narrowest, key=lambda one: torch.finfo(one).eps)
    rtol, atol = default_tolerances(dtype) if dtype.itemsize > 1 else (torch.finfo(dtype).eps, 0.0)
    allowed = atol + rtol * magnitude + FACTOR * worst * scale
    if moved is not None:
        allowed = allowed + FACTOR * moved
    return same | (wide.isfinite() & ((got - wide).abs() <= allowed))


def _equal(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Elementwise; NaN equals NaN, in each part of a complex number."""
    if one.is_complex():
        parts = _equal(torch.view_as_real(one), torch.view_as_real(other)).all(-1)
        return parts | (one.isnan() & other.isnan()) | (one.isinf() & other.isinf())
    return (one == other) | (one.isnan() & other.isnan())


def statistical_difference(actual: Any, eager: Any) -> str:
    """Why `actual` cannot be a draw from what `eager` is drawn from, "" if it can: shapes, dtypes, whether there is
    NaN, and means within STANDARD_ERRORS of their difference.
    """
    ours, theirs = pytree.tree_leaves(actual), pytree.tree_leaves(eager)
    if len(ours) != len(theirs):
        return f"{len(ours)} results instead of {len(theirs)}"
    for got, wanted in zip(ours, theirs):
        why = shape_difference(got, wanted)
        if not why and isinstance(wanted, torch.Tensor) and wanted.numel() > 1:
            why = _difference_of_means(plain(got), plain(wanted))
        if why:
            return why
    return ""


def _difference_of_means(got: torch.Tensor, wanted: torch.Tensor) -> str:
    as_wide = torch.complex128 if wanted.dtype.is_complex else torch.float64
    one, other = got.to(as_wide), wanted.to(as_wide)
    if one.isnan().any() != other.isnan().any():
        return "NaN in one of two random results"
    one, other = one[one.isfinite()], other[other.isfinite()]
    if min(one.numel(), other.numel()) < 2:
        return ""
    spread = max(one.std().item(), other.std().item())
    error = spread * (1 / one.numel() + 1 / other.numel()) ** 0.5
    apart = (one.mean() - other.mean()).abs().item()
    if apart > STANDARD_ERRORS * error + 1e-6:
        return f"mean {one.mean().item():.4g} of a random result instead of {other.mean().item():.4g} +- {error:.2g}"
    return ""
