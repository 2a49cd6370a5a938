"""The key under which the hash of a library's files is stored: valid as long as the files are unchanged.

The key contains what the files' inodes say: names, sizes, change times, numbers. Reading torch's inodes takes 0.02 s,
reading its files 0.15 s. A program can set the time of a file that it changed, but not the change time of the inode.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from inductor_npu.cache.entry import Key

KIND = "library"
# What changed so shortly before a process began may have changed twice within one step of a file system's clock (two
# seconds for FAT), and a file server's clock may be late.
SETTLED_SECONDS = 60.0
_SECOND = 10**9


def key_of(root: Path, version: str, since: float) -> Key | None:
    """The key of the hash of what is below `root`, a library of `version`; another one whenever a file may be another.

    None where it is not sure that everything there is as it was at `since` (seconds of the epoch): a hash that somebody
    took after that would not be known to be of these files. None, too, where times are whole seconds: they are not when
    a file changed, but what the maker of a disk image wrote, who may write the same for another image.
    """
    place = os.path.realpath(root)
    try:
        found = sorted(_found(place))
    except OSError:
        return None
    changes = [changed for _, changed, *_ in found]
    if max(changes) > (since - SETTLED_SECONDS) * _SECOND or not all(changed % _SECOND for changed in changes):
        return None
    # Python's version decides which names are modules of its own.
    files = hashlib.sha256(repr(found).encode()).hexdigest()
    return Key(KIND, {"root": place, "version": version, "python": sys.version, "files": files})


def _found(root: str) -> Iterator[tuple[str, int, int, int, int]]:
    """Each file's and folder's path, time of change (of the inode, of the content), size and number; links followed."""
    folders, seen = [root], set()
    while folders:
        folder = folders.pop()
        facts = os.stat(folder)
        yield _told(folder, facts)
        identity = (facts.st_dev, facts.st_ino)
        # A link upwards; headers, which no hash reads, and which are most of the files.
        if identity in seen or folder == os.path.join(root, "include"):
            continue
        seen.add(identity)
        with os.scandir(folder) as entries:
            for each in entries:
                if not each.is_dir():
                    with suppress(FileNotFoundError):  # a link to nothing, which no hash can have read
                        yield _told(each.path, each.stat())
                elif each.name != "__pycache__":  # what was compiled from the sources
                    folders.append(each.path)


def _told(path: str, facts: os.stat_result) -> tuple[str, int, int, int, int]:
    return path, facts.st_ctime_ns, facts.st_mtime_ns, facts.st_size, facts.st_ino
