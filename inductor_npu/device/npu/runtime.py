"""When the C++ device is loaded and opened."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from types import ModuleType

import torch

from inductor_npu.device import build

_lock = threading.RLock()
_extension: ModuleType | None = None  # set once the device is open
_pending: list[Callable[[], object]] = []  # what was asked before that, in order


def extension() -> ModuleType:
    """The C++ device `_C`, loaded and open in this process.

    Raises NoCompilerError or DeviceBuildError if it must be built and cannot be, RuntimeError in a child forked after
    its parent used the device.
    """
    if torch.compiler.is_dynamo_compiling():
        _leave_graph()
    return _extension or _open()


def _leave_graph() -> None:
    torch._dynamo.graph_break(
        msg="this function of torch.npu asks or changes the device while the program runs, which no graph can hold: "
        "call it outside of what is compiled with fullgraph=True"
    )


def _open() -> ModuleType:
    global _extension
    with _lock:
        if _extension is None:
            loaded = build.load()
            loaded.init()
            _extension = loaded
            while _pending:
                _pending.pop(0)()
        return _extension


def _forget() -> None:
    global _extension, _lock
    _extension = None  # the next use asks the C++ device, which says whether this process may use it
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_forget)


def init() -> None:
    """Opens the device now. Not needed: the first use does it."""
    if not is_initialized():
        extension()


def _lazy_init() -> None:
    extension()


def _lazy_call(call: Callable[[], object]) -> None:
    """Runs `call` now if the device is open, else as soon as it is."""
    if torch.compiler.is_dynamo_compiling():
        _leave_graph()
    with _lock:
        if _extension is None:
            _pending.append(call)
            return
    call()


def is_initialized() -> bool:
    """Whether this process has opened the device."""
    return _extension is not None


def _is_in_bad_fork() -> bool:
    loaded = build.loaded()
    return loaded is not None and loaded._is_in_bad_fork()
