"""Makes the embedded NPU Triton's target in this process, once Triton is imported."""

from __future__ import annotations

import sys

from ...errors import NpuError
from ...import_hooks import after_import

BACKEND = "npu"


def install() -> None:
    """To be called where the embedded NPU provides device `npu`. Imports nothing of Triton; calling it again is
    harmless.
    """
    after_import("triton.backends", _add_backend)
    after_import("triton.runtime.driver", _choose_driver)


def _add_backend() -> None:
    """For a Triton that reads no entry points: version 3.2 of Ascend, or any with TRITON_BACKENDS_IN_TREE=1."""
    discovered = sys.modules["triton.backends"]
    if BACKEND in discovered.backends:
        return
    from . import compiler, driver

    discovered.backends[BACKEND] = discovered.Backend(compiler=compiler.NpuBackend, driver=driver.NpuDriver)


def _choose_driver() -> None:
    """Where another device is there too, Triton would refuse to choose between their drivers."""
    from .driver import NpuDriver

    try:
        driver = NpuDriver()
    except NpuError:
        return  # an unknown target: Triton makes the driver itself at its first use, and the user sees the error there
    sys.modules["triton.runtime.driver"].driver.set_active(driver)


__all__ = ["install"]
