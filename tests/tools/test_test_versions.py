"""`make test-versions`: its suite names tests that are there, its table keeps one line for each torch."""

from __future__ import annotations

import ast
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.version_suite import SUITE
from tools import test_versions

ROOT = Path(__file__).resolve().parents[2]
LINE = "| 2.14.1+cu130 | 3.8.0 | 3.11.7 | 210 | 0 | 2026-11-25 |"


def test_the_suite_names_tests_that_are_there() -> None:
    for file, names in SUITE.items():
        body = ast.parse((ROOT / file).read_text()).body
        there = {
            f"{node.name}::{method.name}"
            for node in body
            if isinstance(node, ast.ClassDef)
            for method in node.body
            if isinstance(method, ast.FunctionDef)
        }
        there |= {node.name for node in body if isinstance(node, ast.FunctionDef)}
        assert {name.partition("[")[0] for name in names} <= there, file


def test_the_readme_has_a_table_of_lines_that_can_be_read() -> None:
    text = test_versions.README.read_text()
    row = test_versions.row_of(LINE)
    again = test_versions.with_row(text, row)
    assert LINE in again
    assert test_versions.with_row(again, row) == again


def test_a_line_takes_the_place_of_its_torch_and_the_others_stay() -> None:
    table = f"a\n{test_versions.BEGIN}\n{test_versions.END}\nb"
    for line in (LINE, LINE.replace("2.14.1+cu130", "2.9.0"), LINE.replace("+cu130 ", "+cpu ").replace("210", "211")):
        table = test_versions.with_row(table, test_versions.row_of(line))
    first, *head, older, newer, last, end = table.splitlines()
    assert (first, last, end) == ("a", test_versions.END, "b")
    assert older.startswith("| 2.9.0 ") and "| 2.14.1+cpu |" in newer and "| 211 |" in newer
    assert len(head) == 3


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("2.11.0 | 3.6.0", "cells"),
        (LINE.replace("210", "most"), "whole numbers"),
        (LINE.replace("2.14.1", "two"), "like 2.15.0"),
        (LINE.replace("2026-11-25", "today"), "a date is like"),
    ],
)
def test_a_line_that_is_none_is_refused_in_one_line(line: str, reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = test_versions.README.read_text()
    assert test_versions.main(["--record", line]) == 2
    said = capsys.readouterr().err
    assert reason in said and said.count("\n") == 1
    assert test_versions.README.read_text() == before


@pytest.mark.parametrize("torch", ["9.9", "newest", "9.9.9"])
def test_a_version_that_cannot_be_installed_is_one_line_and_the_table_stays(
    torch: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(command: list[str], version: str) -> None:
        if "install" in command:
            raise test_versions.CannotInstallError(f"torch {version} cannot be installed here: no such version")

    monkeypatch.setattr(test_versions, "_run", run)
    before = test_versions.README.read_text()
    assert test_versions.main([torch]) == 1
    said = capsys.readouterr().err
    assert torch in said and "stays as it was" in said and said.count("\n") == 1
    assert test_versions.README.read_text() == before


def test_errors_count_as_failures_and_what_is_skipped_as_neither() -> None:
    report = ElementTree.fromstring('<a><testsuite tests="9" failures="1" errors="2" skipped="3"/></a>')
    assert test_versions.counts_of(report) == (3, 3)
