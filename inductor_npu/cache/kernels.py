"""Compiled kernels in the cache: a generated module gets them without parsing Triton and without running LLVM.

An entry is Inductor's own form of a compiled kernel, which its compile workers send back: object code, launch data, the
chosen blocks. Like the entries of Inductor's own caches, it is a pickle, and therefore trusted code.
"""

from __future__ import annotations

import functools
import json
import os
import pickle
import uuid
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch._dynamo.utils import counters
from torch._inductor import config as inductor_config
from torch._inductor.runtime.cache_dir_utils import cache_dir
from torch._inductor.virtualized import V

from inductor_npu import config, providers
from inductor_npu.cache import artifact, misses
from inductor_npu.cache.entry import Entry, Key
from inductor_npu.cache.kernel_key import device_index, generated_with, key_of, shown_name
from inductor_npu.cache.location import kernel_store
from inductor_npu.cache.misses import GENERATED_WITH, NAME, changes, explain
from inductor_npu.diagnostics.compile_time import record
from inductor_npu.diagnostics.compile_time.phases import Phase, timed
from inductor_npu.errors import CacheMissError, CacheSettingError
from inductor_npu.support.switches import is_on

ON, OFF, MUST_HIT = "on", "off", "must-hit"
# In torch._dynamo.utils.counters: kernels found, not found, and compiled without looking.
COUNTERS = "inductor_npu_kernel_cache"
# In `Entry.about` of what a child compiled for its parent: a name that both have, another one for each graph.
FAMILY = "family"
_family = ""
# By process, which may have been forked by a user's program, and family: the digests of its entries that were counted.
_counted: dict[tuple[int, str], set[str]] = {}


def find_or_compile(name: str, source: str, compile_kernel: Callable[[], Any]) -> Any:
    """The compiled kernel called `name` in the generated module `source`: from the cache, or by `compile_kernel` (an
    NpuAutotuner, ready to run) and then kept. Of all that ask for it at once, one compiles.

    Raises what `compile_kernel` raises; CacheMissError where it must be in the cache and is not.
    """
    if (reason := why_not_used()) is not None:
        if mode() == MUST_HIT:
            raise CacheMissError(what=f"kernel {name} cannot be looked for", why=reason)
        counters[COUNTERS]["unused"] += 1
        return _compile(compile_kernel)
    store, key = kernel_store(), key_of(name, source)
    kernel = _find(name, source, key)
    if kernel is not None:
        return kernel
    if mode() == MUST_HIT:
        raise CacheMissError(what=f"kernel {name} is not in the cache", why=explain(store, key, name, generated_with()))
    with store.once(key):
        kernel = _find(name, source, key)
        if kernel is None:
            _count_miss(key, name)
            kernel = _compile(compile_kernel)
            kernel.when_chosen(functools.partial(_keep, key, name))
    return kernel


def expect_children() -> None:
    """To be called before this process forks children that compile for it (`compile_for_parent`)."""
    global _family
    _family = uuid.uuid4().hex
    _counted[os.getpid(), _family] = set()


def compile_for_parent(name: str, source: str, compile_kernel: Callable[[], Any]) -> None:
    """Puts the kernel called `name` in the generated module `source` into the cache if it is not there, in a child of
    the process that will ask for it. `compile_kernel` gives an NpuAutotuner that need not be ready to run. Raises what
    it raises.
    """
    store, key = kernel_store(), key_of(name, source)
    if store.has(key):
        return
    with store.once(key):
        if not store.has(key):
            _keep(key, name, compile_kernel(), {FAMILY: _family})


def _is_from_child(entry: Entry) -> bool:
    """Whether a child of this process made `entry`; says so once."""
    counted = _counted.get((os.getpid(), entry.about.get(FAMILY, "")))
    if counted is None or entry.key.digest in counted:
        return False
    counted.add(entry.key.digest)
    return True


def _count_miss(key: Key, name: str) -> None:
    counters[COUNTERS]["miss"] += 1
    misses.remember(key, name)


def _compile(compile_kernel: Callable[[], Any]) -> Any:
    with timed(Phase.TRITON):
        kernel = compile_kernel()
    record.count_kernel("compiled")
    return kernel


