"""Which memory the patches of an image are read from: the image's own, or a copy. The cost model decides."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import sympy
from torch._inductor import ir
from torch._inductor.utils import sympy_product
from torch._inductor.virtualized import V

from inductor_npu import providers
from inductor_npu.codegen.index.size_terms import hint
from inductor_npu.lowering.convolutions.patches import Copy, Patches, Strides, in_image, is_channels_last
from inductor_npu.lowering.convolutions.window import Window
from inductor_npu.tiling import cube
from inductor_npu.tiling.plan import FILLED

# A loop: how many indices it has, and how far apart in memory neighbours are, in elements, of each operand.
Loop = tuple[sympy.Expr, tuple[sympy.Expr, ...]]


@dataclass(frozen=True)
class Source:
    """Where patches are read: in the image itself, or in `copy` of it. `channels_last`: in which order taps and
    channels are summed. `cycles` are those of the product and the copy.
    """

    copy: Copy | None
    channels_last: bool
    cycles: float

    def patches(self, image: ir.IRNode, window: Window) -> Patches:
        """What `window` covers of `image`; writes the copy, if there is one."""
        return in_image(image, window) if self.copy is None else self.copy.make(image)


# The product that multiplies patches at these strides; whether the sum's innermost loop is over channels.
Summarise = Callable[[Strides, bool], cube.ProductSummary]


def choose(image: ir.IRNode, window: Window, summarise: Summarise) -> Source:
    """Returns the cheapest source of what `window` covers of `image`, [N, C, *spatial], which is in memory."""
    return min(_sources(image, window, summarise), key=lambda source: source.cycles)


def _sources(image: ir.IRNode, window: Window, summarise: Summarise) -> Iterator[Source]:
    own = in_image(image, window).strides
    if window.is_inside and own.are_readable:
        last = is_channels_last(image)
        yield Source(None, last, _cycles(summarise(own, last)))
    batch, channels, *_ = image.get_size()
    # A row of few channels fills no fractal; then the elements under the window are summed in one row.
    few = hint(channels) < providers.current_target().fractal_rows
    last = is_channels_last(image) or not few
    for unfolded in [len(window.spans)] if few else range(len(window.spans) + 1):
        copy = Copy(window, batch, channels, unfolded, last)
        product = _cycles(summarise(copy.strides, last))
        yield Source(copy, last, product + _cycles_of_copies(copy, image))


def _cycles(product: cube.ProductSummary) -> float:
    chip = providers.current_target()
    return cube.cost(product, cube.plan_product(product, chip, FILLED), chip).cycles


def _cycles_of_copies(copy: Copy, image: ir.IRNode) -> float:
    """Cycles of the kernels that write `copy`, with their launches."""
    chip = providers.current_target()
    own = sympy_product(image.get_size())
    written = [own] * copy.turns(image) + [each.elements for each in (copy.padded, copy) if each is not None]
    sizes = [hint(size) for size in (own, *written)]
    moved = sum(read + written for read, written in itertools.pairwise(sizes)) * image.get_dtype().itemsize
    return moved / (chip.vector_cores * chip.device_bytes_per_cycle) + (len(sizes) - 1) * chip.launch_cycles


@dataclass(frozen=True)
class Merged:
    """Loops merged into one of `length` indices; `is_unit`: neighbours are neighbours in memory of an operand."""

    length: int
    is_unit: bool


def merged(loops: Sequence[Loop]) -> list[Merged]:
    """Returns `loops`, given from the outermost inwards, merged where they cross memory without a gap."""
    known = V.graph.sizevars.statically_known_equals
    found: list[Loop] = []
    for length, steps in reversed([loop for loop in loops if not known(loop[0], 1)]):
        inner = found[-1] if found else None
        if inner is not None and all(known(step, inner[0] * of) for step, of in zip(steps, inner[1], strict=True)):
            found[-1] = inner[0] * length, inner[1]
        else:
            found.append((length, steps))
    return [Merged(hint(length), any(known(step, 1) for step in steps)) for length, steps in found]


def product_of(
    rows: Sequence[Merged],
    columns: Sequence[Merged],
    inner: Sequence[Merged],
    batch: int,
    item_size: int,
    result_bytes: int,
) -> cube.ProductSummary:
    """Returns the product over these loops, as codegen/analysis/contraction.py has it: the tile has several indices
    along one of each kind.
    """
    (row, others), (column, more), (along, repeats) = map(_chosen, (rows, columns, inner))
    return cube.ProductSummary(
        rows=row,
        columns=column,
        inner=along,
        repeats=repeats,
        batch=batch * others * more,
        item_size=item_size,
        result_bytes=result_bytes,
    )


def _chosen(loops: Sequence[Merged]) -> tuple[int, int]:
    """The length of the loop that the tile is along, and the rounds of the others."""
    chosen = max((loop.is_unit, loop.length) for loop in loops)[1] if loops else 1
    return chosen, math.prod(loop.length for loop in loops) // max(chosen, 1)
