"""Runs a function of ours right after the first import of a foreign module.

`import torch` has to stay cheap, so nothing of ours may import Inductor, Dynamo or Triton: their registrations wait
until the user's program imports them. Python has no public event for that; a finder at the front of `sys.meta_path` is
the supported way to see the start of an import.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

Callback = Callable[[], None]
Execute = Callable[[ModuleType], None]
Rescue = Callable[[ModuleType, Exception], bool]


class _AfterImportFinder(MetaPathFinder):
    """Finds watched modules as the other finders do, and lets their loader call us back once the module's code has run.

    The module's own loader object stays in place (inspect, pickle and linecache see nothing unusual): only its
    `exec_module` is shadowed by an instance attribute, which is removed again before it runs.
    """

    def __init__(self) -> None:
        self._callbacks: dict[str, list[Callback]] = {}
        self._instead: dict[str, Execute] = {}
        self._rescues: dict[str, Rescue] = {}
        self._lock = threading.Lock()
        self._searching = threading.local()

    def watch(self, name: str, callback: Callback) -> None:
        with self._lock:
            self._callbacks.setdefault(name, []).append(callback)

    def replace(self, name: str, execute: Execute) -> None:
        with self._lock:
            self._instead[name] = execute

    def rescue(self, name: str, rescue: Rescue) -> None:
        with self._lock:
            self._rescues[name] = rescue

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        watched = any(fullname in names for names in (self._callbacks, self._instead, self._rescues))
        if not watched or getattr(self._searching, "active", False):
            return None
        # The search below walks sys.meta_path again, this finder included.
        self._searching.active = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._searching.active = False
        if spec is None or spec.loader is None:
            return None
        self._shadow_exec_module(spec)
        return spec

    def _shadow_exec_module(self, spec: ModuleSpec) -> None:
        loader = spec.loader
        assert loader is not None, "find_spec only passes on specs that have a loader"
        run_module = self._instead.get(spec.name, loader.exec_module)

        def exec_module_then_call_back(module: ModuleType) -> None:
            del loader.exec_module  # the instance attribute; the class's method shows again
            try:
                run_module(module)
            except Exception as error:
                rescue = self._rescues.get(spec.name)
                if rescue is None or not rescue(module, error):
                    raise
                return
            with self._lock:
                callbacks = self._callbacks.pop(spec.name, [])
            for callback in callbacks:
                callback()

        loader.exec_module = exec_module_then_call_back  # type: ignore[method-assign]


_finder = _AfterImportFinder()


def instead_of_running(name: str, execute: Execute) -> None:
    """Has `execute` called with the module called `name`, where its own code would run, when it is imported. Of a
    package the modules inside can be imported as before. Nothing happens where it was imported already.
    """
    _stand_in_front()
    _finder.replace(name, execute)


def if_it_fails(name: str, rescue: Rescue) -> None:
    """Has `rescue` called with the module called `name` and what its code raised, as it is imported: True if the import
    is to succeed all the same.
    """
    _stand_in_front()
    _finder.rescue(name, rescue)


def _stand_in_front() -> None:
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def after_import(name: str, callback: Callback) -> None:
    """Calls `callback` once, in the importing thread, right after the module called `name` has first been imported; at
    once if it already was.

    An exception that `callback` raises reaches the statement that imported the module, which fails as if the module
    itself had raised: a callback that must not do so catches its own. While `callback` runs, other threads that import
    `name` wait, as they do for the module's code.
    """
    if name in sys.modules:
        importlib.import_module(name)  # returns at once, or waits for another thread that is still importing it
        callback()
        return
    _stand_in_front()
    _finder.watch(name, callback)
