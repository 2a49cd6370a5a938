"""What programs are made of: each function adds one statement to a draft, or raises NothingFits."""

from __future__ import annotations

from collections.abc import Callable

from fuzz.draft import Draft
from fuzz.statements import (
    booleans,
    borders,
    complex_numbers,
    control,
    elsewhere,
    float8,
    indexing,
    models,
    mutation,
    pointwise,
    reductions,
    row_ends,
    shapes,
    shifts,
    sizes,
    uninitialised,
    zeros,
)

Statement = Callable[[Draft], None]

# In the order of their simplicity; the frequent ones stand in it more than once.
STATEMENTS: tuple[Statement, ...] = (
    *pointwise.STATEMENTS,
    *shapes.STATEMENTS,
    *reductions.STATEMENTS,
    *indexing.STATEMENTS,
    *mutation.STATEMENTS,
    *control.STATEMENTS,
    *booleans.STATEMENTS,
    *sizes.STATEMENTS,
    *borders.STATEMENTS,
    *row_ends.STATEMENTS,
    *float8.STATEMENTS,
    *complex_numbers.STATEMENTS,
    *uninitialised.STATEMENTS,
    *elsewhere.STATEMENTS,
    *shifts.STATEMENTS,
    *zeros.STATEMENTS,
    *models.STATEMENTS,
)
