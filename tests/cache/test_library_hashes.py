"""The key under which the hash of a library's files is kept: another one, or none, whenever a file may be another."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from inductor_npu.cache.library_hashes import SETTLED_SECONDS, key_of

Change = Callable[[Path], None]


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A package with a module, a package in it, a library, headers and what Python compiled."""
    root = tmp_path / "library"
    for name in ("__init__.py", "inner/__init__.py", "_C/native.so", "include/header.h", "__pycache__/a.pyc"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("one")
    return root


def _digest(library: Path, version: str = "2.0") -> str:
    """What a process sees that begins long after now."""
    key = key_of(library, version, time.time() + 2 * SETTLED_SECONDS)
    assert key is not None
    return key.digest


def _change_and_hide_it(path: Path) -> None:
    before = path.stat()
    path.write_text("two")  # as long as before
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _replace_by_a_copy(path: Path) -> None:
    shutil.copy2(path, path.with_name("copy"))
    path.with_name("copy").replace(path)


def _add(path: Path) -> None:
    path.with_name("new.py").touch()


def test_is_the_same_while_nothing_changes(library: Path) -> None:
    assert _digest(library) == _digest(library)


def test_is_the_same_by_a_link(library: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(library)
    assert _digest(tmp_path / "link") == _digest(library)


@pytest.mark.parametrize("name", ["__init__.py", "inner/__init__.py", "_C/native.so"])
@pytest.mark.parametrize("change", [_change_and_hide_it, _replace_by_a_copy, Path.unlink, _add])
def test_is_another_when_a_file_changes(library: Path, name: str, change: Change) -> None:
    before = _digest(library)
    change(library / name)
    assert _digest(library) != before


def test_is_another_when_a_linked_file_changes(library: Path, tmp_path: Path) -> None:
    (tmp_path / "store.py").write_text("one")
    (library / "linked.py").symlink_to(tmp_path / "store.py")
    before = _digest(library)
    _change_and_hide_it(tmp_path / "store.py")
    assert _digest(library) != before


@pytest.mark.parametrize("name", ["include/header.h", "__pycache__/a.pyc"])
def test_is_the_same_when_a_file_changes_that_no_hash_reads(library: Path, name: str) -> None:
    before = _digest(library)
    (library / name).write_text("another")
    assert _digest(library) == before


def test_is_another_when_the_headers_become_a_package(library: Path) -> None:
    before = _digest(library)
    (library / "include" / "__init__.py").touch()
    assert _digest(library) != before


def test_is_another_in_another_place(library: Path, tmp_path: Path) -> None:
    before = _digest(library)
    library.rename(tmp_path / "moved")
    assert _digest(tmp_path / "moved") != before


def test_is_another_for_another_version(library: Path) -> None:
    assert _digest(library, "2.0") != _digest(library, "2.1")


def test_is_another_for_another_python(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = _digest(library)
    monkeypatch.setattr(sys, "version", "another")
    assert _digest(library) != before


def test_a_link_to_a_folder_above_is_followed_once_and_counts(library: Path) -> None:
    link = library / "inner" / "up"
    link.symlink_to(library)
    before = _digest(library)
    link.rename(library / "inner" / "renamed")
    assert _digest(library) != before


@pytest.mark.parametrize("change", [_change_and_hide_it, _replace_by_a_copy, Path.unlink, _add])
def test_there_is_none_when_a_file_has_changed_since_a_hash_may_have_been_taken(library: Path, change: Change) -> None:
    since = time.time() + SETTLED_SECONDS + 0.1
    assert key_of(library, "2.0", since) is not None
    time.sleep(0.2)
    change(library / "inner" / "__init__.py")
    assert key_of(library, "2.0", since) is None


def test_there_is_none_of_files_that_changed_shortly_before(library: Path) -> None:
    """They may have changed again within what the file system takes for the same moment."""
    assert key_of(library, "2.0", time.time()) is None
    assert SETTLED_SECONDS > 2  # FAT keeps times in steps of two seconds


def test_there_is_none_where_a_time_of_change_is_whole_seconds(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a disk image, whose files may be others with the same times."""
    stat = os.stat

    def rounded(path: str) -> os.stat_result:
        facts = stat(path)
        return os.stat_result(facts[:10], {"st_ctime_ns": 10**18, "st_mtime_ns": facts.st_mtime_ns})

    monkeypatch.setattr("inductor_npu.cache.library_hashes.os.stat", rounded)
    assert key_of(library, "2.0", time.time() + 2 * SETTLED_SECONDS) is None


def test_there_is_none_where_nothing_can_be_looked_at(tmp_path: Path) -> None:
    assert key_of(tmp_path / "missing", "2.0", time.time()) is None
