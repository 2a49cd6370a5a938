"""A fixed sample of the corpus in checked mode: no kernel touches memory that it should not."""

from __future__ import annotations

import pytest

from corpus.check import program_names
from corpus.checked import run_checked
from inductor_npu.providers import DEFAULT_TARGET


@pytest.mark.slow
def test_no_kernel_of_the_sample_has_a_fault() -> None:
    names = program_names(sample=True, target=DEFAULT_TARGET)[::3]
    outcomes = list(run_checked(names, DEFAULT_TARGET, jobs=1))
    assert [outcome.program for outcome in outcomes] and len(outcomes) == len(names)
    assert [outcome for outcome in outcomes if outcome.fault is not None] == []
    assert [outcome for outcome in outcomes if outcome.error is not None] == []
