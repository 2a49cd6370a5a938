"""The key of a compiled kernel: its source, and all that turns the source into machine code.

The source is a module of Inductor's code generation: it contains the kernel's text, types, sizes, blocks, the device's
properties, and the text of other kernels that it calls.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from inductor_npu import config, identity, providers
from inductor_npu.cache.entry import Key

KIND = "kernel"
# Which of several equal devices a kernel is for, in its metadata.
_DEVICE_INDEX = re.compile(r"(?<=DeviceProperties\(type='npu', index=)\d+")
# What the kernel is called in profiles and messages, in its metadata.
_SHOWN_NAME = re.compile(r"(inductor_meta=\{[^\n]*?'kernel_name': ')(\w+)(?=')")


def key_of(name: str, source: str) -> Key:
    """The key of the kernel called `name` in the generated module `source`: the same for each device of a kind, so that
    ranks which have one each share their kernels, and under each name, so that a kernel that is the fifth of one graph
    and the seventh of another is compiled once.
    """
    of_any_device = _DEVICE_INDEX.sub("any", _nameless(name, source))
    return Key(KIND, {"source": hashlib.sha256(of_any_device.encode()).hexdigest(), **environment()})


def _nameless(name: str, source: str) -> str:
    """`source` without the name of its kernel where that is defined and shown. Elsewhere it stays: there it means
    something.
    """
    return _SHOWN_NAME.sub(r"\1", source, count=1).replace(f"\ndef {name}(", "\ndef (", 1)


def shown_name(source: str) -> str | None:
    """What profiles and messages call the kernel in the generated module `source`; None if it does not say."""
    found = _SHOWN_NAME.search(source)
    return None if found is None else found[2]


def device_index(source: str) -> int | None:
    """Which device the kernel in the generated module `source` is for; None if it does not say."""
    found = _DEVICE_INDEX.search(source)
    return None if found is None else int(found[0])


def environment() -> dict[str, str]:
    """What decides a compiled kernel beside its source, by name."""
    return {**_versions(str(_triton_target())), **_settings()}


@functools.cache
def _versions(target: str) -> Mapping[str, str]:
    """What stays the same in a process, for Triton's `target`."""
    from torch._inductor.runtime.triton_compat import triton_key
    from triton.compiler.compiler import make_backend

    return {
        "target": target,
        # Sources, LLVM, the host's processor, the chip's facts; of Ascend's compiler, what it says of itself.
        "compiler": hashlib.sha256(make_backend(_triton_target()).hash().encode()).hexdigest()[:16],
        "triton": hashlib.sha256(str(triton_key()).encode()).hexdigest()[:16],
        "torch": f"{torch.__version__} {torch.version.git_version} {_torch_runtime()}",
        "device functions": identity.device_functions_identity(),
        "launching": identity.launching_identity(),
        "ascend": identity.generation_fields()["ascend"],
        "python": ".".join(platform.python_version_tuple()[:2]),  # an entry is a pickle
    }


def generated_with() -> dict[str, str]:
    """What decided the source: no part of the key, which has the source itself, but of the answer why there is none."""
    knobs = config.save_config_portable()
    del knobs["toolchain"]  # the fields, as one text
    return {**identity.generation_fields(), **{f"config.{name}": repr(value) for name, value in knobs.items()}}


def _torch_runtime() -> str:
    """Hash of the part of Inductor that generated kernels import."""
    root = Path(torch.__file__).parent / "_inductor" / "runtime"
    return identity.hash_files(root, sorted(root.glob("*.py")))


def _settings() -> dict[str, str]:
    """What compilers look at in this process's environment: Triton's, and the provider's."""
    from triton._C.libtriton import get_cache_invalidating_env_vars

    return {
        **get_cache_invalidating_env_vars(),
        "TRITON_DEFAULT_FP_FUSION": os.environ.get("TRITON_DEFAULT_FP_FUSION", "1"),
        **providers.compile_modes(),
    }


def _triton_target() -> Any:
    from triton.runtime.driver import driver

    return driver.active.get_current_target()
