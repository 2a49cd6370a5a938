"""Compilations on disk: kept whole or not at all; what cannot be used costs time and one warning, never an error."""

from __future__ import annotations

import os
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from inductor_npu.ascend.cache import CompilationCache
from inductor_npu.errors import NpuWarning

KEY = "0123456789abcdef"
ENTRY = {"hivm": "module {}\n" * 1000, "failed": None, "seconds": 0.5}


@pytest.fixture
def cache(tmp_path: Path) -> CompilationCache:
    return CompilationCache(tmp_path / "entries")


def file_of(cache: CompilationCache, folder: Path) -> Path:
    cache.write(KEY, ENTRY)
    (path,) = [path for path in folder.rglob("*") if path.is_file()]
    return path


def test_what_was_written_is_read(cache: CompilationCache) -> None:
    assert cache.read(KEY) is None
    cache.write(KEY, ENTRY)
    assert cache.read(KEY) == ENTRY


def test_entries_are_compressed(cache: CompilationCache, tmp_path: Path) -> None:
    assert file_of(cache, tmp_path).stat().st_size < 500


def test_nothing_is_made_before_something_is_kept(cache: CompilationCache, tmp_path: Path) -> None:
    cache.read(KEY)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda content: b"", id="empty"),
        pytest.param(lambda content: content[:-7], id="cut"),
        pytest.param(lambda content: content[:60] + bytes([content[60] ^ 1]) + content[61:], id="one-bit"),
        pytest.param(lambda content: b"inductor-npu compilation 0\n" + content[27:], id="older-format"),
    ],
)
def test_damage_is_a_miss_and_one_warning(cache: CompilationCache, tmp_path: Path, damage) -> None:
    path = file_of(cache, tmp_path)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.warns(NpuWarning, match=f"{path.name}.*compiled again"):
        assert cache.read(KEY) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cache.read(KEY) is None
    cache.write(KEY, ENTRY)
    assert cache.read(KEY) == ENTRY


def test_a_place_that_cannot_be_written_is_one_warning(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    cache = CompilationCache(tmp_path / "file" / "entries")
    with pytest.warns(NpuWarning, match="INDUCTOR_NPU_CACHE_DIR"):
        cache.write(KEY, ENTRY)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.write(KEY, ENTRY)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_write_permission_still_reads(cache: CompilationCache, tmp_path: Path) -> None:
    folder = file_of(cache, tmp_path).parent
    folder.chmod(0o500)
    assert cache.read(KEY) == ENTRY
    with pytest.warns(NpuWarning, match="cannot be kept"):
        cache.write(KEY[:2] + "other", ENTRY)


def test_processes_may_write_one_entry_at_once(cache: CompilationCache, tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: cache.write(KEY, ENTRY), range(40)))
    assert cache.read(KEY) == ENTRY
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 1  # no temporary file is left


def test_what_was_not_used_for_longest_goes_first(cache: CompilationCache, tmp_path: Path) -> None:
    for age, key in enumerate(("aa", "bb", "cc")):
        cache.write(key, ENTRY)
        path = tmp_path / "entries" / key / key
        os.utime(path, (1000 - age, 1000 - age))
    cache.read("cc")  # the oldest, now in use
    cache.trim(limit=2 * path.stat().st_size)
    assert [cache.read(key) is None for key in ("aa", "bb", "cc")] == [False, True, False]
    cache.trim(limit=0)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_folder_that_is_not_there_needs_no_trimming(cache: CompilationCache) -> None:
    cache.trim(limit=0)
    assert cache.read(KEY) is None
