"""The driver of Ascend's Triton with this package's launchers, in Triton's table of backends."""

from __future__ import annotations

import dataclasses
import functools
import sys
from typing import Any

BACKEND = "ascend"


def choose() -> None:
    """To be called once `triton.runtime.driver` is imported, before Triton makes its driver. Where Ascend's Triton is
    not installed nothing happens: who compiles for npu says so.
    """
    found = sys.modules["triton.backends"].backends
    if BACKEND in found:
        found[BACKEND] = dataclasses.replace(found[BACKEND], driver=_with_our_launchers(found[BACKEND].driver))


def _with_our_launchers(stock: type) -> type:
    """A driver whose kernels are launched by `launcher.launcher_of`."""

    class AscendDriver(stock):
        launcher_cls: Any

        def __init__(self) -> None:
            super().__init__()
            from inductor_npu.ascend_chip.launcher import launcher_of

            self.launcher_cls = functools.partial(launcher_of, self.launcher_cls)

    return AscendDriver
