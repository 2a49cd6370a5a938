"""Where the cache is, and how large it may be."""

from __future__ import annotations

import functools
import os
from pathlib import Path

from inductor_npu.cache.store import Store
from inductor_npu.errors import CacheSettingError
from inductor_npu.user_cache import cache_directory

LIMIT_VARIABLE = "INDUCTOR_NPU_CACHE_MIB"
DEFAULT_MIB = 1024
_FOLDER = "entries"


def kernel_store() -> Store:
    """Compiled kernels: in `$INDUCTOR_NPU_CACHE_DIR`, else beside Inductor's own caches where `TORCHINDUCTOR_CACHE_DIR`
    says where those are, else in the user's cache directory.
    """
    directory = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    if directory and not os.environ.get("INDUCTOR_NPU_CACHE_DIR"):
        return _store(Path(directory) / "inductor_npu" / _FOLDER, limit_bytes())
    return user_store()


def user_store() -> Store:
    """What does not depend on Inductor: verdicts of Ascend's compiler. In the user's cache directory."""
    return _store(cache_directory() / _FOLDER, limit_bytes())


def stores() -> list[Store]:
    """The different ones of both."""
    return list(dict.fromkeys((kernel_store(), user_store())))


def limit_bytes() -> int:
    """`INDUCTOR_NPU_CACHE_MIB` (default 1024) in bytes. Raises CacheSettingError if it is no positive number."""
    text = os.environ.get(LIMIT_VARIABLE, "").strip() or str(DEFAULT_MIB)
    try:
        limit = int(text)
    except ValueError:
        limit = 0
    if limit <= 0:
        raise CacheSettingError(variable=LIMIT_VARIABLE, value=text, expected="a number of MiB, at least 1")
    return limit * 2**20


@functools.cache
def _store(folder: Path, limit: int) -> Store:
    return Store(folder, limit)
