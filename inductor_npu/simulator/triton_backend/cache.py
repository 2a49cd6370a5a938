"""Triton's file cache, made robust: a full disk or a damaged entry costs a compile and one warning, never an error."""

from __future__ import annotations

import atexit
import functools
import json
import os
import shutil
import tempfile
import uuid
import warnings
from pathlib import Path

from triton.runtime.cache import FileCacheManager

from ...errors import NpuWarning
from .kernel_file import DamagedKernelError, KernelFile


class RobustCacheManager(FileCacheManager):
    """FileCacheManager for a disk that may be full, unwritable or damaged.

    What cannot be written to Triton's cache directory goes to a temporary directory of this process instead, because
    Triton reads every file back. Kernels of this backend carry a checksum; a group whose kernel or metadata is damaged
    counts as absent, so that Triton compiles it again.
    """

    def __init__(self, key: str, override: bool = False, dump: bool = False) -> None:
        try:
            super().__init__(key, override, dump)
        except OSError as error:
            self._leave_disk(key, error)

    def put(self, data: object, filename: str, binary: bool = True) -> str:
        """Write `data` and return its path."""
        content = data if isinstance(data, bytes) else str(data).encode()
        try:
            return self._write(content, filename)
        except OSError as error:
            if self.cache_dir.startswith(_refuge()):
                raise
            self._leave_disk(self.key, error)
            return self._write(content, filename)

    def _write(self, content: bytes, filename: str) -> str:
        """Let `filename` appear whole or not at all, however the process ends.

        Triton's own way there, a directory for each file, made and removed, takes milliseconds; a kernel has six files.
        """
        path = os.path.join(self.cache_dir, filename)
        unfinished = os.path.join(self.cache_dir, f"{uuid.uuid4().hex}.unfinished")
        os.makedirs(self.cache_dir, exist_ok=True)  # whoever clears the cache may do so at any time
        try:
            Path(unfinished).write_bytes(content)
            os.replace(unfinished, path)
        except OSError:
            Path(unfinished).unlink(missing_ok=True)
            raise
        return path

    def get_group(self, filename: str) -> dict[str, str] | None:
        """The files stored under `filename`, or None if there are none or one of them is damaged."""
        try:
            group = super().get_group(filename)
            if group is not None:
                _check(group)
        except (OSError, ValueError) as error:
            warnings.warn(
                f"the cached kernel {filename.removesuffix('.json')} in {self.cache_dir} is damaged ({error}); it is "
                "compiled again",
                NpuWarning,
                stacklevel=2,
            )
            return None
        return group

    def _leave_disk(self, key: str, error: OSError) -> None:
        _warn_once(str(error))
        self.key = key
        self.cache_dir = os.path.join(_refuge(), key)
        self.lock_path = os.path.join(self.cache_dir, "lock")
        os.makedirs(self.cache_dir, exist_ok=True)


def _check(group: dict[str, str]) -> None:
    """Raise ValueError or OSError if a kernel of ours in `group`, or the metadata that goes with it, is not intact."""
    kernels = [path for name, path in group.items() if name.endswith(".obj")]
    metadata = [path for name, path in group.items() if name.endswith(".json")]
    if metadata and json.loads(Path(metadata[0]).read_text())["target"]["backend"] == "npu" and not kernels:
        raise DamagedKernelError("its object code is missing")
    for path in kernels:
        KernelFile.unpack(Path(path).read_bytes())


@functools.cache
def _warn_once(reason: str) -> None:
    warnings.warn(
        f"compiled kernels cannot be cached on disk ({reason}); they are kept for this process only. Free some space, "
        "or set TRITON_CACHE_DIR to a directory that can be written",
        NpuWarning,
        stacklevel=4,
    )


@functools.cache
def _refuge() -> str:
    """A directory of this process, in memory where the system has a file system for that."""
    shared_memory = "/dev/shm"
    parent = shared_memory if os.access(shared_memory, os.W_OK) else None
    directory = tempfile.mkdtemp(prefix="inductor-npu-kernels-", dir=parent)
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory
