"""Tables in git: what is written is what is read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tools.tables import one_line, read_table, write_table


@dataclass(frozen=True)
class Row:
    """A line of a table."""

    name: str
    count: int
    why: str = ""


ROWS = [Row("aten.add", 3), Row('quotes "and\ttabs"', 0, "back\\slash")]


def test_lines_come_back_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "tables" / "rows.tsv"
    assert read_table(path, Row) == []
    write_table(path, Row, ROWS)
    assert path.read_text().splitlines()[:2] == ["name\tcount\twhy", "aten.add\t3\t"]
    assert read_table(path, Row) == ROWS


def test_one_line_is_one_line_of_that_length() -> None:
    assert one_line(" two\n  lines ") == "two lines"
    assert one_line("a" * 30, 10) == "aaaaaaa..."
