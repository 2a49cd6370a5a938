"""Names in Triton's language that kernels written for an NPU look for, where the embedded NPU is the device."""

from __future__ import annotations

import sys
from typing import Any

from ...support.import_hooks import after_import

MATH = "triton.language.math"
_WITH_LIBDEVICE = ("simulator", "cuda")


def install() -> None:
    """Lets `triton.language.math` have libdevice's functions that it lacks.

    They were all there before Triton 3, Ascend's Triton has `tanh` there, and packages take them from there on a device
    that is not CUDA's (Liger-Kernel on `npu`: `from triton.language.math import tanh`). Calling it again is
    harmless.
    """
    after_import(MATH, _complete_math)


def _complete_math() -> None:
    vars(sys.modules[MATH]).setdefault("__getattr__", _function_of_math)


def _function_of_math(name: str) -> Any:
    """Asked for a name that the module does not have: by then it is known, or can be, who provides the device."""
    if not name.startswith("_"):
        from ...triton_npu.driver import is_provided_by
        from . import libdevice

        # Whoever compiles puts the function of its own target in the place of this one.
        if name in libdevice.FUNCTIONS and any(is_provided_by(provider) for provider in _WITH_LIBDEVICE):
            return getattr(libdevice, name)
    raise AttributeError(f"module {MATH!r} has no attribute {name!r}")


__all__ = ["install"]
