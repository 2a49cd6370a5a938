"""The store of the compile cache: an entry is there whole or not at all; what goes wrong costs time and one warning."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from inductor_npu.cache.entry import MAGIC, Entry, Key
from inductor_npu.cache.store import Store
from inductor_npu.errors import NpuWarning

KEY = Key("kernel", {"source": "abc", "triton": "3.6.0"})
ENTRY = Entry(KEY, b"machine code" * 100, {"kernel": "triton_poi_fused_0"})
LONG_AGO = 1_000_000


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "entries")


def files_of(folder: Path) -> list[Path]:
    """Every file below `folder` but the locks."""
    return [path for path in folder.rglob("*") if path.is_file() and path.parent.name != "locks"]


def keys(number: int) -> list[Key]:
    return [Key("kernel", {"source": str(index)}) for index in range(number)]


# ---- keys


def test_the_order_of_fields_does_not_matter() -> None:
    assert Key("kernel", {"triton": "3.6.0", "source": "abc"}).digest == KEY.digest


@pytest.mark.parametrize(
    "other",
    [
        Key("verdict", KEY.fields),
        Key("kernel", {"source": "abd", "triton": "3.6.0"}),
        Key("kernel", {"source": "abc"}),
        Key("kernel", {"source": "abc", "triton": "3.6.0", "target": ""}),
    ],
)
def test_kind_and_each_field_decide(other: Key) -> None:
    assert other.digest != KEY.digest


def test_differences_are_named() -> None:
    assert KEY.differences(Key("kernel", {"source": "abc", "triton": "3.2.0", "target": "A5"})) == ["target", "triton"]


# ---- reading and writing


def test_what_was_written_is_read(store: Store) -> None:
    assert store.read(KEY) is None
    assert store.write(ENTRY)
    assert store.read(KEY) == ENTRY


def test_nothing_is_made_before_something_is_kept(store: Store, tmp_path: Path) -> None:
    store.read(KEY)
    store.prune()
    assert list(tmp_path.iterdir()) == []


def test_only_this_user_can_read(store: Store, tmp_path: Path) -> None:
    mask = os.umask(0)
    try:
        store.write(ENTRY)
    finally:
        os.umask(mask)
    for path in (tmp_path / "entries").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda data: b"", id="empty"),
        pytest.param(lambda data: data[:10], id="cut in the magic"),
        pytest.param(lambda data: data[:30], id="cut in the checksum"),
        pytest.param(lambda data: data[:60], id="cut in the header"),
        pytest.param(lambda data: data[:-7], id="cut in the content"),
        pytest.param(lambda data: data[:40] + bytes([data[40] ^ 1]) + data[41:], id="a bit of the checksum"),
        pytest.param(lambda data: data[:70] + bytes([data[70] ^ 1]) + data[71:], id="a bit of the header"),
        pytest.param(lambda data: data[:-1] + bytes([data[-1] ^ 128]), id="a bit of the content"),
        pytest.param(lambda data: data + b"x", id="longer"),
        pytest.param(lambda data: data.replace(MAGIC, b"inductor-npu entry 1\n"), id="of another version"),
        pytest.param(lambda data: Entry(keys(1)[0], b"").pack(), id="of another key"),
    ],
)
def test_damage_is_a_miss_and_one_warning(store: Store, tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    store.write(ENTRY)
    (path,) = files_of(tmp_path)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.warns(NpuWarning, match=f"{path.name}.*compiled again") as told:
        assert [store.read(KEY), store.read(KEY)] == [None, None]
    assert len(told) == 1
    store.write(ENTRY)
    assert store.read(KEY) == ENTRY


def test_many_damaged_entries_are_one_warning(store: Store, tmp_path: Path) -> None:
    for key in keys(3):
        store.write(Entry(key, b"x"))
    for path in files_of(tmp_path):
        path.write_bytes(b"")
    with pytest.warns(NpuWarning, match="it is empty") as told:
        assert [store.read(key) for key in keys(3)] == [None] * 3
    assert len(told) == 1


def test_what_cannot_be_read_is_a_miss_and_one_warning(store: Store, tmp_path: Path) -> None:
    store.write(ENTRY)
    (path,) = files_of(tmp_path)
    path.unlink()
    path.mkdir()
    with pytest.warns(NpuWarning, match="cannot be used") as told:
        assert [store.read(KEY), store.read(KEY)] == [None, None]
    assert len(told) == 1


def test_content_that_is_of_no_use_is_forgotten(store: Store) -> None:
    store.write(ENTRY)
    with pytest.warns(NpuWarning, match="from another planet"):
        store.discard(KEY, "from another planet")
    assert store.read(KEY) is None


def test_headers_are_those_used_last_without_what_cannot_be_read(store: Store) -> None:
    old, damaged, new = keys(3)
    for age, key in ((30, old), (20, damaged), (10, new)):
        store.write(Entry(key, b"content", {"name": "kernel"}))
        (path,) = (listed.path for listed in store.listed() if listed.digest == key.digest)
        os.utime(path, (1e9 - age, 1e9 - age))
        if key is damaged:
            path.write_bytes(path.read_bytes()[:60])
            os.utime(path, (1e9 - age, 1e9 - age))
    assert list(store.headers(new.kind, 3)) == [(new, {"name": "kernel"}), (old, {"name": "kernel"})]
    assert list(store.headers(new.kind, 1)) == [(new, {"name": "kernel"})]


# ---- places that cannot be written


def test_a_file_where_a_folder_should_be_is_one_warning(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    store = Store(tmp_path / "file" / "entries")
    with pytest.warns(NpuWarning, match="INDUCTOR_NPU_CACHE_DIR") as told:
        assert [store.write(ENTRY), store.write(ENTRY)] == [False, False]
    assert len(told) == 1


IN_ANOTHER_PROCESS = """
    import filelock, os, resource, sys, warnings  # all of it now: another user may not be able to read it
    from pathlib import Path
    from inductor_npu.cache.entry import Entry, Key
    from inductor_npu.cache.store import Store
    store, key = Store(Path(sys.argv[1])), Key("kernel", dict(source="abc", triton="3.6.0"))
    warnings.simplefilter("always")
    with warnings.catch_warnings(record=True) as told:
        {code}
    print(len(told), *(str(warning.message) for warning in told))