def refuse_new_graph(name: str, source: str) -> None:
    """Called while code is generated, which means that Inductor had no graph in its own cache, and has come to the
    kernel called `name`. Raises CacheMissError where everything must be in a cache.
    """
    if mode() != MUST_HIT:
        return
    what = f"Inductor has no graph in its cache with kernel {name}"
    if (reason := why_not_used()) is not None:
        raise CacheMissError(what=what, why=reason)
    store, key = kernel_store(), key_of(name, source)
    entry = store.read(key)
    if entry is None:
        raise CacheMissError(what=what, why=explain(store, key, name, generated_with()))
    changed = changes(generated_with(), json.loads(entry.about[GENERATED_WITH]))
    if changed:
        raise CacheMissError(what=what, why=f"it was generated with other settings: {'; '.join(changed)}")
    raise CacheMissError(
        what=what,
        why=f"the kernel itself is in {store.folder}, so the rest of the graph, its inputs or torch's settings differ, "
        f"or Inductor's cache is not the one in {cache_dir()} (TORCH_LOGS=+torch._inductor.codecache says more)",
    )


def mode() -> str:
    """on, off or must-hit. Raises CacheSettingError if `config.cache` (INDUCTOR_NPU_CACHE) is none of them."""
    if config.cache not in (ON, OFF, MUST_HIT):
        raise CacheSettingError(variable="INDUCTOR_NPU_CACHE", value=config.cache, expected="on, off or must-hit")
    return config.cache


def why_not_used() -> str | None:
    """Why compiled kernels are neither kept nor looked for now; None if they are."""
    if mode() == OFF:
        return "INDUCTOR_NPU_CACHE=off"
    if inductor_config.force_disable_caches:
        return "TORCHINDUCTOR_FORCE_DISABLE_CACHES=1"
    if providers.is_observed():
        return "kernels are being collected for a check"
    for variable in ("TRITON_INTERPRET", "TRITON_KERNEL_OVERRIDE", "TRITON_KERNEL_DUMP", "TRITON_ALWAYS_COMPILE"):
        if is_on(variable):
            return f"{variable} is set"
    return None


def _find(name: str, source: str, key: Key) -> Any | None:
    """The kernel of `key`, ready to run, or None."""
    store = kernel_store()
    entry = store.read(key)
    if entry is None:
        return None
    try:
        kernel = _revive(name, source, entry.content)
    except Exception as error:  # noqa: BLE001 - whatever is wrong with it, it is compiled again, with a warning
        store.discard(key, f"{type(error).__name__}: {error}")
        return None
    if _is_from_child(entry):  # which is a part of this compile
        _count_miss(key, name)
        record.count_kernel("compiled")
    else:
        counters[COUNTERS]["hit"] += 1
        record.count_kernel("found")
    artifact.record(entry)
    return kernel


def _revive(name: str, source: str, content: bytes) -> Any:
    """What a compile worker sent back becomes a kernel that can be launched, as in Inductor's parent process."""
    from torch._inductor.codecache import _load_triton_kernel_from_source, get_hash, get_path
    from torch._inductor.runtime.triton_helpers import set_driver_to_gpu

    set_driver_to_gpu()
    kernel = pickle.loads(content)
    kernel.restore_after_unpickle(None)
    kernel.move_to(device_index(source))
    kernel.rename(name, shown_name(source) or name)
    kernel.filename = get_path(get_hash(source.strip()), "py")[2]  # where the source is, or would be written
    compile_id = torch._guards.CompileContext.current_compile_id()
    kernel.set_compile_info(compile_id, getattr(V.graph, "is_backward", False))
    kernel.precompile(
        warm_cache_only=False, reload_kernel=functools.partial(_load_triton_kernel_from_source, name, source)
    )
    return kernel


def _keep(key: Key, name: str, kernel: Any, more: Mapping[str, str] = MappingProxyType({})) -> None:
    """Stores `kernel`, an NpuAutotuner of which one choice of blocks is left, with `more` facts."""
    if kernel.inductor_meta.get("store_cubin"):
        return  # Inductor wants all stages of such a kernel, and an entry has the last one only
    about = {NAME: name, GENERATED_WITH: json.dumps(generated_with()), **more}
    entry = Entry(key, kernel.packed(), about)
    kernel_store().write(entry)
    artifact.record(entry)
