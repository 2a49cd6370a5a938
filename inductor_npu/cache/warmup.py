"""Compiles ahead in processes that start together, such as ranks: one compiles, the others wait and load.

The process that gets a lock in the cache directory compiles. If it dies, it releases the lock and the next process
takes over. Finished work leaves a mark there. Locks and marks decide only who waits, never what is compiled or loaded.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType
from typing import Any

import torch
from torch._dynamo.utils import counters
from torch.utils import _pytree as pytree

from inductor_npu.cache import kernels
from inductor_npu.cache.entry import Entry, Key
from inductor_npu.cache.kernel_key import environment, generated_with
from inductor_npu.cache.location import graph_store
from inductor_npu.cache.misses import NAME
from inductor_npu.cache.shared_graphs import shared
from inductor_npu.cache.turns import KIND, Turns
from inductor_npu.errors import NpuWarning
from inductor_npu.support import one_call

_INDUCTOR = "inductor"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Warmup:
    """What a process did while it warmed up.

    `graphs` and `kernels` were `compiled` here, or `loaded` from a cache. `waited`: seconds in which another process
    compiled; `seconds`: from beginning to end, with that. `timed_out`: that it waited in vain, and went ahead.
    """

    graphs_compiled: int
    graphs_loaded: int
    kernels_compiled: int
    kernels_loaded: int
    waited: float
    seconds: float
    timed_out: bool

    def __str__(self) -> str:
        late = ", which took too long" if self.timed_out else ""
        return (
            f"compiled {self.graphs_compiled} graphs and {self.kernels_compiled} kernels, loaded {self.graphs_loaded} "
            f"and {self.kernels_loaded}, in {self.seconds:.1f} s, {self.waited:.1f} of which waited for another "
            f"process{late}"
        )


def warm_up(
    function: Callable[..., Any], examples: Sequence[Any], keywords: Mapping[str, Any], backward: bool, wait: float
) -> Warmup:
    """`inductor_npu.warmup`: see there."""
    tensors = one_call.tensors_of(function, (examples, keywords))
    fields = _fields(function, examples, keywords, backward)
    turns = Turns(wait)
    # Ranks that are connected may wait for each other inside the call: only its graphs can take turns.
    connected = torch.distributed.is_available() and torch.distributed.is_initialized()
    before, began = _counts(), time.monotonic()
    with one_call.undone(function, tensors), shared(turns) if connected else _as_one_piece(turns, fields):
        one_call.call(function, examples, keywords, backward)
        for device in one_call.devices_of(tensors):
            torch.get_device_module(device).synchronize(device)
    done = {name: number - before[name] for name, number in _counts().items()}
    record = Warmup(**done, waited=turns.waited, seconds=time.monotonic() - began, timed_out=turns.timed_out)
    log.info("warm-up of %s: %s", fields["function"], record)
    if not any(done.values()) and not one_call.is_compiled(function):
        warnings.warn(
            f"nothing of {fields['function']} was compiled for device npu: give warmup() what torch.compile returned",
            NpuWarning,
            stacklevel=3,
        )
    return record


@contextmanager
def _as_one_piece(turns: Turns, fields: Mapping[str, str]) -> Iterator[None]:
    """Lets one process do the work first. It leaves a mark once it is done; one that fails leaves none."""
    store, mark = graph_store(), Key(KIND, fields)
    hold = turns.take(store, mark, lambda: store.read(mark) is not None)
    try:
        yield
        if hold is not None:
            store.write(Entry(mark, b"", {NAME: fields["function"]}))
    finally:
        if hold is not None:
            hold.release()


def _counts() -> dict[str, int]:
    of_graphs, of_kernels = counters[_INDUCTOR], counters[kernels.COUNTERS]
    return {
        "graphs_compiled": of_graphs["fxgraph_cache_miss"] + of_graphs["fxgraph_cache_bypass"],
        "graphs_loaded": of_graphs["fxgraph_cache_hit"],
        "kernels_compiled": of_kernels["miss"] + of_kernels["unused"],
        "kernels_loaded": of_kernels["hit"],
    }


# ---- which piece of work it is


def _fields(
    function: Callable[..., Any], examples: Sequence[Any], keywords: Mapping[str, Any], backward: bool
) -> dict[str, str]:
    """What tells one piece of work from another. It need not be exact: too little makes processes wait for each other
    that compile different things, too much lets them compile the same at once.
    """
    module = one_call.module_of(function)
    state = [] if module is None else [*module.named_parameters(), *module.named_buffers()]
    leaves, structure = pytree.tree_flatten((tuple(examples), dict(keywords)))
    return {
        "function": one_call.name_of(function),
        "code": _hash([_code_text(code) for code in _codes(function)]),
        "state": _hash([f"{name} {_signature(value)}" for name, value in state]),
        "examples": _hash([str(structure), *map(_signature, leaves)]),
        "gradients": f"{torch.is_grad_enabled()} {backward}",
        "versions": _hash([json.dumps({**environment(), **generated_with()}, sort_keys=True)]),
    }


def _signature(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{value.dtype} {tuple(value.shape)} {value.stride()} {value.device} {value.requires_grad}"
    return repr(value) if isinstance(value, (bool, int, float, str, type(None))) else type(value).__qualname__


def _codes(function: Callable[..., Any]) -> Iterator[CodeType]:
    """The code of `function`, or of the methods `forward` of a module and of all below it."""
    module = one_call.module_of(function)
    called = [one_call.unwrapped(function)] if module is None else [type(part).forward for part in module.modules()]
    for each in dict.fromkeys(called):
        code = getattr(each, "__code__", None)
        if code is not None:
            yield code


def _code_text(code: CodeType) -> str:
    constants = [_constant_text(value) for value in code.co_consts]
    return repr((code.co_code, code.co_names, code.co_varnames, constants))


def _constant_text(value: object) -> str:
    """The same in every process, which the order of a set is not."""
    if isinstance(value, CodeType):
        return _code_text(value)
    return repr(sorted(map(repr, value))) if isinstance(value, frozenset) else repr(value)


def _hash(texts: Sequence[str]) -> str:
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()[:16]
