"""Warns users who select one of torch_npu's own Inductor backends, by an option or a variable."""

from __future__ import annotations

import functools
import os
import warnings

from inductor_npu.errors import NpuWarning
from inductor_npu.providers import NO_PROVIDER, PROVIDER_VARIABLE

_VARIABLE = "TORCHINDUCTOR_NPU_BACKEND"


def module_lines() -> tuple[str, ...]:
    """What a generated module does where `options={"npu_backend": ...}` asks for a backend of torch_npu's in this
    compile: it warns when it is loaded. Nothing where none is asked for.
    """
    from torch._inductor import config

    name = getattr(config, "npu_backend", "")
    if name in ("", "default"):
        return ()
    warn = warn_that_it_is_not_used.__name__
    return f"from {__name__} import {warn}", f"{warn}({name!r})"


def answer_the_variable() -> None:
    """Warns of a backend that the variable asks for, which is no part of what Inductor's caches know of a graph."""
    if (name := os.environ.get(_VARIABLE, "")) not in ("", "default"):
        warn_that_it_is_not_used(name)


@functools.cache
def warn_that_it_is_not_used(name: str) -> None:
    """Gives the warning once in a process. Generated modules call it when they load."""
    warnings.warn(
        f"torch_npu's backend {name!r} (npu_backend, {_VARIABLE}) is not used: inductor-npu generates the code for "
        f"npu. {PROVIDER_VARIABLE}={NO_PROVIDER} leaves torch.compile to torch_npu",
        NpuWarning,
        stacklevel=2,
    )
