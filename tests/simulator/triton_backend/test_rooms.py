"""The rooms of the code generator lie on top of each other: a module imports from its own room and from those below it,
and nothing imports in a circle, wherever in a module the import stands.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from inductor_npu.simulator.triton_backend import codegen

FOLDER = Path(codegen.__file__).parent
MODULES = sorted(FOLDER.rglob("*.py"))
# From top to bottom, as docs/architecture.md lists them.
ROOMS = ("kernel", "variants", "nests", "evaluation", "emit", "planning", "rewriting", "analysis", "forms")
BELOW_ALL = ("errors", "options")

pytestmark = pytest.mark.quick


def name_of(path: Path) -> str:
    """The module below `codegen`, such as "emit.lanes"; that of a room, such as "emit"."""
    parts = path.relative_to(FOLDER).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = {name_of(path) for path in MODULES}


def imported_by(path: Path) -> Iterator[str]:
    """The modules of the code generator that `path` imports, at its top, in functions, and for the type checker."""
    package = path.relative_to(FOLDER).parent.parts
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.ImportFrom) or not 0 < node.level <= len(package) + 1:
            continue
        base = [*package[: len(package) + 1 - node.level], *(node.module or "").split(".")]
        for alias in node.names:
            module = ".".join(part for part in base if part)
            deeper = f"{module}.{alias.name}".lstrip(".")
            yield deeper if deeper in NAMES else module


def room_of(name: str) -> str:
    return name.partition(".")[0]


def test_each_module_is_in_a_room():
    assert {room_of(name) for name in NAMES} == {"", *ROOMS, *BELOW_ALL}


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_imports_from_its_own_room_and_those_below(path: Path):
    room = room_of(name_of(path))
    allowed = ROOMS[ROOMS.index(room) :] if room in ROOMS else ROOMS if room == "" else ()
    assert {room_of(name) for name in imported_by(path)} <= {*allowed, *BELOW_ALL}


def test_nothing_imports_in_a_circle():
    graph = TopologicalSorter({name_of(path): set(imported_by(path)) - {name_of(path)} for path in MODULES})
    graph.prepare()  # raises CycleError, which names the circle
    assert graph.is_active()


def test_the_documentation_lists_the_rooms_from_top_to_bottom():
    section = (Path(__file__).parents[3] / "docs/architecture.md").read_text()
    places = [section.index(f"\n- `{room}/`") for room in ROOMS]
    assert places == sorted(places)
