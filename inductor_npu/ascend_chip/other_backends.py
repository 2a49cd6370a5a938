"""torch_npu has backends of its own for Inductor, named by an option or a variable: what asks for one gets a warning."""

from __future__ import annotations

import functools
import os
import warnings

from inductor_npu.errors import NpuWarning
from inductor_npu.providers import ASCEND, NO_PROVIDER, PROVIDER_VARIABLE, current_provider

_VARIABLE = "TORCHINDUCTOR_NPU_BACKEND"


def other_backend() -> str:
    """The backend of torch_npu's that `options={"npu_backend": ...}` or the variable asks for; "" for none."""
    from torch._inductor import config

    if current_provider() is not ASCEND:
        return ""
    wanted = (getattr(config, "npu_backend", ""), os.environ.get(_VARIABLE, ""))
    return next((name for name in wanted if name not in ("", "default")), "")


@functools.cache
def warn_that_it_is_not_used(name: str) -> None:
    """Gives the warning once in a process. Generated modules call it when they load."""
    warnings.warn(
        f"torch_npu's backend {name!r} (npu_backend, {_VARIABLE}) is not used: inductor-npu generates the code for npu. "
        f"{PROVIDER_VARIABLE}={NO_PROVIDER} leaves torch.compile to torch_npu",
        NpuWarning,
        stacklevel=2,
    )