"""


def another_process(code: str, folder: Path) -> str:
    """What a process prints that runs `code` on a store in `folder`: the number of its warnings, and their texts."""
    code = textwrap.dedent(IN_ANOTHER_PROCESS).format(code=code)
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_full_disk_is_one_warning(store: Store, tmp_path: Path) -> None:
    """A limit on the size of files stands for the disk: writing fails half-way, and what was written goes."""
    full = "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)); "
    twice = "store.write(Entry(key, b'x' * 5000)); store.write(Entry(key, b'y' * 5000))"
    told = another_process(full + twice, store.folder)
    assert told.startswith("1 ")
    assert "cannot be kept" in told
    assert files_of(tmp_path) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_who_may_not_write_reads_and_warns_once(store: Store, tmp_path: Path) -> None:
    store.write(ENTRY)
    for path in [tmp_path, *tmp_path.parents, *tmp_path.rglob("*")]:
        path.chmod(path.stat().st_mode | (0o555 if path.is_dir() else 0o444))
    code = "os.setuid(65534); assert store.read(key).content; [store.write(Entry(key, b'')) for _ in range(2)]"
    before = time.monotonic()
    assert another_process(code, store.folder).startswith("1 ")
    assert time.monotonic() - before < 20  # nobody waits for a lock that cannot be had
    assert store.read(KEY) == ENTRY


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_who_may_not_read_misses_and_warns_once(store: Store, tmp_path: Path) -> None:
    store.write(ENTRY)
    for path in [tmp_path, *tmp_path.parents, *tmp_path.rglob("*")]:
        if path.is_dir():
            path.chmod(path.stat().st_mode | 0o555)
    told = another_process("os.setuid(65534); assert store.read(key) is None; store.read(key)", store.folder)
    assert told.startswith("1 ")


def test_folders_may_vanish_at_any_time(store: Store, tmp_path: Path) -> None:
    import shutil

    for _ in range(3):
        store.write(ENTRY)
        shutil.rmtree(store.folder)
        assert store.read(KEY) is None
    assert store.write(ENTRY)


# ---- several at once


def test_threads_make_an_entry_once(store: Store) -> None:
    made: list[int] = []

    def make(index: int) -> bytes:
        with store.once(KEY):
            entry = store.read(KEY)
            if entry is None:
                made.append(index)
                time.sleep(0.05)
                store.write(ENTRY)
                entry = store.read(KEY)
        assert entry is not None
        return entry.content

    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(make, range(16))) == {ENTRY.content}
    assert len(made) == 1


def test_processes_make_an_entry_once(store: Store, tmp_path: Path) -> None:
    code = """
        import sys, time
        from pathlib import Path
        from inductor_npu.cache.entry import Entry, Key
        from inductor_npu.cache.store import Store
        store, key = Store(Path(sys.argv[1])), Key("kernel", {"source": "abc"})
        with store.once(key):
            if store.read(key) is None:
                print("made")
                time.sleep(0.3)
                store.write(Entry(key, b"code"))
        assert store.read(key).content == b"code"
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(store.folder)]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(6)]
    outputs = [process.communicate(timeout=60)[0] for process in started]
    assert [process.returncode for process in started] == [0] * 6
    assert "".join(outputs) == "made\n"


def test_an_entry_is_on_the_disk_before_it_has_its_name(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    for name in ("fsync", "replace"):
        original = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *args, name=name, original=original: done.append(name) or original(*args))
    store.write(ENTRY)
    assert done == ["fsync", "replace"]


