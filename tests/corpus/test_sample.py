"""A fixed sample of the corpus through Ascend's compiler: no verdict may be worse than the table in git, and no result
wrong that was not.
"""

from __future__ import annotations

import pytest

from corpus import table
from corpus.check import check, program_names
from inductor_npu.providers import DEFAULT_TARGET

pytestmark = [pytest.mark.ascend, pytest.mark.slow]


def test_no_verdict_got_worse() -> None:
    accepted = table.read(DEFAULT_TARGET)
    assert len({line.program for line in accepted}) > 300, "the accepted table is not that of the whole corpus"
    names = program_names(sample=True, target=DEFAULT_TARGET)
    lines = check(names, DEFAULT_TARGET, jobs=2, progress=lambda what, done, total: None, run=True)
    own = [line for line in accepted if line.program in names]
    assert table.worse(own, lines) == [], "accept a change that is meant to be with `python -m corpus --accept`"
