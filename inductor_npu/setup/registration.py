"""Wires the backend into Dynamo and Inductor: the whole list, in order, on one screen.

Wiring imports nothing. Each step runs right after another party has imported the module that the step needs, so that
`import torch` stays cheap and a process that never compiles pays nothing.
"""

from __future__ import annotations

import functools
import logging
import os
import pkgutil
import sys
import time

from inductor_npu.providers import current_provider
from inductor_npu.setup import arrival, compat
from inductor_npu.support.import_hooks import after_import
from inductor_npu.support.switches import is_on

DEVICE = "npu"


def register() -> None:
    """Registers everything that `torch.compile` needs for device `npu`. Cheap; calling it again changes nothing."""
    _register_once()


@functools.cache
def _register_once() -> None:
    arrival.expect()
    for patch in (*compat.PATCHES, *compat.EXTENSIONS):
        after_import(patch.when, patch.install)
    if is_on("INDUCTOR_NPU_SUMMARY"):
        after_import("torch._dynamo.utils", _summarise_at_exit)
    # Hashes are Inductor's business, which nobody has imported before the backend is registered with `import torch`.
    since = 0.0 if "torch._inductor.codecache" in sys.modules else time.time()
    after_import("torch._dynamo.callback", functools.partial(_take_hashes_early, since))
    after_import("torch._dynamo.callback", _collect_garbage_later)
    after_import("torch._inductor.async_compile", _start_no_needless_pool)
    after_import("torch._inductor.utils", _want_no_multiprocessors)
    after_import("torch.compiler._cache", _register_cache_artifact)
    after_import("torch._dynamo.device_interface", functools.partial(arrival.once_there, register_device_interface))
    after_import("torch._dynamo", functools.partial(arrival.once_there, _name_constants_of_the_device))
    after_import("torch._inductor.runtime.benchmarking", _register_benchmarker)
    # Inductor wants classes, and ours derive from its own: they can be made once all of Inductor is there.
    after_import("torch._inductor.compile_fx", functools.partial(arrival.once_there, _register_codegen))


def _summarise_at_exit() -> None:
    """What is printed when the process ends, for INDUCTOR_NPU_SUMMARY=1."""
    from inductor_npu.diagnostics.explanation.explain import summarise_at_exit

    summarise_at_exit()


def _take_hashes_early(since: float) -> None:
    """What keys of caches need of torch's and Triton's files."""
    from inductor_npu.cache import hashes

    hashes.take_early(since)


def _collect_garbage_later() -> None:
    """Compiling leaves little garbage, and looking for it takes long."""
    from inductor_npu.setup import garbage

    garbage.wait_for_compiles()


def _start_no_needless_pool() -> None:
    """With the first compile Inductor starts a pool of processes for Triton kernels, which import torch. Ours are
    compiled in the process itself (runtime/async_compile.py): only GPUs use the pool, if torch is built for them.
    """
    import torch

    if not (torch.version.cuda or torch.version.hip or torch.version.xpu):
        os.environ.setdefault("TORCH_WARM_POOL", "0")


def _want_no_multiprocessors() -> None:
    """For each matrix product Inductor counts the multiprocessors that CUDA templates want, and warns of too few: npu
    has no templates.
    """
    import torch

    def is_meant(record: logging.LogRecord) -> bool:
        of_a_gpu = record.msg != "Not enough SMs to use max_autotune_gemm mode"
        return of_a_gpu or torch.accelerator.current_accelerator() != torch.device(DEVICE)

    logging.getLogger("torch._inductor.utils").addFilter(is_meant)


def _register_cache_artifact() -> None:
    """What torch.compiler.save_cache_artifacts and load_cache_artifacts carry of ours."""
    from inductor_npu.cache import artifact

    artifact.register()


def register_device_interface() -> None:
    """What Dynamo and Inductor ask of a device: streams, events, guards, properties. The last that registers counts."""
    from torch._dynamo.device_interface import register_interface_for_device

    interface = pkgutil.resolve_name(current_provider().interface)
    register_interface_for_device(DEVICE, interface)
    for index in range(interface.device_count()):
        register_interface_for_device(f"{DEVICE}:{index}", interface)


def _name_constants_of_the_device() -> None:
    """What functions of torch.npu give is a constant of a graph; torch_npu says so of its own ones itself."""
    import torch

    if current_provider().runtime is not None:
        for function in torch.npu.CONSTANT_FUNCTIONS:
            torch.compiler.assume_constant_result(function)


def _register_benchmarker() -> None:
    """How a candidate kernel is timed; torch 2.11 has no such hook (see compat)."""
    from torch._inductor.runtime import benchmarking

    if hasattr(benchmarking, "register_benchmarker"):
        from inductor_npu.device_interface.benchmarker import benchmark_npu

        benchmarking.register_benchmarker(DEVICE, benchmark_npu, override=True)


def _register_codegen() -> None:
    """Which classes generate code for the device, and the knobs that belong into Inductor's cache key."""
    from torch._inductor.codegen.common import (
        get_device_op_overrides,
        register_backend_for_device,
        register_device_op_overrides,
    )

    from inductor_npu import config
    from inductor_npu.codegen.scheduling.npu_scheduling import NpuScheduling
    from inductor_npu.codegen.wrapper.fx_wrapper import NoCppWrapper, NpuFxWrapper
    from inductor_npu.codegen.wrapper.npu_wrapper import NpuWrapper
    from inductor_npu.device_interface.op_overrides import NpuDeviceOpOverrides
    from inductor_npu.lowering import (
        argmax_positions,
        complex_copies,
        contractions,
        encoder_layers,
        grouped_products,
        moved_constants,
        ragged_pools,
        recurrent_cells,
        search_boundaries,
        sums,
    )
    from inductor_npu.lowering.attention import flex, sdpa, torch_npu
    from inductor_npu.lowering.convolutions import operators as convolutions
    from inductor_npu.lowering.graph_passes.passes import NpuGraphPasses

    # Asked for the first time, torch loads what it has for its own devices, but only if nobody has registered anything:
    # without this, generated code for a GPU beside ours would get the CPU's, and not be Python.
    get_device_op_overrides("cpu")
    register_device_op_overrides(DEVICE, NpuDeviceOpOverrides())
    register_backend_for_device(
        DEVICE,
        NpuScheduling,
        NpuWrapper,
        device_cpp_wrapper_codegen=NoCppWrapper,
        device_fx_wrapper_codegen=NpuFxWrapper,
        device_custom_pass=NpuGraphPasses(),
        device_custom_config=config,
    )
    search_boundaries.register()
    complex_copies.register()
    moved_constants.register()
    argmax_positions.register()
    ragged_pools.register()
    sums.register()
    contractions.register()
    convolutions.register()
    encoder_layers.register()
    recurrent_cells.register()
    grouped_products.register()
    sdpa.register()
    flex.register()
    torch_npu.register()
    _register_captures()


def _register_captures() -> None:
    """How mode="reduce-overhead" captures graphs. Torch 2.11 has no such hook (codegen/wrapper/captures.py). A policy
    of the user stays. From torch 2.13 on what is assigned to a configuration holds in the thread that assigns it; the
    default holds in all.
    """
    from torch._inductor import config as inductor_config

    from inductor_npu.support import upstream

    if upstream.has_policies_of_capture() and inductor_config.cudagraph_policy is None:
        from inductor_npu.runtime.graph_capture.policy import NpuGraphPolicy

        entry = inductor_config._config["cudagraph_policy"]
        entry.default = NpuGraphPolicy()
