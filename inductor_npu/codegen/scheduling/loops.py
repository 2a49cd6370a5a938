"""What Inductor's scheduler says of loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy
from torch._inductor.codegen.simd_kernel_features import SIMDKernelFeatures


def numels(nodes: Sequence[Any]) -> tuple[sympy.Expr, sympy.Expr]:
    """Returns how many elements the pointwise loops of a kernel have, and its reductions."""
    return max(nodes, key=lambda node: int(node.is_reduction())).group[1]


def features_of(nodes: Sequence[Any]) -> SIMDKernelFeatures:
    """Returns what a kernel of the loops `nodes`, in this order, is planned from."""
    return SIMDKernelFeatures(list(nodes), *numels(nodes))
