"""Makes a provider's backend and driver Triton's only ones for target `npu`, once Triton is imported."""

from __future__ import annotations

import functools
import pkgutil
import sys

from ..errors import NpuError
from ..support.import_hooks import after_import

BACKEND = "npu"


def install(compiler: str, driver: str) -> None:
    """To be called where the provider of these classes ("module:class") provides device `npu`. Imports nothing of
    Triton; calling it again is harmless.
    """
    # It imports triton.backends, which may be half imported now: looking for backends, Triton imports the package that
    # our entry point names, and that imports torch.
    after_import("triton.runtime.driver", functools.partial(_choose, compiler, driver))


def _choose(compiler: str, driver: str) -> None:
    _choose_backend(compiler, driver)
    _choose_driver(driver)


def _choose_backend(compiler: str, driver: str) -> None:
    """The provider's compiles for target `npu`: it is added for a Triton that reads no entry points (version 3.2 of
    Ascend, or any with TRITON_BACKENDS_IN_TREE=1), takes the place of another provider's, which the entry point names,
    and those that claim the same target, as Ascend's does, are taken out: Triton would refuse to choose. Their classes
    can still be imported and used by whoever wants them. It goes first: Inductor makes the first active driver in the
    table the process's before it compiles, and where torch can use a GPU, that for NVIDIA is active, too.
    """
    discovered = sys.modules["triton.backends"]
    target = sys.modules["triton.backends.compiler"].GPUTarget(BACKEND, "", 0)
    ours = discovered.Backend(compiler=pkgutil.resolve_name(compiler), driver=pkgutil.resolve_name(driver))
    others = {name: each for name, each in discovered.backends.items() if not each.compiler.supports_target(target)}
    discovered.backends.clear()
    discovered.backends.update({BACKEND: ours, **others})


def _choose_driver(driver: str) -> None:
    """Where another device is there too, Triton would refuse to choose between their drivers."""
    try:
        made = pkgutil.resolve_name(driver)()
    except NpuError:
        return  # an unknown target: Triton makes the driver itself at its first use, and the user sees the error there
    sys.modules["triton.runtime.driver"].driver.set_active(made)


__all__ = ["install"]
