"""What decides which code is generated, beside the graph: sources, Triton, target, as one string for cache keys."""

from __future__ import annotations

import hashlib
from pathlib import Path

from inductor_npu import compat, providers

# The folders whose sources decide what code is generated.
_GENERATING = ("codegen", "device_interface", "target", "tiling")


def device_functions_identity() -> str:
    """Hash of the functions that generated kernels call: a kernel's text is the same when they change."""
    return _hash_of(("codegen/device_functions",))


def _hash_of(folders: tuple[str, ...]) -> str:
    package = Path(__file__).parent
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted((package / folder).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def toolchain_identity() -> str:
    """Hash of our sources, Triton's version, the target's facts: another of any of them must not find these graphs."""
    return f"{_hash_of(_GENERATING)} triton {compat.installed_triton_version()} {providers.current_target()}"
