"""What decides which code is generated, beside the graph: sources, Triton, target, as one string for cache keys."""

from __future__ import annotations

import hashlib
from pathlib import Path

from inductor_npu import compat, providers

# The folders whose sources decide what code is generated.
_GENERATING = ("codegen", "device_interface", "target", "tiling")


def toolchain_identity() -> str:
    """Hash of our sources, Triton's version, the target's facts: another of any of them must not find these graphs."""
    package = Path(__file__).parent
    digest = hashlib.sha256()
    for folder in _GENERATING:
        for path in sorted((package / folder).rglob("*.py")):
            digest.update(path.read_bytes())
    return f"{digest.hexdigest()[:16]} triton {compat.installed_triton_version()} {providers.current_target()}"
