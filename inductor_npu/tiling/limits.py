"""Bounds on block sizes that code generation and the heuristics have to agree on."""

from __future__ import annotations

# The largest XBLOCK of any kernel: 16384 elements of 4 bytes are a third of the smallest Unified Buffer there is a
# target for.
LARGEST_X_BLOCK = 16384

# Elements of the smallest tile worth a program of its own.
SMALLEST_TILE = 1024

# Ascend's compiler compares 256 bytes at a time, 128 elements of the narrowest type, and what is left one by one.
WHOLE_COMPARISON = 128

# Longest row that an outer reduction (rows side by side in memory) keeps on chip at once.
PERSISTENT_OUTER_ROW = 64

# Elements of a loop for which the cost of a launch no longer counts: a tile of 4096 on each of 40 cores, several times.
LARGE_LOOP = 1 << 19


def x_block_for_grid(numel: int, block: int, max_grid: int) -> int:
    """The smallest block, `block` or a power-of-two multiple of it up to LARGEST_X_BLOCK, with at most max_grid / 2
    programs over `numel`.

    Half of the limit leaves room for the loops' other axis.
    """
    while block < LARGEST_X_BLOCK and -(-numel // block) > max_grid // 2:
        block *= 2
    return block
