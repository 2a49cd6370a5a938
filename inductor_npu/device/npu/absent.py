"""The names of torch.cuda and of torch_npu's `torch.npu` that this one lacks, with the reason that the error gives.

docs/torch-npu-module.md is the table of all names.
"""

from __future__ import annotations

_ALLOCATOR = "the embedded NPU has one caching allocator, which cannot be exchanged or turned off"
_ARCH = "kernels are compiled for one target, whose name is torch.npu.get_device_name()"
_CANN = "it is an option of CANN, which the embedded NPU does not use"
_CHIP = "it is about a physical chip or the software that drives one"
_CUDA = "it is a part of CUDA's own libraries"
_GRAPH = "a captured graph of the embedded NPU has no tasks that could be changed afterwards: capture it again"
_GRAPH_DUMP = "the parts of a captured graph are written by torch.npu.NPUGraph.debug_dump"
_GRAPH_NAME = "it is torch.npu.NPUGraph"
_JITERATOR = "its kernels are CUDA C++: write Triton kernels"
_LEGACY = 'it is PyTorch\'s old way to name a type; use dtype= and device="npu"'
_MEMORY_BUS = "no memory bus has a load to ask for; torch.npu.utilization is the share of time with work"
_NVTX = "use torch.profiler.record_function"
_PROCESSES = "a process has its embedded NPU to itself: torch.npu.memory_allocated is all there is"
_PROFILER = "use torch.profiler"
_SHARED = "nothing is left to collect: memory that other processes have is given back when it is free"
_STREAMS = "each stream of the embedded NPU is PyTorch's own: use that object"
_TF32 = "float32 keeps its precision here; the permission to round is torch.npu.matmul.allow_hf32"
_TUNABLE = 'use torch.compile(mode="max-autotune")'

_NAMES = {
    _ALLOCATOR: """NPUPluggableAllocator CUDAPluggableAllocator change_current_allocator empty_virt_addr_cache
        caching_allocator_disabled caching_allocator_enable""",
    _ARCH: "get_arch_list get_gencode_flags",
    _CANN: """init_dump set_dump finalize_dump set_aoe set_option CubeMathType set_mm_bmm_format_nd get_mm_bmm_format_nd
        SyncLaunchStream use_compatible_impl are_compatible_impl_enabled set_task_queue_enable get_task_queue_enable
        set_deterministic_level enable_deterministic_with_backward disable_deterministic_with_backward""",
    _CHIP: """stress_detect stop_device restart_device check_uce_in_memory set_device_limit get_device_limit
        set_stream_limit get_stream_limit reset_stream_limit current_blas_handle current_solver_handle npurt mstx
        set_op_timeout_ms get_npu_overflow_flag clear_npu_overflow_flag obfuscation_initialize obfuscation_calculate
        obfuscation_finalize clock_rate power_draw temperature""",
    _CUDA: """CudaError DeferredCudaCallError GreenContext check_error cudaStatus cudart has_half has_magma nccl
        sparse""",
    _GRAPH: """graph_task_group_begin graph_task_group_end
        graph_task_update_begin graph_task_update_end super_kernel_scope_begin super_kernel_scope_end NpuGraphOpHandler
        register_npu_graph_handler ExternalEvent""",
    _GRAPH_DUMP: "export_dot export_graph_data graph_annotations",
    _GRAPH_NAME: "CUDAGraph",
    _JITERATOR: "jiterator",
    _LEGACY: """BoolTensor ByteTensor CharTensor ShortTensor IntTensor LongTensor HalfTensor BFloat16Tensor FloatTensor
        DoubleTensor BoolStorage ByteStorage CharStorage ShortStorage IntStorage LongStorage HalfStorage
        BFloat16Storage FloatStorage DoubleStorage ComplexDoubleStorage ComplexFloatStorage""",
    _MEMORY_BUS: "memory_usage",
    _NVTX: "nvtx",
    _PROCESSES: "list_gpu_processes",
    _PROFILER: "profiler",
    _SHARED: "ipc_collect",
    _STREAMS: "ExternalStream get_stream_from_external",
    _TF32: "is_tf32_supported",
    _TUNABLE: "tunable",
}
REASONS = {name: reason for reason, names in _NAMES.items() for name in names.split()}
