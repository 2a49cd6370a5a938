"""Steps that need `torch.npu`, which a provider's package may bring after the first use of torch, or never.

The embedded NPU is available with `import torch`. torch_npu is available once it is imported, and its import imports
Dynamo; a folder or a broken installation of that name never provides it. Until then torch works as if nobody had
registered.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
import warnings
from collections.abc import Callable

from inductor_npu.errors import NpuWarning
from inductor_npu.providers import PROVIDER_VARIABLE, current_provider
from inductor_npu.support.import_hooks import after_import

_waiting: list[Callable[[], None]] = []


def once_there(step: Callable[[], None]) -> None:
    """Runs `step` now if torch.npu is there, else right after the provider's package has brought it.

    Where that package is not even being imported, a warning says once that it is missing.
    """
    _waiting.append(step)
    if _is_there() or not _is_being_imported(current_provider().package):
        _serve()


@functools.cache
def expect() -> None:
    """Sees to it that who waits is served. To be called before anything else imports the provider's package."""
    package = current_provider().package
    if not _is_there() and package not in sys.modules:
        after_import(package, _serve)


def _serve() -> None:
    if not _is_there():
        _say_that_it_is_missing()
        return
    while _waiting:
        _waiting.pop(0)()


def _is_being_imported(package: str) -> bool:
    spec = getattr(sys.modules.get(package), "__spec__", None)
    return getattr(spec, "_initializing", False)  # Python's own mark


def _is_there() -> bool:
    import torch

    return hasattr(torch, "npu")


@functools.cache
def _say_that_it_is_missing() -> None:
    package = current_provider().package
    spec = importlib.util.find_spec(package)
    warnings.warn(
        f"torch.compile knows no device `npu`: {package} ({spec.origin if spec else 'gone'}) was found, but has not "
        f"brought torch.npu. `import {package}` before torch.compile brings it or says what is missing; "
        f"{PROVIDER_VARIABLE}=simulator takes the embedded NPU instead, {PROVIDER_VARIABLE}=none no npu",
        NpuWarning,
        stacklevel=3,
    )
