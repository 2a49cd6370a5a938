"""How the caching allocator behaves: PYTORCH_NPU_ALLOC_CONF, or PYTORCH_ALLOC_CONF for all of torch's accelerators.

INDUCTOR_NPU_FILL_MEMORY=1 fills what is allocated (docs/memory.md).

The options are torch's (c10/core/AllocatorConfig.h), which keeps their values; the allocator reads them there. They are
read once, when the device is loaded. `torch._C._accelerator_setAllocatorSettings` changes them later, as for CUDA.
"""

from __future__ import annotations

import os
import re
import warnings

import torch

from inductor_npu.errors import DeviceSettingError, NpuWarning
from inductor_npu.support import switches

_OF_NPU = "PYTORCH_NPU_ALLOC_CONF"  # torch_npu's name
_OF_ALL = "PYTORCH_ALLOC_CONF"

_FILL = "INDUCTOR_NPU_FILL_MEMORY"

_NUMBER = r"\d+"
_SWITCH = r"True|False"
_OPTIONS = {
    "max_split_size_mb": _NUMBER,
    "max_non_split_rounding_mb": _NUMBER,
    "large_segment_size_mb": _NUMBER,
    "garbage_collection_threshold": r"0?\.\d+",
    "roundup_power2_divisions": rf"{_NUMBER}|\[({_NUMBER}|>):{_NUMBER}(,({_NUMBER}|>):{_NUMBER})*\]",
    "expandable_segments": _SWITCH,
    "pinned_use_background_threads": _SWITCH,
}
if torch.__version__ >= (2, 13):
    _OPTIONS |= {"pinned_max_round_threshold_mb": _NUMBER, "pinned_max_cached_size_mb": _NUMBER}

_FORMS = {
    _NUMBER: "a whole number",
    _SWITCH: "True or False",
    _OPTIONS["garbage_collection_threshold"]: "a number between 0 and 1, such as 0.8",
    _OPTIONS["roundup_power2_divisions"]: "a power of two, or a list such as [256:1,512:2,>:4]",
}


def apply() -> None:
    """Tells torch's settings of allocators what the environment says for device npu.

    Warns of `expandable_segments:True`, which has no effect. Raises DeviceSettingError, which names the variable, the
    option and what it may be.
    """
    variable, text = _from_environment()
    if not text:
        return
    options = parse(variable, text)
    if options.get("expandable_segments") == "True":
        warnings.warn(
            f"{variable}: expandable_segments has no effect on device npu: the "
            "embedded NPU's segments do not grow; max_split_size_mb limits what is lost to fragments",
            NpuWarning,
            stacklevel=2,
        )
    try:
        torch._C._accelerator_setAllocatorSettings(text)
    except (ValueError, RuntimeError) as error:
        reason = str(error).partition("\n")[0]
        raise DeviceSettingError(variable=variable, value=text, expected=f"what torch accepts ({reason})") from error


def fills_allocations() -> bool:
    """Whether the environment asks for memory that is filled when it is allocated."""
    return switches.is_on(_FILL)


def parse(variable: str, text: str) -> dict[str, str]:
    """The options in `text`, "name:value,name:value", each of the right form.

    Raises DeviceSettingError, which names `variable`.
    """
    options = {}
    for item in re.split(r",(?![^\[]*\])", re.sub(r"\s", "", text)):
        name, _, value = item.partition(":")
        if name not in _OPTIONS:
            known = ", ".join(_OPTIONS)
            raise DeviceSettingError(
                variable=variable,
                value=text,
                expected=f"a list such as max_split_size_mb:128,garbage_collection_threshold:0.8, and {name!r} is no "
                f"option of the embedded NPU's allocator, which has {known}",
            )
        if not re.fullmatch(_OPTIONS[name], value):
            form = _FORMS[_OPTIONS[name]]
            raise DeviceSettingError(
                variable=variable, value=text, expected=f"a list of name:value, with {form} for {name}, not {value!r}"
            )
        options[name] = value
    return options


def _from_environment() -> tuple[str, str]:
    of_npu, of_all = os.environ.get(_OF_NPU, ""), os.environ.get(_OF_ALL, "")
    if of_npu and of_all:
        raise DeviceSettingError(variable=_OF_NPU, value=of_npu, expected=f"left out where {_OF_ALL} is set, or alone")
    return (_OF_NPU, of_npu) if of_npu else (_OF_ALL, of_all)
