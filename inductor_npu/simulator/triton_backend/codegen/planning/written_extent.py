"""Positions that a loop nest can skip, because no store writes there."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..analysis.constant_tiles import ConstantTiles
from ..analysis.patterns import conjuncts
from .steps import KeptRoot, Root


def written_extent(
    roots: Sequence[Root], constants: ConstantTiles, shape: tuple[int, ...], first: int, last: int
) -> int:
    """How many positions of the axes [first, last), in their row-major order, some store may write."""
    extent, most = math.prod(shape[first:last]), 0
    for root in roots:
        if isinstance(root, KeptRoot) or root.op.name != "tt.store" or len(root.operands) < 3:
            return extent
        written: np.ndarray = np.ones(extent, dtype=bool)
        for condition in conjuncts(root.operands[2]):
            table = constants.of(condition)
            if table is not None and table.shape == shape:
                written &= table.reshape(math.prod(shape[:first]), extent, -1).any(axis=(0, 2))
        most = max(most, int(written.nonzero()[0].max(initial=-1)) + 1)
    return max(most, 1)
