"""Cases, drawn by hypothesis so that it can reduce a failing one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from fuzz.case import Case
from fuzz.draft import Draft, NothingFits, a_new_input
from fuzz.statements import STATEMENTS

MOST_INPUTS = 3
MOST_STATEMENTS = 24
GROWTHS = (0, 0, 0, 1, 2)  # of sizes, for the second call; 0 for none
THREADS = (0, 0, 0, 0, 3)  # that call the compiled function at once


@st.composite
def cases(draw: Callable[[st.SearchStrategy[Any]], Any]) -> Case:
    """Cases of one to MOST_INPUTS first inputs and at most MOST_STATEMENTS statements."""
    gradients, more = draw(st.booleans()), draw(st.sampled_from(GROWTHS))
    draft = Draft(draw, gradients, more)
    for _ in range(draft.integer(1, MOST_INPUTS)):
        a_new_input(draft)
    for _ in range(draft.integer(1, MOST_STATEMENTS)):
        statement = draft.choose(STATEMENTS)
        try:
            statement(draft)
        except NothingFits:
            continue
    return replace(draft.case(dynamic=draft.sometimes()), threads=draft.choose(THREADS))
