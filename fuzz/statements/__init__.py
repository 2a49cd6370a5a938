"""What programs are made of: each function adds one statement to a draft, or raises NothingFits."""

from __future__ import annotations

from collections.abc import Callable

from fuzz.draft import Draft
from fuzz.statements import control, indexing, mutation, pointwise, reductions, shapes

Statement = Callable[[Draft], None]

# In the order of their simplicity; the frequent ones stand in it more than once.
STATEMENTS: tuple[Statement, ...] = (
    *pointwise.STATEMENTS,
    *shapes.STATEMENTS,
    *reductions.STATEMENTS,
    *indexing.STATEMENTS,
    *mutation.STATEMENTS,
    *control.STATEMENTS,
)
