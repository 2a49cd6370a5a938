"""Of all processes that need a graph at once, such as ranks, one has Inductor compile it; the others wait and load it.

What tells graphs apart is Inductor's own key: the graph, its inputs' sizes, types and devices, all settings and
versions. Processes that compile different graphs do not wait for each other. A process waits only where it would begin
to compile, so never around a collective of the program, and for one graph at a time: whoever it waits for compiles, and
waits for nobody.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch._dynamo.callback import CallbackArgs, callback_handler
from torch._dynamo.utils import counters
from torch._inductor import config as inductor_config
from torch._inductor.codecache import FxGraphCache

from inductor_npu.cache.entry import Entry, Key
from inductor_npu.cache.location import graph_store
from inductor_npu.cache.misses import NAME
from inductor_npu.cache.store import Hold
from inductor_npu.cache.turns import KIND, Turns
from inductor_npu.support.switches import is_on

VARIABLE = "INDUCTOR_NPU_WARMUP"
# In torch._dynamo.utils.counters: graphs for which this process waited, and those for which it waited in vain.
COUNTERS = "inductor_npu_warmup"
# For one graph. Half of the shortest time-out that process groups have by default: other ranks may be in a collective.
WAIT_SECONDS = 300.0
_INDUCTOR, _MISS = "inductor", "fxgraph_cache_miss"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Turn:
    """A graph that a thread of this process compiles, while other processes wait for it; its entries before that."""

    key: str
    entries: frozenset[str]
    hold: Hold


# Of the call of `warmup` that runs, if one does.
_turns: Turns | None = None
# By the thread's number.
_running: dict[int, _Turn] = {}


class SharedGraphs(FxGraphCache):
    """Inductor's cache of graphs, of which each is compiled by one process at a time."""

    @staticmethod
    def load_with_key(key: str, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        """As Inductor's: what was found, or None, and facts of that. Returns None, if turns are taken, when this
        process may compile, which ends with `_save_graph` or with the compilation.
        """
        return _load_in_turn(key, lambda: FxGraphCache.load_with_key(key, *args, **kwargs))

    @staticmethod
    def _save_graph(*args: Any, **kwargs: Any) -> None:
        try:
            FxGraphCache._save_graph(*args, **kwargs)
        finally:
            _end(threading.get_ident())


@contextmanager
def shared(turns: Turns) -> Iterator[None]:
    """Has this process take `turns` at each graph, whatever INDUCTOR_NPU_WARMUP says."""
    global _turns
    before, _turns = _turns, turns
    try:
        yield
    finally:
        _turns = before


def _load_in_turn(key: str, load: Callable[[], tuple[Any, Any]]) -> tuple[Any, Any]:
    turns = _turns_now()
    if turns is None:
        return load()
    entries, found = _entries(key), load()
    while found[0] is None:
        hold = _take(turns, key, entries)
        now = _entries(key)
        if now == entries:
            if hold is not None:
                _begin(_Turn(key, entries, hold))
            break
        if hold is not None:
            hold.release()
        # What another process has compiled may be for other sizes: then it is this one's turn again.
        counters[_INDUCTOR][_MISS] -= 1
        entries, found = now, load()
    return found


def _turns_now() -> Turns | None:
    """None where nobody has to wait."""
    if _turns is None and not is_on(VARIABLE):
        return None
    if torch._guards.CompileContext.current_compile_id() is None:
        return None  # nothing would say that a compilation which failed is over
    if threading.get_ident() in _running:
        return None  # a graph inside a graph: who holds a lock waits for none
    if not inductor_config.fx_graph_cache or _ranks_meet_while_compiling():
        return None
    return Turns(WAIT_SECONDS) if _turns is None else _turns


def _ranks_meet_while_compiling() -> bool:
    """Whether Inductor's settings have ranks exchange something while they compile, for which all have to compile."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return False
    collectives = getattr(inductor_config, "aten_distributed_optimizations", None)
    return (
        inductor_config.reorder_for_compute_comm_overlap
        or getattr(inductor_config, "distributed_max_autotune_gemm", False)
        or getattr(collectives, "enable_overlap_scheduling", False)
        or getattr(collectives, "spmd_check", False)
    )


def _take(turns: Turns, key: str, entries: frozenset[str]) -> Hold | None:
    store, mark = graph_store(), _mark(key)
    waited, had_timed_out = turns.waited, turns.timed_out
    hold = turns.take(store, mark, lambda: _entries(key) != entries or store.has(mark))
    if turns.waited > waited:
        counters[COUNTERS]["waited"] += 1
        log.info("waited %.1f s for graph %s, which another process compiled", turns.waited - waited, key)
    if turns.timed_out and not had_timed_out:
        counters[COUNTERS]["timed_out"] += 1
    return hold


def _mark(key: str) -> Key:
    """The lock of a graph; as an entry, that the graph cannot be kept, so that nobody need wait for it."""
    return Key(KIND, {"graph": key})


def _entries(key: str) -> frozenset[str]:
    """The files that hold graphs of `key`: one for each set of sizes that it is for."""
    with suppress(OSError):
        return frozenset(name for name in os.listdir(FxGraphCache._get_tmp_dir_for_key(key)) if name[0] != ".")
    return frozenset()


def _begin(turn: _Turn) -> None:
    _running[threading.get_ident()] = turn
    if _compilation_ended not in callback_handler.end_callbacks:  # torch._dynamo.reset() removes it
        callback_handler.register_end_callback(_compilation_ended)


def _compilation_ended(_: CallbackArgs) -> None:
    """Called when no thread compiles any more: turns that still run belong to compilations that failed."""
    for thread in list(_running):
        _end(thread)


def _end(thread: int) -> None:
    turn = _running.pop(thread, None)
    if turn is None:
        return
    try:
        if _entries(turn.key) == turn.entries:
            # It fails everywhere, or everybody has to compile it: one after the other takes longest.
            graph_store().write(Entry(_mark(turn.key), b"", {NAME: f"graph {turn.key}, which cannot be kept"}))
    finally:
        turn.hold.release()
