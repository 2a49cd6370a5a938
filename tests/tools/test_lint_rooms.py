"""The rules about imports, on packages of a few lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import lint_rooms as rules

DOCUMENT = """# Architecture

### Rooms, from top to bottom
| Room | What is in it |
|---|---|
| `top` | what users call |
| `middle/inner` | a part of it |
| `low.py` | what anybody may use |

| `other` | another table |
"""
ROOMS = ["top", "middle/inner", "low.py"]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package of three rooms, each of which imports the ones below."""
    root = tmp_path / rules.PACKAGE
    for folder in (root, root / "top", root / "middle", root / "middle" / "inner"):
        folder.mkdir()
        (folder / "__init__.py").write_text('"""A package."""\n')
    (root / "top" / "a.py").write_text("from inductor_npu.middle.inner import b\nimport inductor_npu.low\n")
    (root / "middle" / "inner" / "b.py").write_text("from ...low import number\n")
    (root / "low.py").write_text("import os\nnumber = 1\n")
    return root


def circles(package: Path, *known: frozenset[str]) -> list[rules.Finding]:
    return [*rules.circle_findings(rules.read_imports(package), known)]


def strangers(package: Path, rooms: list[str] = ROOMS) -> list[tuple[str, int]]:
    return [(file, line) for file, line, _ in rules.room_findings(package, rules.read_imports(package), rooms)]


def test_rooms_are_those_of_the_first_table_below_the_heading() -> None:
    assert rules.read_rooms(DOCUMENT) == ROOMS


@pytest.mark.parametrize("document", ["# Architecture\n", DOCUMENT[: DOCUMENT.index("| Room")]])
def test_a_document_without_the_table_is_an_error(document: str) -> None:
    with pytest.raises(ValueError, match="Rooms, from top to bottom"):
        rules.read_rooms(document)


def test_imports_of_rooms_below_are_right(package: Path) -> None:
    assert circles(package) == [] and strangers(package) == []


@pytest.mark.parametrize(
    "importing",
    [
        "from inductor_npu.top import a\n",
        "import inductor_npu.top.a\n",
        "from .top.a import name\n",
        "if TYPE_CHECKING:\n    from inductor_npu.top.a import name\n",
        "def f():\n    from inductor_npu.top import a\n",
    ],
)
def test_any_import_of_a_room_above_is_found_and_closes_a_circle(package: Path, importing: str) -> None:
    (package / "low.py").write_text(importing)
    line = len(importing.splitlines())

    assert strangers(package) == [("low.py", line)]
    ((file, line_of_circle, message),) = circles(package)
    assert (file, line_of_circle) == ("low.py", line)
    assert message == "imports in a circle: low.py, middle/inner/b.py, top/a.py"


def test_a_circle_within_one_room_is_found(package: Path) -> None:
    (package / "top" / "a.py").write_text("from . import c\n")
    (package / "top" / "c.py").write_text("from .a import name\n")

    assert [finding[0] for finding in circles(package)] == ["top/a.py"]
    assert strangers(package) == []


def test_what_is_left_of_a_known_circle_is_no_finding_and_nothing_left_of_it_is_one(package: Path) -> None:
    (package / "top" / "a.py").write_text("from . import c\n")
    (package / "top" / "c.py").write_text("from .a import name\n")
    known = frozenset({"top/a.py", "top/c.py", "top/d.py"})
    assert circles(package, known) == []

    (package / "top" / "c.py").write_text("")
    assert [finding[0] for finding in circles(package, known)] == ["top/a.py"]


def test_a_module_in_no_room_is_found_and_a_package_without_code_is_none(package: Path) -> None:
    (package / "middle" / "d.py").write_text("")
    assert strangers(package) == [("middle/d.py", 1)]

    (package / "middle" / "__init__.py").write_text('"""A package."""\nnumber = 1\n')
    assert strangers(package) == [("middle/__init__.py", 1), ("middle/d.py", 1)]


def test_a_room_that_is_not_there_is_found(package: Path) -> None:
    assert strangers(package, [*ROOMS, "gone"]) == [("gone", 1)]


def test_the_longest_path_is_the_room(package: Path) -> None:
    """A room inside another one may be above it or below it."""
    rooms = ["top", "middle/inner", "middle", "low.py"]
    (package / "middle" / "d.py").write_text("from .inner import b\n")

    assert rules.room_of("middle/inner/b.py", rooms) == "middle/inner"
    assert strangers(package, rooms) == [("middle/d.py", 1)]


def test_the_package_of_this_repository_keeps_the_rules(capsys: pytest.CaptureFixture[str]) -> None:
    assert rules.main() == 0, capsys.readouterr().out
