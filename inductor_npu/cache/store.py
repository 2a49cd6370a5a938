"""A folder of entries that many threads, processes and machines may use at once, and anybody may delete at any time.

    <folder>/<kind>/<first two digits>/<digest of the key>   an entry: one file, see entry.py
    <folder>/locks/<kind>-<first two digits>                 the lock of whoever compiles an entry of these digits
    <folder>/locks/held-<kind>-<first four digits>           the lock of whoever holds a key of these digits
    <folder>/unfinished/                                     files being written

A rename makes a file appear as a whole, or not at all. An unreadable file is a miss, an unwritable one is not stored,
and each case warns once. Beyond the size limit, the least recently used entries are removed first, but none that was
used within the last minute or is being compiled. Only this user can read what this module writes: a kernel entry is
code.
"""

from __future__ import annotations

import errno
import heapq
import os
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from inductor_npu.cache.entry import DamagedEntryError, Entry, Key
from inductor_npu.errors import NpuWarning

DEFAULT_LIMIT = 2**30
# What was used so lately counts as in use: whoever waited for it to be compiled may be about to read it.
IN_USE_SECONDS = 60.0
# A writer that was killed leaves its file in `unfinished`; none that lives takes so long.
UNFINISHED_SECONDS = 3600.0
# Longer than a kernel takes to compile: after that whoever waits compiles too.
WAIT_SECONDS = 60.0
# How often whoever waits looks again; filelock's own default would be a good part of a compilation.
POLL_SECONDS = 0.01
# The time of last use is written again after so long only: reading must not be writing each time.
TOUCH_SECONDS = 10.0
# Looked at after writing this part of the limit, and after the first entry that a process writes.
TRIM_PART = 16

_LOCKS, _UNFINISHED = "locks", "unfinished"
_DIGEST_LENGTH = 64
# Of what is held there are few, for minutes: two of them seldom have one lock.
_HELD_DIGITS = 4
# A file that went away while it was looked at: somebody cleared the folder, here or on another machine.
_GONE = (errno.ENOENT, errno.ESTALE)


@dataclass(frozen=True)
class Listed:
    """A file of the store: its kind and digest by its name, bytes, and when it was last used (seconds of the epoch)."""

    path: Path
    kind: str
    digest: str
    size: int
    used: float


class Hold(Protocol):
    """An acquired lock."""

    def release(self) -> None:
        """Lets somebody else have it."""


class CannotLockError(OSError):
    """Files cannot be locked here: a folder that cannot be written, a file system without locks."""


