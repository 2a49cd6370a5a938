"""`triton.language.extra.libdevice` as Ascend implements it.

triton-ascend 3.2.0 has its functions in `triton.language.extra.ascend.libdevice` and does not say so to Triton (the
backend's `get_module_map` is empty), so that kernels written against the general module, as Inductor's are, would call
functions that do nothing.
"""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any, NoReturn

from triton.language import core
from triton.language.extra.ascend import libdevice

LIBDEVICE = "triton.language.extra.libdevice"
# Defined there with a body that only fails: `static_print("... is unsupported")` and an assertion.
_DEFINED_ONLY = ("atan2", "div_rz", "fmod")


@functools.cache
def ascend_libdevice() -> ModuleType:
    """A module for Triton's module map: Ascend's functions; any other name is refused by name."""
    module = ModuleType(LIBDEVICE)
    functions = {name: value for name, value in vars(libdevice).items() if core.is_builtin(value)}
    vars(module).update(functions)
    for name in _DEFINED_ONLY:
        vars(module)[name] = _refusal(name)
    vars(module)["__getattr__"] = _refuse
    return module


def _refusal(name: str) -> Any:
    @core.builtin
    def unsupported(*_: Any, **__: Any) -> NoReturn:
        _refuse(name)

    return unsupported


def _refuse(name: str) -> NoReturn:
    if name.startswith("__"):  # Python's own questions to a module
        raise AttributeError(name)
    raise NotImplementedError(f"Ascend's libdevice has no function {name!r}")
