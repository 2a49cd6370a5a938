"""Python numbers among a kernel's arguments, such as `tensor.item()`: float32 where the device has no float64.

Inductor passes them as fp64 unless it knows that a device lacks it, and does not ask `npu`. Ascend's compiler refuses a
kernel that contains fp64.
"""

from __future__ import annotations

import contextlib

from torch._inductor import config as inductor_config

from inductor_npu import providers

# Not all versions of torch have it; those without it pass fp32.
_SWITCH = "_use_fp64_for_unbacked_floats"


def of_user_kernel() -> contextlib.AbstractContextManager[None]:
    """Context in which the signature of a user's kernel is made: fp32, which is what Triton's own launch passes."""
    return _as_float32()


def of_generated_kernel() -> contextlib.AbstractContextManager[None]:
    """Context in which the signature of a generated kernel is made: fp32 where the device has no float64."""
    return contextlib.nullcontext() if providers.current_provider().float64 else _as_float32()


def _as_float32() -> contextlib.AbstractContextManager[None]:
    return inductor_config.patch(_SWITCH, False) if hasattr(inductor_config, _SWITCH) else contextlib.nullcontext()
