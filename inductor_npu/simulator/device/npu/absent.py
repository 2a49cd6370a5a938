"""The names of torch_npu's `torch.npu` that this one lacks, with the reason that the error gives."""

from __future__ import annotations

_GRAPH = "a captured graph of the embedded NPU has no tasks that could be changed afterwards: capture it again"
_LEGACY = 'it is PyTorch\'s old way to name a type; use dtype= and device="npu"'
_SHARED = "nothing is left to collect: memory that other processes have is given back when it is free"
_POOL = "the embedded NPU has one caching allocator, which cannot be exchanged"
_PINNED = "no statistics are kept of pinned host memory"
_CHIP = "it is about a physical chip or the software that drives one"
_CANN = "it is an option of CANN, which the embedded NPU does not use"

_NAMES = {
    _GRAPH: """graph_task_group_begin graph_task_group_end
        graph_task_update_begin graph_task_update_end super_kernel_scope_begin super_kernel_scope_end NpuGraphOpHandler
        register_npu_graph_handler ExternalEvent""",
    _LEGACY: """BoolTensor ByteTensor CharTensor ShortTensor IntTensor LongTensor HalfTensor BFloat16Tensor FloatTensor
        DoubleTensor BoolStorage ByteStorage CharStorage ShortStorage IntStorage LongStorage HalfStorage
        BFloat16Storage FloatStorage DoubleStorage""",
    _POOL: "NPUPluggableAllocator change_current_allocator empty_virt_addr_cache",
    _SHARED: "ipc_collect",
    _PINNED: """host_empty_cache host_memory_stats host_memory_stats_as_nested_dict reset_accumulated_host_memory_stats
        reset_peak_host_memory_stats""",
    _CHIP: """stress_detect stop_device restart_device check_uce_in_memory set_device_limit get_device_limit
        set_stream_limit get_stream_limit reset_stream_limit current_blas_handle npurt mstx set_op_timeout_ms
        get_npu_overflow_flag clear_npu_overflow_flag obfuscation_initialize obfuscation_calculate
        obfuscation_finalize""",
    _CANN: """init_dump set_dump finalize_dump set_aoe set_option CubeMathType set_mm_bmm_format_nd get_mm_bmm_format_nd
        SyncLaunchStream set_sync_debug_mode get_sync_debug_mode use_compatible_impl are_compatible_impl_enabled
        set_deterministic_level enable_deterministic_with_backward disable_deterministic_with_backward""",
}
REASONS = {name: reason for reason, names in _NAMES.items() for name in names.split()}
