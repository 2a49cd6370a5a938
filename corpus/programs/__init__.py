"""The programs whose kernels make the corpus."""

from __future__ import annotations

from corpus.programs.program import Program


def hand_written() -> list[Program]:
    """Cases of each access pattern."""
    from corpus.programs import attention, movement, pointwise, products, reductions

    return [*pointwise.PROGRAMS, *reductions.PROGRAMS, *movement.PROGRAMS, *products.PROGRAMS, *attention.PROGRAMS]


def all_programs() -> list[Program]:
    """Every program: models first, because they take longest."""
    from corpus.programs import models, operators

    return [*models.PROGRAMS, *hand_written(), *operators.programs()]
