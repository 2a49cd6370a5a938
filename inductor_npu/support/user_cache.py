"""The folder for this user's files that can be rebuilt."""

from __future__ import annotations

import os
from pathlib import Path


def cache_directory() -> Path:
    """`$INDUCTOR_NPU_CACHE_DIR`, else `$XDG_CACHE_HOME/inductor_npu`, else `~/.cache/inductor_npu`. It need not be
    there.
    """
    if directory := os.environ.get("INDUCTOR_NPU_CACHE_DIR"):
        return Path(directory)
    if directory := os.environ.get("XDG_CACHE_HOME"):
        return Path(directory) / "inductor_npu"
    return Path.home() / ".cache" / "inductor_npu"