class Store:
    """The entries in `folder`, which is made when the first is written. `limit`: bytes that trimming leaves."""

    def __init__(self, folder: Path, limit: int = DEFAULT_LIMIT) -> None:
        self.folder = folder
        self.limit = limit
        self._warned: set[str] = set()
        self._held = threading.local()
        self._until_trim = 0

    # ---- one entry

    def read(self, key: Key) -> Entry | None:
        """The entry of `key`, None if there is none or it is damaged (then with a warning, once)."""
        path = self._path(key.kind, key.digest)
        try:
            data = path.read_bytes()
            entry = Entry.unpack(data, key.digest)
        except (OSError, DamagedEntryError) as error:
            if getattr(error, "errno", None) not in _GONE:
                self._warn_unreadable(path, error)
            return None
        self._touch(path)
        return entry

    def has(self, key: Key) -> bool:
        """Whether there is an entry of `key`, which may be damaged."""
        return self._path(key.kind, key.digest).exists()

    def discard(self, key: Key, reason: str) -> None:
        """Forgets the entry of `key`, whose content turned out to be unusable, with a warning, once."""
        path = self._path(key.kind, key.digest)
        self._warn_unreadable(path, reason)
        with suppress(OSError):  # it is written anew in any case
            path.unlink()

    def write(self, entry: Entry) -> bool:
        """Keeps `entry`. False, with a warning once, if that is not possible."""
        path = self._path(entry.key.kind, entry.key.digest)
        data = entry.pack()
        try:
            with self.once(entry.key):
                self._write_whole(path, data)
        except OSError as error:
            self._warn(
                "write",
                f"what is compiled cannot be kept in {self.folder} ({error}); the next run compiles again. Free some "
                "space, or set INDUCTOR_NPU_CACHE_DIR to a directory that can be written",
            )
            return False
        self._until_trim -= len(data)
        if self._until_trim < 0:
            self._until_trim = self.limit // TRIM_PART
            self.prune()
        return True

    @contextmanager
    def once(self, key: Key, wait: float = WAIT_SECONDS) -> Iterator[None]:
        """Holds off everybody else who asks to make the entry of `key`; to be followed by another `read`.

        Waits at most `wait` seconds for others, then goes ahead without being alone, as it does where files cannot be
        locked. A process that dies lets go. Nests.
        """
        name = _lock_name(key.kind, key.digest)
        held = self._names_held()
        if name in held:
            yield
            return
        try:
            lock = self._lock(name, wait)
        except CannotLockError:
            lock = None
        if lock is None:
            yield
            return
        held.add(name)
        try:
            yield
        finally:
            held.discard(name)
            lock.release()

    def try_hold(self, key: Key) -> Hold | None:
        """What holds off everybody else who asks to hold `key`, until it is released (by whatever thread) or this
        process ends; None if somebody else has it. Does not wait, does not nest, and is no concern of `once`. Raises
        CannotLockError where files cannot be locked.
        """
        return self._lock(f"held-{key.kind}-{key.digest[:_HELD_DIGITS]}", 0)

    # ---- all entries

    def listed(self) -> Iterator[Listed]:
        """The files that are entries by their name, in no order."""
        for path in self.folder.glob("*/*/*"):
            kind, digits, digest = path.parts[-3:]
            if len(digest) != _DIGEST_LENGTH or digest[:2] != digits or kind in (_LOCKS, _UNFINISHED):
                continue
            with suppress(OSError):  # another process may be removing it
                facts = path.stat()
                yield Listed(path, kind, digest, facts.st_size, facts.st_mtime)

    def entries(self) -> Iterator[tuple[Listed, Entry | Exception]]:
        """Each entry, or why it cannot be read; those that go away meanwhile are left out."""
        for listed in self.listed():
            try:
                yield listed, Entry.unpack(listed.path.read_bytes(), listed.digest)
            except (OSError, DamagedEntryError) as error:
                if getattr(error, "errno", None) not in _GONE:
                    yield listed, error

    def headers(self, kind: str, most: int) -> Iterator[tuple[Key, Mapping[str, str]]]:
        """The keys and the facts of the `most` entries of `kind` that were used last, the latest first, as far as they
        can be read: without their contents, so that a look at many is cheap.
        """
        of_kind = (listed for listed in self.listed() if listed.kind == kind)
        for listed in heapq.nlargest(most, of_kind, key=lambda listed: listed.used):
            with suppress(OSError, DamagedEntryError), listed.path.open("rb") as file:
                yield Entry.read_header(file, listed.digest)

    def prune(self, limit: int | None = None) -> tuple[int, int]:
        """Removes entries until the rest have at most `limit` bytes (default: the store's), those that were not used
        for longest first, and what killed writers left. What is in use stays, whatever the limit.

        Returns how many entries were removed, and their bytes.
        """
        files = sorted(self.listed(), key=lambda listed: listed.used)
        excess = sum(listed.size for listed in files) - (self.limit if limit is None else limit)
        removed = size = 0
        for listed in files:
            if size >= excess:
                break
            if self._remove_unused(listed):
                removed += 1
                size += listed.size
        self._remove_unfinished()
        return removed, size

    def clear(self, kind: str | None = None) -> int:
        """Removes all entries, or those of `kind`, used lately or not; returns how many. Who compiles goes on."""
        removed = 0
        for listed in self.listed():
            if kind in (None, listed.kind):
                with suppress(FileNotFoundError):
                    listed.path.unlink()
                    removed += 1
        self._remove_unfinished()
        return removed

    # ---- files

    def _now(self) -> float:
        return time.time()

    def _path(self, kind: str, digest: str) -> Path:
        return self.folder / kind / digest[:2] / digest

    def _write_whole(self, path: Path, data: bytes) -> None:
        try:
            self._write_and_rename(path, data)
        except FileNotFoundError:  # whoever removed the folders may have done so between making and using them
            self._write_and_rename(path, data)

    def _write_and_rename(self, path: Path, data: bytes) -> None:
        unfinished = self.folder / _UNFINISHED
        make_private(unfinished)
        make_private(path.parent)
        handle, name = tempfile.mkstemp(dir=unfinished)  # readable by this user only
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(name)
            raise

    def _touch(self, path: Path) -> None:
        with suppress(OSError):  # a folder that can only be read keeps its times
            if self._now() - path.stat().st_mtime > TOUCH_SECONDS:
                os.utime(path)

    def _remove_unused(self, listed: Listed) -> bool:
        if self._now() - listed.used < IN_USE_SECONDS:
            return False
        name = _lock_name(listed.kind, listed.digest)
        if name in self._names_held():
            return False
        try:
            lock = self._lock(name, 0)
        except CannotLockError:
            return self._unlink_unused(listed)  # nobody can say what is being compiled; what was used lately stays
        if lock is None:
            return False  # one of these digits is being compiled or written
        try:
            return self._unlink_unused(listed)
        finally:
            lock.release()

    def _unlink_unused(self, listed: Listed) -> bool:
        try:
            if self._now() - listed.path.stat().st_mtime < IN_USE_SECONDS:
                return False  # used since it was listed
            listed.path.unlink()
        except OSError:
            return False
        return True

    def _remove_unfinished(self) -> None:
        for path in (self.folder / _UNFINISHED).glob("*"):
            with suppress(OSError):
                if self._now() - path.stat().st_mtime > UNFINISHED_SECONDS:
                    path.unlink()

    def _names_held(self) -> set[str]:
        """The names of the locks that this thread holds."""
        if not hasattr(self._held, "names"):
            self._held.names = set()
        names: set[str] = self._held.names
        return names

    def _lock(self, name: str, wait: float) -> Hold | None:
        """The acquired lock, None if somebody else keeps it for `wait` seconds. Raises CannotLockError.

        The number of lock files is bounded, and none is ever removed: a lock that can be removed can be held twice.
        """
        import filelock

        folder = self.folder / _LOCKS
        try:
            make_private(folder)
            if not os.access(folder, os.W_OK):
                raise PermissionError(f"{folder} cannot be written")
            lock = filelock.FileLock(folder / name, timeout=wait, mode=0o600, thread_local=False)
            lock.acquire(poll_interval=POLL_SECONDS)
        except filelock.Timeout:
            return None
        except (OSError, NotImplementedError) as error:
            raise CannotLockError(str(error)) from error
        return lock

    # ---- warnings

    def _warn_unreadable(self, path: Path, reason: object) -> None:
        self._warn("read", f"the cache entry {path} cannot be used ({reason}); what it held is compiled again")

    def _warn(self, kind: str, message: str) -> None:
        if kind not in self._warned:
            self._warned.add(kind)
            warnings.warn(message, NpuWarning, stacklevel=4)


def _lock_name(kind: str, digest: str) -> str:
    """One for each kind, because whoever makes an entry of one kind may make some of another on the way."""
    return f"{kind}-{digest[:2]}"


def make_private(folder: Path) -> None:
    """Makes `folder` and those above it that are missing, for this user only. Those that exist stay as they are."""
    if folder.is_dir():
        return
    make_private(folder.parent)
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
