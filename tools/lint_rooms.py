"""The house rules about imports. Run by `make lint`; prints `file:line: rule`, exits 1 if it found anything.

- No modules of the package import each other in a circle.
- A module imports only its own room and rooms that docs/architecture.md lists below it. Rooms are folders or files of
  the package; a module is in the one with the longest path. Every module is in one, but an `__init__.py` without code.

Every import counts, also one under TYPE_CHECKING and one inside a function. That a module's packages are imported with
it does not.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "inductor_npu"
DOCUMENT = "docs/architecture.md"
HEADING = "Rooms, from top to bottom"
# Debts: circles that are not broken yet, each with its files. An entry of which nothing is left is a finding.
KNOWN_CIRCLES: tuple[frozenset[str], ...] = ()

# A file, a line of it, and what is wrong there. Files are named as they lie in the package.
Finding = tuple[str, int, str]
# By file, the files that it imports, each with a line that does.
Imports = Mapping[str, Mapping[str, int]]


def main() -> int:
    """Checks the package of this repository."""
    package = ROOT / PACKAGE
    rooms = read_rooms((ROOT / DOCUMENT).read_text(encoding="utf-8"))
    imports = read_imports(package)
    findings = [*circle_findings(imports, KNOWN_CIRCLES), *room_findings(package, imports, rooms)]
    for file, line, message in sorted(findings):
        print(f"{PACKAGE}/{file}:{line}: {message}")
    print(f"rooms: {len(imports)} modules in {len(rooms)} rooms, {len(findings)} findings")
    return 1 if findings else 0


def read_rooms(document: str) -> list[str]:
    """The rooms of the table below the heading, from top to bottom: paths in the package. Raises ValueError if there is
    no such table.
    """
    lines = iter(document.splitlines())
    if not any(line.lstrip("# ") == HEADING for line in lines):
        raise ValueError(f"no heading {HEADING!r}")
    rooms: list[str] = []
    for line in lines:
        if line.startswith("| `"):
            rooms.append(line.split("`")[1])
        elif rooms:
            break
    if not rooms:
        raise ValueError(f"no table of rooms below {HEADING!r}")
    return rooms


def read_imports(package: Path) -> dict[str, dict[str, int]]:
    """What each module of `package` imports of it: the first line that does, by file."""
    files = {_dotted(path, package): path for path in sorted(package.rglob("*.py"))}
    imports: dict[str, dict[str, int]] = {}
    for module, path in files.items():
        found: dict[str, int] = {}
        for name, line in _names_of_imports(path, module):
            imported = _module_of(name, files)
            if imported is not None and imported != module:
                found.setdefault(files[imported].relative_to(package).as_posix(), line)
        imports[path.relative_to(package).as_posix()] = found
    return imports


def circle_findings(imports: Imports, known: Sequence[frozenset[str]]) -> Iterator[Finding]:
    """A finding for each circle that is not part of a known one, and for each known one of which nothing is left."""
    circles = circles_of(imports)
    for circle in circles:
        if not any(circle <= each for each in known):
            first = min(circle)
            line = min(line for file, line in imports[first].items() if file in circle)
            yield first, line, f"imports in a circle: {', '.join(sorted(circle))}"
    for each in known:
        if not any(circle <= each for circle in circles):
            yield min(each), 1, "is in no circle any more: take it out of KNOWN_CIRCLES"


def circles_of(imports: Imports) -> list[frozenset[str]]:
    """The largest sets of modules of which each leads to each other."""
    reached = {file: _reached_from(file, imports) for file in imports}
    circles = {frozenset(other for other in reached[file] if file in reached[other]) for file in imports}
    return sorted((circle for circle in circles if circle), key=min)


def room_findings(package: Path, imports: Imports, rooms: Sequence[str]) -> Iterator[Finding]:
    """A finding for each room that is not there, module without a room, and import of a room above."""
    for room in rooms:
        if rooms.count(room) > 1 or not (package / room).exists():
            yield room, 1, f"{DOCUMENT} lists this room twice, or it is not there"
    for file, imported in imports.items():
        room = room_of(file, rooms)
        if room is None:
            if not _is_without_code(package / file):
                yield file, 1, f"is in no room that {DOCUMENT} lists"
            continue
        for other, line in imported.items():
            above = room_of(other, rooms)
            if above is not None and rooms.index(above) < rooms.index(room):
                yield file, line, f"{room} imports {other} of {above}, which {DOCUMENT} lists above it"


def room_of(file: str, rooms: Sequence[str]) -> str | None:
    """The room with the longest path that `file` is, or is in."""
    holding = [room for room in rooms if file == room or file.startswith(f"{room}/")]
    return max(holding, key=len, default=None)


def _reached_from(file: str, imports: Imports) -> set[str]:
    """The modules that `file` imports, directly or through others."""
    reached: set[str] = set()
    waiting = [file]
    while waiting:
        for other in imports[waiting.pop()]:
            if other not in reached:
                reached.add(other)
                waiting.append(other)
    return reached


def _names_of_imports(path: Path, module: str) -> Iterator[tuple[str, int]]:
    """Full names of what the file at `path` imports: modules, and names in modules."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            start = ".".join([*base, *([node.module] if node.module else [])])
            yield from ((f"{start}.{alias.name}", node.lineno) for alias in node.names)


def _module_of(name: str, files: Mapping[str, Path]) -> str | None:
    """The module that `name` is, or is defined in; None for what is not of the package."""
    while name and name not in files:
        name = name.rpartition(".")[0]
    return name or None


def _dotted(path: Path, package: Path) -> str:
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _is_without_code(path: Path) -> bool:
    body = ast.parse(path.read_text(encoding="utf-8")).body
    return path.name == "__init__.py" and all(
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant) for statement in body
    )


if __name__ == "__main__":
    sys.exit(main())
