"""A short form of the stress of `make stress`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cache.crowd import compile_together
from tests.cache.stress import kill_many, run_together

pytestmark = pytest.mark.slow


def test_killed_processes_leave_nothing_that_is_wrong(tmp_path: Path) -> None:
    found = kill_many(tmp_path, kills=40)
    assert found.wrong == []


def test_many_processes_read_write_prune_and_clear_at_once(tmp_path: Path) -> None:
    found = run_together(tmp_path, processes=6, seconds=5)
    assert found.wrong == []
    assert all(found.done[what] > 0 for what in ("values", "made", "verified"))


@pytest.mark.compiled
def test_many_processes_compile_kernels_prune_and_clear_at_once(tmp_path: Path) -> None:
    found = compile_together(tmp_path, processes=4, seconds=40, kills=2)
    assert found.wrong == []
    assert all(found.done[what] > 0 for what in ("results", "kernels compiled"))
