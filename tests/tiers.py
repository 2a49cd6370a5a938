"""pytest plugin: which tests a run takes.

- `--quick` (`make test`): what is not slow, and of a parametrized test that compiles only its first case.
- `--part K/N` (`make test-part PART=K/N`): the K-th of N shares of all that `--quick` leaves out.
- neither (`make test-full`): everything.

The quick tests and the N shares are everything, each test once. A share holds whole test functions, told apart by a
hash of their names: a new test moves no other one to another share. Tests marked `quick` are quick whatever they take:
the main job, a model in training, each family of operators. Those that need Ascend's compiler never are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from tests.part import Part

# Tests of these folders compile whole graphs, or start processes that do, seconds for each case; elsewhere a case costs
# next to nothing.
COMPILING = (
    "codegen",
    "compile",
    "diagnostics/explanation",
    "fuzz",
    "lowering",
    "models",
    "precision",
    "programs",
    "setup",
)

_TRIED_LATER = ("slow", "sweep", "budget", "ascend")


def function_of(node_id: str) -> str:
    """The node id of a test without its parameters, the same for all of its cases."""
    return node_id.partition("[")[0]


def quick_among(tests: Iterable[tuple[str, set[str]]]) -> set[str]:
    """The node ids that `--quick` takes from `tests`: node ids in the order of collection, each with its markers."""
    quick, seen = set(), set()
    for node_id, markers in tests:
        function = function_of(node_id)
        further = function in seen and node_id.startswith(tuple(f"tests/{folder}/" for folder in COMPILING))
        later = not markers.isdisjoint(_TRIED_LATER)
        if "quick" in markers or not (further or later):
            quick.add(node_id)
        if not later:
            seen.add(function)
    return quick


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tiers", "which tests a run takes")
    group.addoption("--quick", action="store_true", help="what `make test` runs")
    group.addoption("--part", metavar="K/N", help="share K of N of what --quick leaves out")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--part"):
        _part(config)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    part = _part(config) if config.getoption("--part") else None
    if part is None and not config.getoption("--quick"):
        return
    quick = quick_among((item.nodeid, {marker.name for marker in item.iter_markers()}) for item in items)
    if part is None:
        _keep(config, items, lambda item: item.nodeid in quick)
    else:
        _keep(config, items, lambda item: item.nodeid not in quick and part.holds(function_of(item.nodeid)))


def _part(config: pytest.Config) -> Part:
    try:
        return Part.parse(config.getoption("--part"))
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None


def _keep(config: pytest.Config, items: list[pytest.Item], wanted: Callable[[pytest.Item], bool]) -> None:
    config.hook.pytest_deselected(items=[item for item in items if not wanted(item)])
    items[:] = [item for item in items if wanted(item)]
