"""The programs whose kernels make the corpus."""

from __future__ import annotations

from corpus.programs.program import Program


def hand_written() -> list[Program]:
    """Cases of each access pattern."""
    from corpus.programs import attention, convolutions, movement, pointwise, products, reductions

    families = (pointwise, reductions, movement, products, attention, convolutions)
    return [program for each in families for program in each.PROGRAMS]


def all_programs() -> list[Program]:
    """Every program: models first, because they take longest."""
    from corpus.programs import models, operators

    return [*models.PROGRAMS, *hand_written(), *operators.programs()]
