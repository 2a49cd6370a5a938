"""The device `npu` of the embedded NPU: the C++ runtime (csrc), its build, and the Python module `torch.npu` (npu)."""

from __future__ import annotations

from typing import Any

# Before any module of this package: `import torch` installs torch.npu, which must not meet one of them half imported.
import torch  # noqa: F401


def __getattr__(name: str) -> Any:
    # Generated code imports these by name, and wants the C functions themselves.
    if name in ("empty_strided", "fill_as_fresh", "get_raw_stream"):
        from inductor_npu.device import build

        return getattr(build.load(), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
