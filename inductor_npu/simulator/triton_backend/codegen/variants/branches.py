"""Code that runs under a condition, beside the loop nests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..emit.context import CodegenContext
from ..forms.value import Val


@contextmanager
def when(context: CodegenContext, condition: Val) -> Iterator[None]:
    """Code at level 0 that runs where a scalar holds. Where values are in it does not hold after it."""
    b = context.b
    inside, after = b.fresh("then"), b.fresh("fi")
    b.line(f"br i1 {condition.text}, label %{inside}, label %{after}")
    places, known = dict(context.places), dict(b.known[0])
    b.enter(inside)
    yield
    b.line(f"br label %{after}")
    b.leave(after, known)
    context.places = places
