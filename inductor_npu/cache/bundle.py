"""The cache as one file: a container or another machine that gets it starts without compiling.

A zip archive with our entries, the graphs in Inductor's own caches, and a manifest with the SHA-256 of each. Kernels
without their graphs would save little: Inductor would have to generate the code that launches them.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
import zipfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from inductor_npu.cache.entry import DamagedEntryError, Entry
from inductor_npu.cache.location import kernel_store, stores, user_store
from inductor_npu.cache.store import make_private
from inductor_npu.errors import BundleError

FORMAT = 1
MANIFEST = "manifest.json"
# What belongs to compiled programs; verdicts of Ascend's compiler do not.
KINDS = ("kernel", "tile")
# Inductor's caches of graphs, and of what its own tuning found.
_GRAPHS = ("fxgraph", "aotautograd")
_TUNED = "*/*.best_config"
_ENTRY = re.compile(r"entries/(\w+)/([0-9a-f]{64})")
_INDUCTOR = re.compile(r"inductor/((?:\w[\w.-]*/)+\w[\w.-]*)")


@dataclass(frozen=True)
class Carried:
    """How many files went into a bundle or came out of it: `entries` of ours, `graphs` of Inductor's, and those that
    were `damaged` and left out.
    """

    entries: int
    graphs: int
    damaged: int


def export_to(path: Path, kinds: Collection[str] = KINDS) -> Carried:
    """Writes the entries of `kinds` and Inductor's graphs to the file `path`, which appears whole.

    Raises OSError if it cannot be written.
    """
    digests: dict[str, str] = {}
    damaged = entries = 0
    handle, name = tempfile.mkstemp(dir=path.absolute().parent, prefix=f"{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:

            def add(name: str, data: bytes) -> None:
                digests[name] = hashlib.sha256(data).hexdigest()
                archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)

            for store in stores():
                for listed, entry in store.entries():
                    if listed.kind not in kinds:
                        continue
                    if isinstance(entry, Entry):
                        add(f"entries/{listed.kind}/{listed.digest}", entry.pack())
                        entries += 1
                    else:
                        damaged += 1
            for relative, data in _graphs(_inductor_folder()):
                add(f"inductor/{relative}", data)
            archive.writestr(zipfile.ZipInfo(MANIFEST), json.dumps({"format": FORMAT, "sha256": digests}))
        os.replace(name, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise
    return Carried(entries, len(digests) - entries, damaged)


def import_from(path: Path) -> Carried:
    """Puts what the bundle `path` holds into this user's caches; what is there already stays.

    Raises BundleError if the file is no bundle of this format, OSError if it cannot be read or Inductor's cache cannot
    be written.
    """
    entries = graphs = damaged = 0
    with _opened(path) as archive:
        try:
            manifest = json.loads(archive.read(MANIFEST))
            found, digests = manifest["format"], manifest["sha256"]
        except (KeyError, TypeError, ValueError, zipfile.BadZipFile) as error:
            raise BundleError(file=path, reason="it has no manifest") from error
        if found != FORMAT:
            raise BundleError(file=path, reason=f"its format is {found}, and this version reads {FORMAT}")
        for name, digest in digests.items():
            data = _member(archive, name, digest)
            if data is None:
                damaged += 1
            elif (match := _ENTRY.fullmatch(name)) is not None:
                if _take_entry(match[2], data):
                    entries += 1
                else:
                    damaged += 1
            elif (match := _INDUCTOR.fullmatch(name)) is not None:
                _take_graph(_inductor_folder() / match[1], data)
                graphs += 1
            else:
                raise BundleError(file=path, reason=f"it has a file that does not belong there: {name}")
    return Carried(entries, graphs, damaged)


def _opened(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except zipfile.BadZipFile as error:
        raise BundleError(file=path, reason=str(error)) from error


def _member(archive: zipfile.ZipFile, name: str, digest: str) -> bytes | None:
    """The member called `name`, None if it is not the one that was written."""
    try:
        data = archive.read(name)
    except (KeyError, zipfile.BadZipFile, zlib.error, EOFError):
        return None
    return data if hashlib.sha256(data).hexdigest() == digest else None


def _take_entry(digest: str, data: bytes) -> bool:
    try:
        entry = Entry.unpack(data, digest)
    except DamagedEntryError:
        return False
    store = kernel_store() if entry.key.kind in KINDS else user_store()
    return store.read(entry.key) is not None or store.write(entry)


def _take_graph(path: Path, data: bytes) -> None:
    if path.exists():
        return
    make_private(path.parent)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".")
    with os.fdopen(handle, "wb") as file:
        file.write(data)
    os.replace(name, path)


def _graphs(folder: Path) -> Iterator[tuple[str, bytes]]:
    """The files of Inductor's caches by their path below `folder`."""
    paths = [path for name in _GRAPHS for path in (folder / name).rglob("*") if path.is_file()]
    for path in sorted([*paths, *folder.glob(_TUNED)]):
        relative = path.relative_to(folder).as_posix()
        if _INDUCTOR.fullmatch(f"inductor/{relative}"):  # temporary files begin with a dot
            with suppress(FileNotFoundError):  # somebody clears the cache
                yield relative, path.read_bytes()


def _inductor_folder() -> Path:
    from torch._inductor.runtime.cache_dir_utils import cache_dir

    return Path(cache_dir())
