"""Loads the files, lists their tests, runs one."""

from __future__ import annotations

import ast
import functools
import importlib
import io
import os
import re
import sys
import types
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from opinfo.outcomes import Verdict
from tools.tables import one_line
from world.outcomes import COMPILED, Outcome
from world.running import processor_seconds

FOLDER_VARIABLE = "INDUCTOR_TESTS"
FOLDER = Path("build/inductor-tests")
# Files whose tests ask for a device in general, and not for CUDA's libraries, its text or its graphs.
FILES = (
    *("test_torchinductor", "test_torchinductor_dynamic_shapes", "test_foreach", "test_control_flow"),
    *(
        "test_scatter_optimization",
        "test_loop_ordering",
        "test_unbacked_symints",
        "test_padding",
        "test_inplacing_pass",
    ),
)
CONVERTED = ("test_foreach",)  # that name "cuda" where they mean a GPU
# Classes for other devices, or of which nothing asks for a device.
_OTHERS = ("Cpu", "CPU")
_ERROR = re.compile(r"[\w.]*(Error|Exception|Failed|Unsupported)\b.*:")
_LINES = 3


def members() -> list[str]:
    """`test_foreach.ForeachTests.test_...`, for all files. Raises FileNotFoundError with what to do."""
    return [f"{file}.{type(test).__name__}.{test._testMethodName}" for file in FILES for test in _tests(file)]


def run_case(outcome: Outcome) -> Outcome:
    """Runs one test; what it skips by itself is no case, what it expects to fail is right if it does."""
    start = processor_seconds()
    file, kind, name = outcome.case.partition("/")[2].split(".")
    test = getattr(_module(file), kind)(name)
    result = unittest.TestResult()
    torch.set_default_device("npu" if _names_default_device(file) else None)
    unittest.TestSuite([test]).run(result)  # with what its class sets up
    torch.set_default_device(None)
    told = [(Verdict.SKIPPED, reason) for _, reason in result.skipped]
    told += [(_verdict(text), text) for _, text in (*result.failures, *result.errors)]
    told += [(Verdict.ERROR, "passes, though its file expects it to fail") for _ in result.unexpectedSuccesses]
    outcome.verdict, reason = told[-1] if told else (Verdict.PASSED, "")
    outcome.reason, outcome.stage = _last_words(reason), COMPILED if outcome.failed else ""
    outcome.seconds = round(processor_seconds() - start, 1)
    return outcome


def _verdict(text: str) -> Verdict:
    """What a traceback says: values that differ, or something else that a test asks for."""
    return Verdict.WRONG if "Mismatched elements" in text or "are not close" in text else Verdict.ERROR


def _last_words(text: str) -> str:
    """The error at the end of a traceback, with the first lines of what it says."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [place for place, line in enumerate(lines) if _ERROR.match(line)]
    start = errors[-1] if errors else max(0, len(lines) - _LINES)
    return one_line(" ".join(lines[start : start + _LINES]))


def _tests(file: str) -> Iterator[Any]:
    waiting: list[Any] = [unittest.defaultTestLoader.loadTestsFromModule(_module(file))]
    for suite in waiting:  # grows as it is read
        for test in suite:
            if isinstance(test, unittest.TestSuite):
                waiting.append(test)
            elif not any(word in type(test).__name__ for word in _OTHERS) and not test._testMethodName.endswith("_cpu"):
                yield test


@functools.cache
def _module(file: str) -> Any:
    """The file as a module. Its own imports find the others as `inductor.NAME`."""
    _become_gpu()
    folder = _root()
    for place in (folder.parent, folder):
        if str(place) not in sys.path:
            sys.path.insert(0, str(place))
    if file != FILES[0]:
        _module(FILES[0])  # of which the others import
    supply_missing(folder / f"{file}.py")
    said, sys.stderr = sys.stderr, io.StringIO()  # a file that is not for this machine says so
    try:
        return _converted(folder / f"{file}.py") if file in CONVERTED else importlib.import_module(f"inductor.{file}")
    except (unittest.SkipTest, SystemExit) as reason:
        raise ImportError(f"{file} does not load: {reason} {sys.stderr.getvalue()}") from reason  # type: ignore[attr-defined]
    finally:
        sys.stderr = said


@functools.cache
def _names_default_device(file: str) -> bool:
    """Whether the file makes the GPU the default device, for itself or where it is run as a program."""
    return "set_default_device(GPU_TYPE)" in (_root() / f"{file}.py").read_text()


def _converted(path: Path) -> Any:
    """The file as a module in which devices named "cuda" are named "npu"; lines stay where they are."""
    module = types.ModuleType(f"inductor.{path.stem}")
    module.__file__, module.__package__, sys.modules[module.__name__] = str(path), "inductor", module
    source = re.sub(r'"cuda(:0)?"', r'"npu\1"', path.read_text())
    exec(compile(source, str(path), "exec"), module.__dict__)
    return module


def supply_missing(path: Path) -> None:
    """What the file imports of torch and this torch does not have, being older or newer, becomes a `_Gone`."""
    for statement in ast.parse(path.read_text()).body:
        if isinstance(statement, ast.ImportFrom) and (statement.module or "").partition(".")[0] == "torch":
            module = _module_or_empty(str(statement.module))
            for alias in statement.names:
                if not hasattr(module, alias.name) and not _is_module(f"{module.__name__}.{alias.name}"):
                    setattr(module, alias.name, _Gone(alias.name))


def _module_or_empty(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        module = sys.modules[name] = types.ModuleType(name)
        return module


def _is_module(name: str) -> bool:
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True


class _Gone:
    """Stands for a name of another version of torch: as a decorator it skips the test, else the test is skipped when it
    is called.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        reason = f"this torch has no {self.name}"
        if sys._getframe(1).f_code.co_name.startswith("test_"):
            raise unittest.SkipTest(reason)
        test = arguments[0] if arguments else None
        return unittest.skip(reason)(test) if callable(test) else self


@functools.cache
def _become_gpu() -> None:
    """What the files import to learn which GPU there is says `npu`."""
    no_cpu = OSError("tests of the CPU are not run")  # or it compiles and loads C++ to learn whether they could be
    with patch.object(importlib.import_module("torch._inductor.codecache").CppCodeCache, "load", side_effect=no_cpu):
        facts = importlib.import_module("torch.testing._internal.inductor_utils")
    facts.GPU_TYPE, facts.HAS_GPU, facts.HAS_GPU_AND_TRITON, facts.RUN_GPU = "npu", True, True, True
    facts.HAS_CPU = facts.RUN_CPU = False  # tests of the CPU are stock Inductor's
    # Classes are named after it as a file is loaded; torch names it when the first test runs.
    importlib.import_module("torch.testing._internal.common_device_type").PrivateUse1TestBase.device_type = "npu"
    facts.requires_gpu = functools.partial(unittest.skipIf, False, "requires gpu")
    importlib.import_module("torch.testing._internal.triton_utils").requires_cuda = lambda test: test


def _root() -> Path:
    """The folder test/inductor. Raises FileNotFoundError that says how to get it."""
    given = Path(os.environ.get(FOLDER_VARIABLE, FOLDER)).absolute()
    for folder in (given, given / "inductor", given / "test" / "inductor"):
        if (folder / "test_torchinductor.py").is_file():
            return folder
    raise FileNotFoundError(
        f"no tests of Inductor in {given}: unpack test/inductor of PyTorch's source there, such as of Debian's source "
        f"package (apt-get source pytorch), or name its folder by {FOLDER_VARIABLE}"
    )
