"""The Python module `torch.npu` of the embedded NPU, with the surface of torch_npu's.

Importing it loads nothing. The first function that needs the C++ device builds or loads it, and opens it (`_lazy_init`,
which PyTorch itself also calls for the first tensor on the device). `install` makes the module `torch.npu`. absent.py
lists what only torch_npu or torch.cuda has, and why.
"""

from __future__ import annotations

import sys

import torch

from inductor_npu.device import build
from inductor_npu.device.npu import (
    absent,
    amp,
    backends,
    collectives,
    graphs,
    memory,
    optimizers,
    parameters,
    random,
    sharing,
    streams,
)
from inductor_npu.device.npu.amp import (
    get_autocast_dtype,
    is_autocast_enabled,
    set_autocast_dtype,
    set_autocast_enabled,
)
from inductor_npu.device.npu.devices import (
    NpuDeviceProperties,
    _exchange_device,
    _maybe_exchange_device,
    can_device_access_peer,
    current_device,
    device,
    device_count,
    device_of,
    get_amp_supported_dtype,
    get_device_capability,
    get_device_name,
    get_device_properties,
    is_available,
    is_bf16_supported,
    set_device,
    synchronize,
    utilization,
)
from inductor_npu.device.npu.graphed_callables import make_graphed_callables
from inductor_npu.device.npu.graphs import (
    MemPool,
    NPUGraph,
    graph,
    graph_pool_handle,
    is_current_stream_capturing,
    use_mem_pool,
)
from inductor_npu.device.npu.memory import (
    caching_allocator_alloc,
    caching_allocator_delete,
    device_memory_used,
    empty_cache,
    get_allocator_backend,
    get_per_process_memory_fraction,
    host_empty_cache,
    host_memory_stats,
    host_memory_stats_as_nested_dict,
    max_memory_allocated,
    max_memory_cached,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_cached,
    memory_reserved,
    memory_snapshot,
    memory_stats,
    memory_stats_as_nested_dict,
    memory_summary,
    reset_accumulated_host_memory_stats,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_max_memory_cached,
    reset_peak_host_memory_stats,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
)
from inductor_npu.device.npu.options import config, conv, is_jit_compile_false, matmul, set_compile_mode
from inductor_npu.device.npu.random import (
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from inductor_npu.device.npu.runtime import _is_in_bad_fork, _lazy_call, _lazy_init, init, is_initialized
from inductor_npu.device.npu.streams import (
    Event,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    set_stream,
    stream,
)
from inductor_npu.device.npu.sync_debug import get_sync_debug_mode, set_sync_debug_mode
from inductor_npu.errors import PrivateUse1TakenError

__all__ = [
    "Event",
    "MemPool",
    "NPUGraph",
    "NpuDeviceProperties",
    "Stream",
    "StreamContext",
    "amp",
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "can_device_access_peer",
    "config",
    "conv",
    "current_device",
    "current_stream",
    "default_generators",
    "default_stream",
    "device",
    "device_count",
    "device_memory_used",
    "device_of",
    "empty_cache",
    "get_allocator_backend",
    "get_amp_supported_dtype",
    "get_autocast_dtype",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_per_process_memory_fraction",
    "get_rng_state",
    "get_rng_state_all",
    "get_sync_debug_mode",
    "graph",
    "graph_pool_handle",
    "graphs",
    "host_empty_cache",
    "host_memory_stats",
    "host_memory_stats_as_nested_dict",
    "init",
    "initial_seed",
    "install",
    "is_autocast_enabled",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "is_jit_compile_false",
    "make_graphed_callables",
    "manual_seed",
    "manual_seed_all",
    "matmul",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "random",
    "reset_accumulated_host_memory_stats",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_host_memory_stats",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_autocast_dtype",
    "set_autocast_enabled",
    "set_compile_mode",
    "set_device",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "set_sync_debug_mode",
    "stream",
    "streams",
    "synchronize",
    "use_mem_pool",
    "utilization",
]

# What PyTorch asks of a device module by these names.
_PRIVATE = (_exchange_device, _maybe_exchange_device, _is_in_bad_fork, _lazy_call, _lazy_init)

# What compiled code calls, by names in the extension module: the C functions themselves.
_OF_EXTENSION = {"_DeviceGuard": "DeviceGuard", "_set_device": "set_current_device"}

# Functions whose results are constants of a graph in compiled code. They depend on the process's settings alone.
CONSTANT_FUNCTIONS = (
    can_device_access_peer,
    device_count,
    get_device_capability,
    get_device_name,
    get_device_properties,
    is_available,
    is_bf16_supported,
)

# What torch calls its slot for a device from outside while nobody, or nobody but us, has it.
_FREE_NAMES = ("privateuseone", "npu")


def install() -> None:
    """Makes this module `torch.npu` and gives tensors, storages and modules `.npu()` and `is_npu`.

    Doing it again changes nothing. A device that is built already is loaded with it, which takes milliseconds and
    starts nothing. One that must be built first waits for the first tensor: PyTorch asks `_lazy_init` for it then, but
    not for everything (a torch.Stream, say, must find the device known).

    Raises PrivateUse1TakenError if another package already owns torch's one slot for a device from outside.
    """
    module = sys.modules[__name__]
    if getattr(torch, "npu", None) is module:
        return
    owner = torch._C._get_privateuse1_backend_name()
    if owner not in _FREE_NAMES or any(hasattr(torch, name) for name in _FREE_NAMES):
        raise PrivateUse1TakenError(owner=owner)
    build.load_if_built()
    if owner != "npu":
        torch.utils.rename_privateuse1_backend("npu")
    torch._register_device_module("npu", module)
    parameters.register()
    sharing.register()
    collectives.register()
    optimizers.refuse_steps_that_cannot_be_captured()
    for submodule in (amp, graphs, memory, random, streams):
        sys.modules[f"torch.npu.{submodule.__name__.rpartition('.')[2]}"] = submodule
    sys.modules["torch.backends.npu"] = torch.backends.npu = backends
    torch.utils.generate_methods_for_privateuse1_backend(for_packed_sequence=True, for_storage=True)


def __getattr__(name: str) -> object:
    if name == "default_generators":
        return random.default_generators()
    if name == "_initialized":  # torch.utils.checkpoint asks so whether there are random states to keep
        return is_initialized()
    if name in _OF_EXTENSION:
        globals()[name] = getattr(build.load(), _OF_EXTENSION[name])  # found without this function from here on
        return globals()[name]
    reason = absent.REASONS.get(name)
    raise AttributeError(f"module 'torch.npu' has no attribute {name!r}" + (f": {reason}" if reason else ""))
