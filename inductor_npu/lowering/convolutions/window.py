"""The window of a convolution: which elements of an image it covers at each place."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sympy
from torch._inductor.virtualized import V, ops


@dataclass(frozen=True)
class Span:
    """A window along one spatial dimension of an image of `length` elements: it has `taps` elements, `dilation` apart,
    lies at `places` places, `step` apart, and begins `before` elements before the image.
    """

    length: sympy.Expr
    places: sympy.Expr
    taps: int
    step: int = 1
    dilation: int = 1
    before: int = 0

    @property
    def covered(self) -> sympy.Expr:
        """How many elements there are from the first that is covered at any place to the last, in the image or not."""
        return self.step * (self.places - 1) + self.dilation * (self.taps - 1) + 1

    def position(self, place: sympy.Expr, tap: sympy.Expr) -> sympy.Expr:
        """The element that `tap` covers at `place`, counted from the first that is covered at all."""
        return self.step * place + self.dilation * tap

    @property
    def begins_inside(self) -> bool:
        """Whether all that is covered lies behind the image's beginning."""
        return self.before <= 0

    @property
    def ends_inside(self) -> bool:
        """Whether all that is covered is known to lie before the image's end."""
        return bool(V.graph.sizevars.statically_known_leq(self.covered - self.before, self.length))


@dataclass(frozen=True)
class Window:
    """A window over an image, by its spans along each spatial dimension."""

    spans: tuple[Span, ...]

    @property
    def places(self) -> list[sympy.Expr]:
        """How many places there are along each dimension."""
        return [span.places for span in self.spans]

    @property
    def taps(self) -> list[sympy.Expr]:
        """How many elements the window has along each dimension."""
        return [sympy.Integer(span.taps) for span in self.spans]

    @property
    def is_inside(self) -> bool:
        """Whether the window is known to cover elements of the image only."""
        return all(span.begins_inside and span.ends_inside for span in self.spans)

    def limits(self) -> Iterator[tuple[int, bool, bool]]:
        """Yields each dimension along which the window may cover what is no element, whether before the image's
        beginning, and whether beyond its end.
        """
        for dimension, span in enumerate(self.spans):
            if not (span.begins_inside and span.ends_inside):
                yield dimension, not span.begins_inside, not span.ends_inside


def zero_unless(conditions: Sequence[Any], load: Callable[[], Any]) -> Any:
    """What `load` returns where all `conditions` hold, elsewhere 0; nothing is loaded there."""
    return ops.masked(functools.reduce(ops.and_, conditions), load, 0.0) if conditions else load()