def test_where_files_cannot_be_locked_nobody_waits_and_what_is_old_goes(store: Store) -> None:
    """A folder in the place of each lock stands for a file system without locks."""
    for digits in range(256):
        (store.folder / "locks" / f"kernel-{digits:02x}").mkdir(parents=True)
    before = time.monotonic()
    with store.once(KEY):
        store.write(ENTRY)
    assert time.monotonic() - before < 5  # nobody waits for what cannot be had
    assert store.prune(limit=0) == (0, 0)  # it was used just now
    age(store, KEY, LONG_AGO)
    assert store.prune(limit=0)[0] == 1


def test_holding_holds_off_whoever_holds_and_nobody_else(store: Store) -> None:
    hold = store.try_hold(KEY)
    assert hold is not None
    before = time.monotonic()
    with ThreadPoolExecutor(1) as another_thread:
        assert another_thread.submit(store.try_hold, KEY).result() is None
        assert another_thread.submit(store.write, ENTRY).result()
        another_thread.submit(hold.release).result()
    assert time.monotonic() - before < 5
    again = store.try_hold(KEY)
    assert again is not None
    again.release()


def test_who_waits_too_long_goes_ahead(store: Store) -> None:
    entered, done = threading.Event(), threading.Event()

    def hold() -> None:
        with store.once(KEY):
            entered.set()
            done.wait(30)

    holder = threading.Thread(target=hold)
    holder.start()
    entered.wait(30)
    before = time.monotonic()
    with store.once(KEY, wait=0.2):
        waited = time.monotonic() - before
    done.set()
    holder.join()
    assert 0.15 < waited < 10


def test_a_killed_holder_lets_go(store: Store) -> None:
    code = """
        import os, sys
        from pathlib import Path
        from inductor_npu.cache.entry import Key
        from inductor_npu.cache.store import Store
        with Store(Path(sys.argv[1])).once(Key("kernel", {"source": "abc", "triton": "3.6.0"})):
            os.kill(os.getpid(), 9)
    """
    killed = subprocess.run([sys.executable, "-c", textwrap.dedent(code), str(store.folder)], timeout=60, check=False)
    assert killed.returncode == -9
    before = time.monotonic()
    with store.once(KEY):
        assert time.monotonic() - before < 5


def test_many_may_write_one_entry_at_once(store: Store, tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(lambda _: store.write(ENTRY), range(40)))
    assert store.read(KEY) == ENTRY
    assert len(files_of(tmp_path)) == 1  # no unfinished file is left


# ---- limits


def age(store: Store, key: Key, seconds: float) -> None:
    """Lets the entry of `key` look as if it was last used at `seconds`."""
    (listed,) = [listed for listed in store.listed() if listed.digest == key.digest]
    os.utime(listed.path, (seconds, seconds))


def test_what_was_not_used_for_longest_goes_first(store: Store) -> None:
    several = keys(3)
    for index, key in enumerate(several):
        store.write(Entry(key, b"x" * 100))
        age(store, key, LONG_AGO - index)
    size = next(store.listed()).size
    age(store, several[2], LONG_AGO + 1)

    assert store.prune(limit=2 * size) == (1, size)

    assert [store.read(key) is None for key in several] == [False, True, False]


def test_what_is_in_use_stays_whatever_the_limit(store: Store) -> None:
    several = keys(4)
    read_now, _written_now, compiled_now, unused = several
    for key in several:
        store.write(Entry(key, b"x"))
    for key in (read_now, compiled_now, unused):
        age(store, key, LONG_AGO)
    store.read(read_now)

    with ThreadPoolExecutor(1) as another_thread, store.once(compiled_now):
        another_thread.submit(store.prune, 0).result()

    assert [store.read(key) is None for key in several] == [False, False, False, True]


def test_writing_trims(tmp_path: Path) -> None:
    store = Store(tmp_path, limit=4000)
    for key in keys(20):
        store.write(Entry(key, b"x" * 900))
        age(store, key, LONG_AGO)
    store.write(Entry(KEY, b"x" * 900))
    assert sum(listed.size for listed in store.listed()) <= 4000 + 1100
    assert store.read(KEY) is not None


def test_what_killed_writers_left_goes(store: Store, tmp_path: Path) -> None:
    store.write(ENTRY)
    unfinished = store.folder / "unfinished"
    (unfinished / "old").write_bytes(b"x")
    os.utime(unfinished / "old", (LONG_AGO, LONG_AGO))
    (unfinished / "new").write_bytes(b"x")
    store.prune()
    assert [path.name for path in unfinished.iterdir()] == ["new"]
    assert [entry.key for _, entry in store.entries() if isinstance(entry, Entry)] == [KEY]


def test_clearing_takes_all_or_one_kind(store: Store) -> None:
    verdict = Key("verdict", {"kernel": "abc"})
    for key in (KEY, verdict):
        store.write(Entry(key, b""))
    assert store.clear("verdict") == 1
    assert store.read(KEY) is not None
    assert store.clear() == 1
    assert list(store.listed()) == []


def test_a_folder_that_is_not_there_needs_no_trimming(store: Store) -> None:
    assert store.prune(limit=0) == (0, 0)
    assert store.clear() == 0
