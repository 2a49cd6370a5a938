"""pytest plugin: what each test takes of the processor, its child processes included.

A test without the marker `slow` that takes more than `LIMIT` seconds is named in pytest's warnings, and fails at
`FAILS_AT` times that: `make test` stays one that people run, and a test near the limit does not fail because its host
is busy with another. One that pays for its process's first import of Inductor or Triton, or for the headers of its
first C++, is not measured, since any test may come first. Where the limit is passed, the speed of this host at that
moment is measured too, and on a slower one the limit is longer. A process that is traced, as for coverage, is held to
none.

`--times FILE` appends a line of JSON for each test: its node id, seconds of processor time, seconds by the clock, and
whether it failed.
`python -m tests.processor_time FILE` prints the slowest.
"""

from __future__ import annotations

import json
import resource
import sys
import time
import warnings
from collections.abc import Generator
from pathlib import Path

import pytest

from inductor_npu import providers

LIMIT = 5.0
# One test took 4.6 to 6.0 s on hosts of one kind.
FAILS_AT = 2.0
# Modules that a test loads when it is the first of its process to compile: two thousand. Others load some dozens.
FIRST_COMPILE = 200
# What `_known_work` takes on the host for which LIMIT was chosen (AMD EPYC of 2024, Python 3.11).
KNOWN_WORK_SECONDS = 0.049

_taken = pytest.StashKey[float]()
_failed = pytest.StashKey[bool]()
# The limit is for the embedded NPU's compiler. Asked once, since tests name other providers.
_IS_KNOWN_COMPILER = providers.current_provider() is providers.SIMULATOR
_exempt = ("slow", "sweep", "budget")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("tiers").addoption("--times", metavar="FILE", type=Path, help="append what each test takes")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    item.stash[_taken] = 0.0
    item.stash[_failed] = False
    began = time.perf_counter()
    try:
        return (yield)
    finally:
        file = item.config.getoption("--times")
        if file is not None:
            clock = time.perf_counter() - began
            line = [item.nodeid, round(item.stash[_taken], 3), round(clock, 3), item.stash[_failed]]
            with file.open("a") as times:
                times.write(json.dumps(line) + "\n")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    item.stash[_failed] |= report.failed
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    began = _now()
    try:
        return (yield)
    finally:
        item.stash[_taken] += _now() - began


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    began, modules, headers = _now(), len(sys.modules), _headers()
    try:
        result = yield
    finally:
        ended = _now()
        item.stash[_taken] += ended - began
    first = len(sys.modules) - modules >= FIRST_COMPILE or _headers() > headers
    if (
        not first
        and _IS_KNOWN_COMPILER
        and sys.gettrace() is None
        and not any(item.get_closest_marker(name) for name in _exempt)
    ):
        _hold_to_the_limit(ended - began)
    return result


def _hold_to_the_limit(seconds: float) -> None:
    if seconds <= LIMIT or seconds <= (limit := LIMIT * max(1.0, _known_work() / KNOWN_WORK_SECONDS)):
        return
    message = (
        f"took {seconds:.1f} s of processor time, its children included; a test without the marker `slow` may take "
        f"{limit:.1f} s on this host. Make it cheaper (several cases in one compiled function, no product of "
        f"parameters), or mark it `slow`."
    )
    if seconds > FAILS_AT * limit:
        pytest.fail(message, pytrace=False)
    warnings.warn(message, stacklevel=1)


def _now() -> float:
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _headers() -> int:
    """How many headers Inductor has compiled for its C++, or found compiled."""
    precompile = getattr(sys.modules.get("torch._inductor.codecache"), "_precompile_header", None)
    return precompile.cache_info().currsize if hasattr(precompile, "cache_info") else 0


def _known_work() -> float:
    """Seconds of processor time for a fixed amount of Python."""
    began = time.process_time()
    sum(number * number for number in range(1_000_000))
    return time.process_time() - began


def print_slowest(file: Path, count: int = 30) -> None:
    """Prints the `count` tests of `file`, as `--times` writes it, that took most of the processor."""
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    lines.sort(key=lambda line: line[1], reverse=True)
    print(f"{len(lines)} tests, {sum(line[1] for line in lines) / 60:.1f} minutes of processor time. The slowest:")
    for node_id, seconds, by_the_clock, _ in lines[:count]:
        print(f"{seconds:8.1f} s  ({by_the_clock:.1f} s by the clock)  {node_id}")


if __name__ == "__main__":
    print_slowest(Path(sys.argv[1]))
