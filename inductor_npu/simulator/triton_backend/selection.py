"""Makes the embedded NPU Triton's target in this process, once Triton is imported."""

from __future__ import annotations

import sys

from ...errors import NpuError
from ...support.import_hooks import after_import

BACKEND = "npu"


def install() -> None:
    """To be called where the embedded NPU provides device `npu`. Imports nothing of Triton; calling it again is
    harmless.
    """
    # It imports triton.backends, which may be half imported now: looking for backends, Triton imports this package, and
    # that imports torch.
    after_import("triton.runtime.driver", _choose)


def _choose() -> None:
    _choose_backend()
    _choose_driver()


def _choose_backend() -> None:
    """Ours compiles for target `npu`: it is added for a Triton that reads no entry points (version 3.2 of Ascend, or
    any with TRITON_BACKENDS_IN_TREE=1), and those that claim the same target, as Ascend's does, are taken out: Triton
    would refuse to choose. Their classes can still be imported and used by whoever wants them.
    """
    discovered = sys.modules["triton.backends"]
    if BACKEND not in discovered.backends:
        from . import compiler, driver

        discovered.backends[BACKEND] = discovered.Backend(compiler=compiler.NpuBackend, driver=driver.NpuDriver)
    target = sys.modules["triton.backends.compiler"].GPUTarget(BACKEND, "", 0)
    for name, backend in list(discovered.backends.items()):
        if name != BACKEND and backend.compiler.supports_target(target):
            del discovered.backends[name]


def _choose_driver() -> None:
    """Where another device is there too, Triton would refuse to choose between their drivers."""
    from .driver import NpuDriver

    try:
        driver = NpuDriver()
    except NpuError:
        return  # an unknown target: Triton makes the driver itself at its first use, and the user sees the error there
    sys.modules["triton.runtime.driver"].driver.set_active(driver)


__all__ = ["install"]
