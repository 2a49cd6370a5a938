"""The kernels of a package for an Ascend NPU: code as Ascend's compiler made it, and what a launch needs to know.

A provider's module of this kind has `packaged`, `members` and `machine` (simulator/packaged_kernels.py says more).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from inductor_npu.ascend_chip.launcher import LaunchFacts, facts_of
from inductor_npu.errors import UnpackableError


@dataclass(frozen=True)
class PackagedKernel:
    """mode: "aiv" for kernels of the vector cores. binary: as Ascend's compiler wrote it."""

    name: str
    mode: str
    facts: LaunchFacts
    binary: bytes


def packaged(name: str, result: Any) -> tuple[list[str], PackagedKernel]:
    """The names of a kernel's arguments at run time, in order, and the kernel. `result`: its TritonCompileResult.

    Raises UnpackableError for a kernel that needs a launcher of Ascend's Triton.
    """
    kernel = result.kernel
    facts = facts_of(kernel.src, kernel.metadata)
    if facts is None:
        reason = f"kernel {name} needs the launcher of Ascend's Triton (locks between blocks, prints, SIMT, tuples)"
        raise UnpackableError(reason=reason, where="")
    names = [argument for argument, skipped in zip(_arguments(kernel.src), facts.skipped, strict=True) if not skipped]
    return names, PackagedKernel(name, kernel.metadata.mix_mode, facts, kernel.asm["npubin"])


def members(kernels: Sequence[PackagedKernel]) -> tuple[list[dict[str, Any]], dict[str, bytes]]:
    """What the manifest says of the kernels; the files that they are in."""
    described, files = [], {}
    for kernel in kernels:
        binary = f"kernels/{hashlib.sha256(kernel.binary).hexdigest()[:16]}.npubin"
        files[binary] = kernel.binary
        facts = asdict(kernel.facts)
        kinds = facts.pop("kinds")
        arguments = "".join(kind for kind, skipped in zip(kinds, facts.pop("skipped")) if not skipped)
        described.append({"name": kernel.name, "binary": binary, "mode": kernel.mode, "arguments": arguments, **facts})
    return described, files


def machine() -> dict[str, object]:
    """What kernels need beside the target: nothing."""
    return {}


def _arguments(source: Any) -> list[str]:
    return [source.fn.arg_names[key] if isinstance(key, int) else key for key in source.signature]
