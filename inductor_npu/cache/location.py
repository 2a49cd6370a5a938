"""Where the cache is, and how large it may be."""

from __future__ import annotations

import functools
import os
from pathlib import Path

from inductor_npu.cache.store import DEFAULT_LIMIT, Store
from inductor_npu.errors import CacheSettingError
from inductor_npu.support.user_cache import cache_directory

LIMIT_VARIABLE = "INDUCTOR_NPU_CACHE_MIB"
_FOLDER = "entries"
_INDUCTOR_VARIABLE = "TORCHINDUCTOR_CACHE_DIR"


def kernel_store() -> Store:
    """Compiled kernels: in `$INDUCTOR_NPU_CACHE_DIR`, else beside Inductor's own caches where `TORCHINDUCTOR_CACHE_DIR`
    says where those are, else in the user's cache directory.
    """
    directory = os.environ.get(_INDUCTOR_VARIABLE)
    if directory and not os.environ.get("INDUCTOR_NPU_CACHE_DIR") and not _is_inductors_default(directory):
        return _store(Path(directory) / "inductor_npu" / _FOLDER, limit_bytes())
    return user_store()


def user_store() -> Store:
    """What does not depend on Inductor: verdicts of Ascend's compiler. In the user's cache directory."""
    return _store(cache_directory() / _FOLDER, limit_bytes())


def graph_store() -> Store:
    """What is known of graphs in Inductor's own caches: always beside those, to go when they go."""
    from torch._inductor.runtime.cache_dir_utils import default_cache_dir

    directory = os.environ.get(_INDUCTOR_VARIABLE) or default_cache_dir()
    return _store(Path(directory) / "inductor_npu" / _FOLDER, limit_bytes())


def stores() -> list[Store]:
    """The different ones of them all."""
    return list(dict.fromkeys((kernel_store(), user_store(), graph_store())))


def limit_bytes() -> int:
    """`INDUCTOR_NPU_CACHE_MIB` (default 1024) in bytes. Raises CacheSettingError if it is no positive number."""
    text = os.environ.get(LIMIT_VARIABLE, "").strip() or str(DEFAULT_LIMIT // 2**20)
    try:
        limit = int(text)
    except ValueError:
        limit = 0
    if limit <= 0:
        raise CacheSettingError(variable=LIMIT_VARIABLE, value=text, expected="a number of MiB, at least 1")
    return limit * 2**20


def _is_inductors_default(directory: str) -> bool:
    """Whether `directory` is where Inductor's caches are if nobody says where. Inductor itself sets the variable to
    that when it first looks, so the variable alone does not tell what the user chose.
    """
    from torch._inductor.runtime.cache_dir_utils import default_cache_dir

    return Path(directory) == Path(default_cache_dir()).absolute()


@functools.cache
def _store(folder: Path, limit: int) -> Store:
    return Store(folder, limit)
