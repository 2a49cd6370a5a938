"""Compilations on disk, so that a kernel is compiled once: content-addressed, checksummed, safe to delete at any time.

An entry is one file, named by the hash of all that decides it. It is written whole to a temporary file and renamed,
so that several processes can share the folder. What cannot be read is a miss, what cannot be written is not kept;
each warns once. What was not used for longest goes first when there is too much.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import warnings
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

from inductor_npu.errors import NpuWarning

# First bytes of an entry; the number is that of the format.
_MAGIC = b"inductor-npu compilation 1\n"
_DIGEST_BYTES = 32
# Some 30,000 kernels.
BYTES = 256 * 2**20


class CompilationCache:
    """A folder of entries, made when the first is written."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._warned: set[str] = set()

    def read(self, key: str) -> dict[str, Any] | None:
        """The entry of `key`, None if there is none or it is damaged."""
        path = self._path(key)
        try:
            entry = _unpack(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError, zlib.error) as error:
            self._warn("read", f"the cached compilation {path} cannot be used ({error}); its kernel is compiled again")
            return None
        with suppress(OSError):  # a folder that can only be read keeps its times
            os.utime(path)
        return entry

    def write(self, key: str, data: dict[str, Any]) -> None:
        """Keeps `data`, which must have a JSON form, as the entry of `key`."""
        path = self._path(key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _write_whole(path, _pack(data))
        except OSError as error:
            self._warn(
                "write",
                f"compilations cannot be kept in {self._folder} ({error}); the next run compiles again. Free some "
                "space, or set INDUCTOR_NPU_CACHE_DIR to a directory that can be written",
            )

    def trim(self, limit: int = BYTES) -> None:
        """Removes entries until the rest have at most `limit` bytes, those that were not used for longest first."""
        files = []
        for path in self._folder.glob("*/*"):
            with suppress(OSError):  # another process may be removing it
                facts = path.stat()
                files.append((facts.st_mtime, facts.st_size, path))
        excess = sum(size for _, size, _ in files) - limit
        for _, size, path in sorted(files):
            if excess <= 0:
                return
            with suppress(OSError):
                path.unlink()
            excess -= size

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / key

    def _warn(self, kind: str, message: str) -> None:
        if kind not in self._warned:
            self._warned.add(kind)
            warnings.warn(message, NpuWarning, stacklevel=4)


def _pack(data: dict[str, Any]) -> bytes:
    body = zlib.compress(json.dumps(data).encode())
    return _MAGIC + hashlib.sha256(body).digest() + body


def _unpack(content: bytes) -> dict[str, Any]:
    """Raises ValueError if `content` is not a whole entry of this format."""
    if not content.startswith(_MAGIC):
        raise ValueError("it is not of this version's format")
    digest, body = content[len(_MAGIC) :][:_DIGEST_BYTES], content[len(_MAGIC) + _DIGEST_BYTES :]
    if hashlib.sha256(body).digest() != digest:
        raise ValueError("its checksum is wrong")
    return json.loads(zlib.decompress(body))


def _write_whole(path: Path, content: bytes) -> None:
    """Writes a file that other processes see whole or not at all."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.", suffix=".tmp")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
