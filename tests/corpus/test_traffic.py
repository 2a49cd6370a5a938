"""Kernels and bytes of programs, before and after a change."""

from __future__ import annotations

from pathlib import Path

import pytest

from corpus.traffic import Traffic, differences, names_of, read, traffic
from inductor_npu.providers import DEFAULT_TARGET
from tools.tables import write_table


@pytest.mark.slow
def test_each_graph_of_a_program_is_counted() -> None:
    """Forward and backward of a softmax: a kernel each, which reads and writes whole rows."""
    found = traffic("softmax/softmax 128")
    assert (found.kernels, found.launches, found.error) == (2, 2, "")
    assert found.bytes > 0


def test_models_in_training_come_first() -> None:
    assert names_of(DEFAULT_TARGET)[0].startswith("step/")


def test_what_moves_more_bytes_is_told_first() -> None:
    before = {name: Traffic(name, 1, 1, 10) for name in ("same", "more", "less", "gone")}
    same, more, less, new = (
        Traffic("same", 1, 1, 10),
        Traffic("more", 1, 1, 15),
        Traffic("less", 1, 1, 5),
        Traffic("n", 1, 1, 1),
    )
    assert [after.program for _, after in differences(before, [same, less, more, new])] == ["more", "less"]


def test_a_table_is_read_as_it_was_written(tmp_path: Path) -> None:
    rows = [Traffic("a", 1, 2, 3), Traffic("b", 0, 0, 0, "RuntimeError: none")]
    write_table(tmp_path / "table.tsv", Traffic, rows)
    assert read(tmp_path / "table.tsv") == {row.program: row for row in rows}
    assert read(tmp_path / "none.tsv") == {}
