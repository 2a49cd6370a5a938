"""A part of a job's store that no earlier attempt of the job has written to.

`torchrun` keeps one store for all attempts (TORCHELASTIC_USE_AGENT_STORE): after a restart, ranks would find addresses
of processes that have ended, and gloo would try to connect to them.
"""

from __future__ import annotations

import os
import time
import uuid
from datetime import timedelta

import torch.distributed as dist

_ASKS_AGAIN = timedelta(milliseconds=100)


def fresh_store(store: dist.Store, rank: int, size: int, timeout: timedelta) -> dist.Store:
    """`store` for this attempt only, the same on all ranks.

    Raises DistStoreError if a rank does not come within `timeout`.
    """
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != str(True):
        return store
    word = _ask(store, size, timeout) if rank == 0 else _answer(store, rank, timeout)
    return dist.PrefixStore(f"{word}/", store)


def _ask(store: dist.Store, size: int, timeout: timedelta) -> str:
    """Agrees on a new word with the other ranks. The question is withdrawn before they go on: who finds one that an
    attempt has left behind waits for its end in vain, and looks again.
    """
    word = uuid.uuid4().hex
    store.set("attempt", word)
    if size > 1:
        store.wait([f"{word}/{rank}" for rank in range(1, size)], timeout)
    store.delete_key("attempt")
    store.set(f"{word}/go", "")
    return word


def _answer(store: dist.Store, rank: int, timeout: timedelta) -> str:
    deadline = time.monotonic() + timeout.total_seconds()
    word = ""
    while True:
        if store.check(["attempt"]):
            word = store.get("attempt").decode()
            store.set(f"{word}/{rank}", "")
        try:
            store.wait([f"{word}/go" if word else "attempt"], _ASKS_AGAIN)
        except dist.DistStoreError:
            if time.monotonic() >= deadline:
                raise
            continue
        if word:
            return word
