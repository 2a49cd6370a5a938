"""Kernels and bytes of programs, before and after a change."""

from __future__ import annotations

from pathlib import Path

import pytest

from corpus.traffic import Traffic, differences, read, traffic
from tools.tables import write_table


@pytest.mark.slow
def test_each_graph_of_a_step_is_counted() -> None:
    found = traffic("bert")
    assert found.error == "" and found.launches > found.kernels > 2 and found.bytes > 0


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
