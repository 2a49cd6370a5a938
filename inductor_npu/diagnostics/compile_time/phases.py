"""The phases of a compile, and which of torch's timed spans belongs to which.

torch times its own steps with `torch._dynamo.utils.dynamo_timed`; `timed` does the same for ours, so that both are in
`torch._dynamo.utils.compile_times()`, in `torch.profiler` and in tlparse's Chrome traces.
"""

from __future__ import annotations

import contextlib
import sys
from enum import Enum


class Phase(str, Enum):
    """What a compile does, in the order in which a cold one does it first. The value is what users read."""

    IMPORTS = "imports of Inductor"
    DYNAMO = "Dynamo"
    AOT_AUTOGRAD = "AOTAutograd"
    GRAPH_CACHE = "graph caches"
    PASSES = "Inductor: passes"
    LOWERING = "Inductor: lowering"
    SCHEDULING = "Inductor: scheduling"
    FUSION = "npu: which loops stay apart"
    TILING = "npu: axes and tiles"
    CODEGEN = "npu: kernel source"
    TUNING = "npu: tuning"
    KERNEL_CACHE = "npu: kernel cache"
    TRITON = "Triton front end"
    LLVM_IR = "embedded NPU: LLVM IR"
    LLVM = "embedded NPU: LLVM"
    LINKING = "embedded NPU: linking"
    CPP = "C++ compiler"
    WRAPPER = "wrapper and loading"
    OTHER = "other"


PREFIX = "inductor_npu."

# torch's spans by name; one that is not listed belongs to the phase of the span around it.
_OF_TORCH = {
    "inductor_import": Phase.IMPORTS,
    "dynamo": Phase.DYNAMO,
    "entire_frame_compile": Phase.DYNAMO,
    "bytecode_tracing": Phase.DYNAMO,
    "build_guards": Phase.DYNAMO,
    "gc": Phase.DYNAMO,
    "backend_compile": Phase.AOT_AUTOGRAD,
    "create_aot_dispatcher_function": Phase.AOT_AUTOGRAD,
    "aot_collect_metadata": Phase.AOT_AUTOGRAD,
    "aot_trace_joint_graph": Phase.AOT_AUTOGRAD,
    "min_cut_rematerialization_partition": Phase.AOT_AUTOGRAD,
    "entire_backward_compile": Phase.AOT_AUTOGRAD,
    "compile_fx_inner": Phase.GRAPH_CACHE,
    "inductor_compile": Phase.GRAPH_CACHE,
    "AOTAutogradCache.inductor_load": Phase.GRAPH_CACHE,
    "inductor_codecache_torch_key": Phase.GRAPH_CACHE,
    "TritonBundler.collect": Phase.GRAPH_CACHE,
    "TritonBundler.read_and_emit": Phase.GRAPH_CACHE,
    "_recursive_pre_grad_passes": Phase.PASSES,
    "_recursive_joint_graph_passes": Phase.PASSES,
    "_recursive_post_grad_passes": Phase.PASSES,
    "additional_fake_tensor_prop": Phase.PASSES,
    "fx_codegen_and_compile": Phase.LOWERING,
    "GraphLowering.run": Phase.LOWERING,
    "Scheduler.__init__": Phase.SCHEDULING,
    "Scheduler.fused_nodes": Phase.SCHEDULING,
    "Scheduler.create_combo_kernel_nodes": Phase.SCHEDULING,
    "Scheduler.codegen": Phase.CODEGEN,
    "GraphLowering.compile_to_fn": Phase.WRAPPER,
    "GraphLowering.compile_to_module": Phase.WRAPPER,
    "code_gen": Phase.WRAPPER,
    "GraphLowering.codegen": Phase.WRAPPER,
    "PythonWrapperCodegen.generate": Phase.WRAPPER,
    "PyCodeCache.load_by_key_path": Phase.WRAPPER,
    "async_compile.precompile": Phase.TRITON,
    "async_compile.wait": Phase.WRAPPER,
    "compile_file": Phase.CPP,
    "CachingAutotuner.benchmark_all_configs": Phase.TUNING,
    "CachingAutotuner.coordinate_descent_tuning": Phase.TUNING,
}
PHASE_OF = {**_OF_TORCH, **{PREFIX + phase.name.lower(): phase for phase in Phase}}


def timed(phase: Phase) -> contextlib.AbstractContextManager[None]:
    """Times the `with` block as a span of `phase`. In a process that has not imported Dynamo nothing is timed: it
    compiles a kernel that a user wrote and launches in eager.
    """
    utils = sys.modules.get("torch._dynamo.utils")
    if utils is None:
        return contextlib.nullcontext()
    return utils.dynamo_timed(PREFIX + phase.name.lower())
