"""The elements of an image that a window covers, in memory where the cube cores can read them.

A copy of the image has zeros where the window covers nothing. It can also be *unfolded* along its last dimensions: then
it has, for each place, all elements under the window there, so that the next place's are next in memory and one tile
has the places of many rows. Along the other dimensions it is the image, with zeros around it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sympy
from torch._inductor import ir, lowering
from torch._inductor.utils import sympy_product
from torch._inductor.virtualized import V, ops

from inductor_npu.lowering.convolutions.loops import computed, in_order, load_at
from inductor_npu.lowering.convolutions.window import Window, zero_unless

# Loads, of an image and a channel, the element at positions that are counted from the first that a window covers.
Load = Callable[[sympy.Expr, sympy.Expr, Sequence[sympy.Expr]], Any]


@dataclass(frozen=True)
class Strides:
    """How far apart, in elements, neighbouring images, channels, places and taps of a window are in memory."""

    batch: sympy.Expr
    channel: sympy.Expr
    place: tuple[sympy.Expr, ...]
    tap: tuple[sympy.Expr, ...]

    @property
    def are_readable(self) -> bool:
        """Whether the cube cores can read this: channels, or places along the last dimension, are neighbours; and no
        element is there for all of them, as in an expanded tensor.
        """
        known = V.graph.sizevars.statically_known_equals
        steps = (self.channel, self.place[-1])
        return any(known(step, 1) for step in steps) and not any(known(step, 0) for step in steps)


@dataclass(frozen=True)
class Patches:
    """What a window covers of an image: elements of buffer `name`, from `start` on."""

    name: str
    start: sympy.Expr
    strides: Strides

    def load(
        self, batch: sympy.Expr, channel: sympy.Expr, place: Sequence[sympy.Expr], tap: Sequence[sympy.Expr]
    ) -> Any:
        """Loads the element under `tap` of the window at `place`, of a channel of an image."""
        indices = (batch, channel, *place, *tap)
        steps = (self.strides.batch, self.strides.channel, *self.strides.place, *self.strides.tap)
        return load_at(self.name, self.start, indices, steps)


def is_channels_last(image: ir.IRNode) -> bool:
    """Whether channels are neighbours in the memory of `image`, [N, C, *spatial]."""
    return bool(V.graph.sizevars.statically_known_equals(image.get_layout().stride[1], 1))


def in_image(image: ir.IRNode, window: Window) -> Patches:
    """What `window` covers, in the memory of `image` itself; all of it must be inside."""
    layout = image.get_layout()
    batch, channel, *along = layout.stride
    start = layout.offset - sum(span.before * step for span, step in zip(window.spans, along, strict=True))
    place = tuple(span.step * step for span, step in zip(window.spans, along, strict=True))
    tap = tuple(span.dilation * step for span, step in zip(window.spans, along, strict=True))
    return Patches(image.get_name(), start, Strides(batch, channel, place, tap))


@dataclass(frozen=True)
class Copy:
    """A copy of an image of `batch` x `channels`, unfolded along its last `unfolded` spatial dimensions. Innermost are
    the channels, or the elements along the last dimension.
    """

    window: Window
    batch: sympy.Expr
    channels: sympy.Expr
    unfolded: int
    channels_last: bool

    @property
    def _kept(self) -> int:
        return len(self.window.spans) - self.unfolded

    @property
    def sizes(self) -> list[sympy.Expr]:
        """Its dimensions: images, spatial ones (places, where it is unfolded), taps where it is unfolded, channels; the
        channels and taps before the spatial ones where these are innermost.
        """
        spatial = [*(span.covered for span in self.window.spans[: self._kept]), *self.window.places[self._kept :]]
        taps = self.window.taps[self._kept :]
        if self.channels_last:
            return [self.batch, *spatial, *taps, self.channels]
        return [self.batch, self.channels, *taps, *spatial]

    @property
    def elements(self) -> sympy.Expr:
        """How many elements it has."""
        return sympy_product(self.sizes)

    @property
    def strides(self) -> Strides:
        """Where it has what the window covers."""
        batch, channel, spatial, taps = self._parts(self._steps)
        kept = list(zip(self.window.spans, spatial, strict=True))[: self._kept]
        place = (*(span.step * step for span, step in kept), *spatial[self._kept :])
        return Strides(batch, channel, place, (*(span.dilation * step for span, step in kept), *taps))

    @property
    def _steps(self) -> list[sympy.Expr]:
        """The strides of its dimensions."""
        return [sympy_product(self.sizes[place + 1 :]) for place in range(len(self.sizes))]

    def _parts(self, values: Sequence[Any]) -> tuple[Any, Any, Sequence[Any], Sequence[Any]]:
        """Those of images, channels, spatial dimensions and taps, of values in the order of `sizes`."""
        count = len(self.window.spans)
        if self.channels_last:
            batch, *rest, channel = values
            return batch, channel, rest[:count], rest[count:]
        batch, channel, *rest = values
        return batch, channel, rest[self.unfolded :], rest[: self.unfolded]

    @property
    def padded(self) -> Copy | None:
        """The copy of which this one is made: a window that moves over the edge has in an unfolded copy zeros at places
        that depend on the tap. Where each element would need a comparison of its own, zeros are added first.
        """
        return None if self.unfolded == 0 or self.window.is_inside else replace(self, unfolded=0)

    def make(self, image: ir.IRNode) -> Patches:
        """Writes the copy of `image`, [N, C, *spatial], which is in memory.

        An image whose channels do not lie as the copy's is turned first: a matrix of channels and places, which is
        turned in tiles, where the places of a copy with zeros around them are no axis of its memory.
        """
        if self.turns(image):
            image = self._turned(image)
        return Patches(self._write(image), sympy.S.Zero, self.strides)

    def turns(self, image: ir.IRNode) -> bool:
        """Whether channels lie in another order in `image` than in the copy."""
        return self.channels_last and not is_channels_last(image)

    def _turned(self, image: ir.IRNode) -> ir.IRNode:
        count = len(self.window.spans)
        order = [0, *range(2, count + 2), 1]
        copy = in_order(ir.ExternKernel.copy_input(lowering.permute(ir.TensorBox(image), order)))
        back = lowering.permute(copy, [0, count + 1, *range(1, count + 1)])
        return ir.ExternKernel.realize_input(back)

    def _write(self, image: ir.IRNode) -> str:
        load = covered(image, self.window) if self.padded is None else self.padded._loader(image)

        def element(index: Sequence[sympy.Expr]) -> Any:
            batch, channel, spatial, taps = self._parts(index)
            # Along a dimension that is not unfolded, an index counts elements, whatever the places and taps.
            pairs = zip(self.window.spans[self._kept :], spatial[self._kept :], taps, strict=True)
            return load(batch, channel, [*spatial[: self._kept], *(span.position(at, of) for span, at, of in pairs)])

        return computed(image, element, self.sizes).get_name()

    def _loader(self, image: ir.IRNode) -> Load:
        """Writes the copy, not unfolded, and loads from it as `covered` does."""
        name = self._write(image)
        batch, channel, spatial, _ = self._parts(self._steps)

        def load(first: sympy.Expr, second: sympy.Expr, positions: Sequence[sympy.Expr]) -> Any:
            return load_at(name, sympy.S.Zero, (first, second, *positions), (batch, channel, *spatial))

        return load


def covered(image: ir.IRNode, window: Window) -> Load:
    """Loads elements of `image`, [N, C, *spatial], which is in memory; 0 beyond its ends."""
    name, address = image.get_name(), image.get_layout().make_indexer()

    def load(batch: sympy.Expr, channel: sympy.Expr, positions: Sequence[sympy.Expr]) -> Any:
        at = [position - span.before for position, span in zip(positions, window.spans, strict=True)]

        def element() -> Any:
            return ops.load(name, address([batch, channel, *at]))

        conditions = []
        for dimension, may_begin_before, may_end_behind in window.limits():
            if may_begin_before:
                conditions.append(lowering.range_mask_low(at[dimension], 0))
            if may_end_behind:
                conditions.append(lowering.range_mask_high(at[dimension], window.spans[dimension].length))
        return zero_unless(conditions, element)

    return load
