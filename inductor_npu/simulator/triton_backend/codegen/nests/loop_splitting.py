"""Index set splitting: a mask `position < n` costs nothing up to the last whole chunk before n.

Masked loads and stores are slower than plain ones, many times so on processors without AVX-512, and each chunk computes
its mask. So a loop over a masked axis is written twice: without masks for the chunks that no mask edge crosses, and
with masks for the short rest. The second loop stops where all masks are off, if it has no effect beyond
(`planning/masked_off.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..emit.builder import Loop
from ..emit.lanes import Lanes
from ..emit.mask_edges import MaskEdges
from ..options import CodegenOptions

FEWEST_CHUNKS = 4  # in a loop that is worth writing twice


@contextmanager
def whole_chunks(lanes: Lanes, loop: Loop, width: int) -> Iterator[MaskEdges]:
    """While the body of `loop` is written for chunks of `width` that no mask's edge crosses."""
    lanes.edges = MaskEdges(lanes.scalars, loop.iv, width)
    try:
        yield lanes.edges
    finally:
        lanes.edges = None


def is_worth_two_loops(options: CodegenOptions, extent: int, width: int) -> bool:
    """Whether to write a loop over `extent` in chunks of `width` twice. Counts of what a kernel does, and checks, are
    of each access as it stands in the kernel.
    """
    few = extent < FEWEST_CHUNKS * width
    return not (few or width < 2 or width & (width - 1) or options.record or options.checked)
