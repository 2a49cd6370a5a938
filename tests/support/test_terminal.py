"""Tables and bars in a terminal and in a file."""

from __future__ import annotations

import pytest
from rich.console import Console
from rich.table import Table

from inductor_npu.support import terminal


def table() -> Table:
    made = Table("Name", "Words")
    made.add_row("kernel", " ".join(["word"] * 60))
    return made


def test_text_has_no_colours_and_no_blanks_at_the_ends_of_lines() -> None:
    lines = terminal.as_text("[red]red[/]  \nnext", width=20).splitlines()
    assert lines == ["red", "next"]


@pytest.mark.parametrize("columns", [60, 100])
def test_text_is_as_wide_as_asked_or_as_the_terminal(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert max(map(len, terminal.as_text(table(), columns).splitlines())) == columns
    monkeypatch.setenv("COLUMNS", str(columns))
    assert max(map(len, terminal.as_text(table()).splitlines())) == columns


def test_names_that_are_too_wide_are_broken_into_lines_not_cut_short() -> None:
    made = Table(*terminal.whole("kind", "name"), box=None)
    made.add_row("kernel", "triton_poi_fused_" * 4)
    shown = terminal.as_text(made, width=40)
    assert "triton_poi_fused_" * 4 in shown.replace("kernel", "").replace("\n", "").replace(" ", "")


def test_a_file_is_wider_than_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert terminal.output().width == terminal.LOG_WIDTH
    monkeypatch.setenv("COLUMNS", "70")
    assert terminal.output(stderr=True).width == 70


def test_a_bar_says_what_is_done_and_how_much_of_it() -> None:
    console = Console(width=80, record=True, force_terminal=True)
    with terminal.progress(console) as bars:
        bars.advance(bars.add_task("kernels", total=4), 3)
    assert "kernels" in (text := console.export_text()) and "3/4" in text
