"""Python's numbers among a kernel's arguments, such as `tensor.item()`: float32 where float64 is of no use.

Inductor passes them as fp64 wherever a device is not known to lack it, and asks nobody about `npu`. Ascend's compiler
refuses a kernel in which one occurs.
"""

from __future__ import annotations

import contextlib

from torch._inductor import config as inductor_config

from inductor_npu import providers

# Not in all versions of torch: those without it pass fp32.
_SWITCH = "_use_fp64_for_unbacked_floats"


def of_user_kernel() -> contextlib.AbstractContextManager[None]:
    """While the signature of a kernel that a user wrote is made: fp32, which is what Triton's own launch passes."""
    return _as_float32()


def of_generated_kernel() -> contextlib.AbstractContextManager[None]:
    """While the signature of a generated kernel is made: fp32 where the device has no float64."""
    return contextlib.nullcontext() if providers.current_provider().float64 else _as_float32()


def _as_float32() -> contextlib.AbstractContextManager[None]:
    return inductor_config.patch(_SWITCH, False) if hasattr(inductor_config, _SWITCH) else contextlib.nullcontext()
