"""The cache under stress: processes killed at random moments, and many that write, read, prune and clear one folder.

    python -m tests.cache.stress [--kills N] [--processes N] [--seconds N] [--seconds-of-values N]

First with values that follow from their keys, so that a wrong one is known as such; a value takes a while to make and
is large enough for a kill to meet it half-written. Then with real kernels (crowd.py). Ends with status 1, and says why,
if anything was wrong.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import random
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from multiprocessing.synchronize import Event
from pathlib import Path

from inductor_npu.cache.entry import Entry, Key
from inductor_npu.cache.store import Store
from tests.cache.findings import Findings, as_if_later

KEYS = 24
VALUE_BYTES = 400_000
LIMIT = KEYS * VALUE_BYTES // 2
MOST_SECONDS_ALIVE = 0.05
ENDING_SECONDS = 120

# A process for each: of one that was forked, killing leaves nothing behind but what it did to the folder.
_context = multiprocessing.get_context("fork")


def key(number: int) -> Key:
    return Key("kernel", {"source": str(number)})


def value(number: int) -> bytes:
    """The content that belongs to a key; takes some milliseconds to make."""
    return b"".join(hashlib.sha512(f"{number} {part}".encode()).digest() for part in range(VALUE_BYTES // 64))


def get(store: Store, number: int) -> bytes:
    """As a kernel is got: read, or made by one and read by the others."""
    entry = store.read(key(number))
    if entry is None:
        with store.once(key(number)):
            entry = store.read(key(number))
            if entry is None:
                entry = Entry(key(number), value(number))
                store.write(entry)
    return entry.content


def kill_many(folder: Path, kills: int, seed: int = 0) -> Findings:
    """Kills `kills` processes at random moments while they fill `folder`; after each, all that is there must be right,
    and this process must get a value, soon.
    """
    chance = random.Random(seed)
    found = Findings()
    store, expected = Store(folder), {number: value(number) for number in range(KEYS)}
    slowest = 0.0
    unfinished = 0
    for _ in range(kills):
        victim = _context.Process(target=_fill, args=(folder, chance.random()))
        victim.start()
        time.sleep(chance.uniform(0, MOST_SECONDS_ALIVE))
        victim.kill()
        victim.join()
        if victim.exitcode != -signal.SIGKILL:
            found.wrong.append(f"a process ended with {victim.exitcode}")
        unfinished = max(unfinished, len(list((folder / "unfinished").glob("*"))))
        for listed, entry in store.entries():
            if not isinstance(entry, Entry) or entry.content != expected[int(entry.key.fields["source"])]:
                found.wrong.append(f"{listed.path}: {entry}")
        number = chance.randrange(KEYS)
        before = time.monotonic()
        if get(store, number) != expected[number]:
            found.wrong.append(f"a wrong value for key {number}")
        slowest = max(slowest, time.monotonic() - before)
        if chance.random() < 0.3:
            store.clear()
    found.done = {"kills": kills, "unfinished files at the end": unfinished}
    found.done["milliseconds for the slowest value after a kill"] = round(slowest * 1000)
    return found


def _fill(folder: Path, seed: float) -> None:
    """Fills the folder for ever."""
    chance = random.Random(seed)
    store = Store(folder)
    while True:
        get(store, chance.randrange(KEYS))
        if chance.random() < 0.05:
            store.clear()


def run_together(folder: Path, processes: int, seconds: float) -> Findings:
    """Lets `processes` get, prune, clear and verify in `folder` for `seconds`: nothing may fail, warn or be wrong."""
    stop = _context.Event()
    results: multiprocessing.Queue[tuple[list[str], dict[str, int]]] = _context.Queue()
    workers = [_context.Process(target=_work, args=(folder, seed, stop, results)) for seed in range(processes)]
    for worker in workers:
        worker.start()
    time.sleep(seconds)
    stop.set()
    found = Findings(done={"processes": processes, "seconds": round(seconds)})
    for _ in workers:
        wrong, done = results.get(timeout=ENDING_SECONDS)
        found.wrong += wrong
        for what, number in done.items():
            found.done[what] = found.done.get(what, 0) + number
    for worker in workers:
        worker.join()
        if worker.exitcode != 0:
            found.wrong.append(f"a process ended with {worker.exitcode}")
    return found


def _work(
    folder: Path, seed: int, stop: Event, results: multiprocessing.Queue[tuple[list[str], dict[str, int]]]
) -> None:
    chance = random.Random(seed)
    wrong: list[str] = []
    done = {"values": 0, "made": 0, "prunes": 0, "evicted": 0, "clears": 0, "verified": 0}
    store = Store(folder, LIMIT)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        while not stop.is_set():
            try:
                _step(store, chance, done, wrong.append)
            except Exception as error:  # noqa: BLE001 - any failure at all is what this looks for
                wrong.append(f"{type(error).__name__}: {error}")
    wrong += [str(warning.message) for warning in told]
    results.put((wrong, done))


def _step(store: Store, chance: random.Random, done: dict[str, int], complain: Callable[[str], None]) -> None:
    action = chance.random()
    if action < 0.9:
        number = chance.randrange(KEYS)
        done["made"] += store.read(key(number)) is None
        done["values"] += 1
        if get(store, number) != value(number):
            complain(f"a wrong value for key {number}")
    elif action < 0.95:
        done["prunes"] += 1
        done["evicted"] += as_if_later(store).prune()[0]
    elif action < 0.97:
        store.clear()
        done["clears"] += 1
    else:
        for listed, entry in store.entries():
            done["verified"] += 1
            if not isinstance(entry, Entry):
                complain(f"{listed.path}: {entry}")


def main() -> int:
    """The whole, with the numbers on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--processes", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=600, help="how long a crowd compiles real kernels")
    parser.add_argument("--kills-of-compilers", type=int, default=60, help="how many of that crowd are killed")
    parser.add_argument("--seconds-of-values", type=float, default=120, help="how long a crowd stores values")
    options = parser.parse_args()

    def with_kernels() -> Findings:
        from tests.cache.crowd import compile_together  # imports torch, which the other parts do without

        return compile_together(folder / "kernels", options.processes, options.seconds, options.kills_of_compilers)

    found: list[Findings] = []
    with tempfile.TemporaryDirectory(prefix="inductor-npu-stress-") as name:
        folder = Path(name)
        for part in (
            lambda: kill_many(folder / "kills", options.kills),
            lambda: run_together(folder / "values", options.processes, options.seconds_of_values),
            with_kernels,
        ):
            found.append(part())
            print(found[-1], flush=True)
    return 1 if any(each.wrong for each in found) else 0


if __name__ == "__main__":
    sys.exit(main())
