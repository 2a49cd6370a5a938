"""`after_import`: a function of ours runs right after somebody else's module was first imported."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest

from inductor_npu.support.import_hooks import after_import

WriteModule = Callable[[str, str], str]


@pytest.fixture
def write_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WriteModule]:
    """Writes an importable module and gives its name back; all of them are forgotten after the test."""
    monkeypatch.syspath_prepend(str(tmp_path))
    written: list[str] = []

    def write(name: str, source: str) -> str:
        path = tmp_path / (name.replace(".", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        for folder in list(path.parents)[: name.count(".")]:
            (folder / "__init__.py").touch()
        path.write_text(source)
        importlib.invalidate_caches()
        written.append(name)
        return name

    yield write
    for name in list(sys.modules):
        if name.split(".")[0] in {module.split(".")[0] for module in written}:
            del sys.modules[name]


def test_runs_once_after_the_modules_code(write_module: WriteModule) -> None:
    name = write_module("hooked_plain", "value = 1\n")
    seen: list[int] = []
    after_import(name, lambda: seen.append(sys.modules[name].value))
    assert seen == []

    importlib.import_module(name)
    importlib.import_module(name)

    assert seen == [1]


def test_runs_at_once_if_the_module_is_there_already(write_module: WriteModule) -> None:
    name = write_module("hooked_late", "value = 1\n")
    importlib.import_module(name)
    seen: list[str] = []

    after_import(name, lambda: seen.append("called"))

    assert seen == ["called"]


def test_several_callbacks_run_in_the_order_they_came(write_module: WriteModule) -> None:
    name = write_module("hooked_twice", "")
    order: list[str] = []
    after_import(name, lambda: order.append("first"))
    after_import(name, lambda: order.append("second"))

    importlib.import_module(name)

    assert order == ["first", "second"]


def test_a_submodule_imported_by_its_package(write_module: WriteModule) -> None:
    write_module("hooked_package.inner", "value = 2\n")
    name = write_module("hooked_package.outer", "from hooked_package.inner import value\n")
    seen: list[int] = []
    after_import("hooked_package.inner", lambda: seen.append(sys.modules["hooked_package.inner"].value))

    assert importlib.import_module(name).value == 2
    assert seen == [2]


def test_a_callback_may_import_what_waits_for_another_one(write_module: WriteModule) -> None:
    first, second = write_module("hooked_a", ""), write_module("hooked_b", "")
    order: list[str] = []
    after_import(second, lambda: order.append(second))
    after_import(first, lambda: (importlib.import_module(second), order.append(first)))

    importlib.import_module(first)

    assert order == [second, first]


def test_a_module_that_fails_to_import_is_called_back_when_it_succeeds(write_module: WriteModule) -> None:
    name = write_module("hooked_broken", "raise ValueError('not yet')\n")
    seen: list[str] = []
    after_import(name, lambda: seen.append("called"))
    with pytest.raises(ValueError, match="not yet"):
        importlib.import_module(name)
    assert seen == []

    write_module("hooked_broken", "value = 'a longer source, so that no stale bytecode matches it'\n")
    importlib.import_module(name)

    assert seen == ["called"]


def test_an_exception_in_the_callback_reaches_the_import(write_module: WriteModule) -> None:
    name = write_module("hooked_raises", "")

    def fail() -> None:
        raise RuntimeError("from the callback")

    after_import(name, fail)
    with pytest.raises(RuntimeError, match="from the callback"):
        importlib.import_module(name)


def test_the_module_looks_as_if_nobody_had_watched(write_module: WriteModule) -> None:
    source = "class Thing:\n    pass\n"
    name = write_module("hooked_looks", source)
    after_import(name, lambda: None)

    module = importlib.import_module(name)

    assert inspect.getsource(module.Thing) == source
    assert type(module.__loader__) is SourceFileLoader
    assert "exec_module" not in vars(module.__loader__)
    assert isinstance(pickle.loads(pickle.dumps(module.Thing())), module.Thing)


def test_looking_for_a_module_is_not_importing_it(write_module: WriteModule) -> None:
    name = write_module("hooked_found", "")
    seen: list[str] = []
    after_import(name, lambda: seen.append("called"))

    assert importlib.util.find_spec(name) is not None
    assert seen == []
    importlib.import_module(name)
    assert seen == ["called"]


def test_a_module_that_does_not_exist_fails_as_always() -> None:
    after_import("hooked_missing", lambda: None)
    with pytest.raises(ModuleNotFoundError, match="hooked_missing"):
        importlib.import_module("hooked_missing")


def test_threads_that_import_at_the_same_time(write_module: WriteModule) -> None:
    name = write_module("hooked_threads", "import time\ntime.sleep(0.05)\nready = True\n")
    calls: list[bool] = []
    after_import(name, lambda: calls.append(sys.modules[name].ready))
    threads = [threading.Thread(target=importlib.import_module, args=(name,)) for _ in range(8)]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert calls == [True]
