"""Writes the table of docs/torch-npu-module.md: each public name of torch.cuda and of torch_npu's `torch.npu`, what the
embedded NPU has for it, and the test that uses it.

    python -m tools.torch_npu_module
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import torch

from inductor_npu.device.npu import absent

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "torch-npu-module.md"
BEGIN, END = "<!-- names: written by python -m tools.torch_npu_module -->", "<!-- end of names -->"

# `torch.cuda.__all__` and `torch.cuda.memory.__all__` of torch 2.11 to 2.15, together.
_CUDA = """
    BFloat16Storage BFloat16Tensor BoolStorage BoolTensor ByteStorage ByteTensor CUDAGraph CUDAPluggableAllocator
    CharStorage CharTensor ComplexDoubleStorage ComplexFloatStorage CudaError DeferredCudaCallError DoubleStorage
    DoubleTensor Event ExternalStream FloatStorage FloatTensor GreenContext HalfStorage HalfTensor IntStorage
    IntTensor LongStorage LongTensor MemPool ShortStorage ShortTensor Stream StreamContext amp
    caching_allocator_alloc caching_allocator_delete caching_allocator_disabled caching_allocator_enable
    can_device_access_peer change_current_allocator check_error clock_rate cudaStatus cudart current_blas_handle
    current_device current_solver_handle current_stream default_generators default_stream device device_count
    device_memory_used device_of empty_cache export_dot export_graph_data get_allocator_backend get_arch_list
    get_device_capability get_device_name get_device_properties get_gencode_flags get_per_process_memory_fraction
    get_rng_state get_rng_state_all get_stream_from_external get_sync_debug_mode graph graph_annotations
    graph_pool_handle graphs has_half has_magma host_memory_stats host_memory_stats_as_nested_dict init initial_seed
    ipc_collect is_available is_bf16_supported is_current_stream_capturing is_initialized is_tf32_supported
    jiterator list_gpu_processes make_graphed_callables manual_seed manual_seed_all max_memory_allocated
    max_memory_cached max_memory_reserved mem_get_info memory memory_allocated memory_cached memory_reserved
    memory_snapshot memory_stats memory_stats_as_nested_dict memory_summary memory_usage nccl nvtx power_draw
    profiler random reset_accumulated_host_memory_stats reset_accumulated_memory_stats reset_max_memory_allocated
    reset_max_memory_cached reset_peak_host_memory_stats reset_peak_memory_stats seed seed_all set_device
    set_per_process_memory_fraction set_rng_state set_rng_state_all set_stream set_sync_debug_mode sparse stream
    streams synchronize temperature tunable use_mem_pool utilization memory._dump_snapshot
    memory._record_memory_history memory._snapshot
"""

# `torch_npu.npu.__all__` of torch_npu 2.13, what PyTorch asks of a device module, and the names of 2.11 and 2.12.
_TORCH_NPU = """
    is_initialized init set_dump synchronize device_count can_device_access_peer set_device current_device
    get_device_name get_device_properties get_device_capability mem_get_info is_available device device_of
    StreamContext stream set_stream current_stream default_stream set_sync_debug_mode get_sync_debug_mode init_dump
    utilization finalize_dump manual_seed manual_seed_all seed seed_all initial_seed caching_allocator_alloc
    caching_allocator_delete get_per_process_memory_fraction set_per_process_memory_fraction empty_cache
    empty_virt_addr_cache memory_stats memory_stats_as_nested_dict reset_accumulated_memory_stats
    reset_peak_memory_stats reset_max_memory_allocated reset_max_memory_cached memory_allocated max_memory_allocated
    memory_reserved max_memory_reserved memory_cached max_memory_cached memory_snapshot memory_summary MemPool
    use_mem_pool get_allocator_backend NPUPluggableAllocator change_current_allocator Stream Event set_option
    CubeMathType set_aoe set_compile_mode set_mm_bmm_format_nd get_mm_bmm_format_nd get_npu_overflow_flag
    clear_npu_overflow_flag stress_detect get_rng_state set_rng_state get_rng_state_all set_rng_state_all
    is_jit_compile_false get_amp_supported_dtype is_autocast_enabled is_bf16_supported set_autocast_enabled
    get_autocast_dtype set_autocast_dtype BoolStorage ByteStorage ShortStorage LongStorage IntStorage HalfStorage
    CharStorage DoubleStorage FloatStorage BoolTensor ByteTensor CharTensor DoubleTensor FloatTensor HalfTensor
    IntTensor LongTensor ShortTensor BFloat16Tensor BFloat16Storage current_blas_handle stop_device restart_device
    check_uce_in_memory config matmul conv enable_deterministic_with_backward disable_deterministic_with_backward
    mstx SyncLaunchStream NPUGraph graph graph_pool_handle is_current_stream_capturing make_graphed_callables
    ExternalEvent ExternalStream graph_task_group_begin graph_task_group_end graph_task_update_begin
    graph_task_update_end set_device_limit get_device_limit set_stream_limit reset_stream_limit get_stream_limit
    ipc_collect obfuscation_initialize obfuscation_finalize obfuscation_calculate set_op_timeout_ms host_empty_cache
    host_memory_stats host_memory_stats_as_nested_dict reset_accumulated_host_memory_stats
    reset_peak_host_memory_stats set_deterministic_level use_compatible_impl are_compatible_impl_enabled
    NpuGraphOpHandler register_npu_graph_handler super_kernel_scope_begin super_kernel_scope_end npurt
    set_task_queue_enable get_task_queue_enable default_generators amp memory._dump_snapshot
    memory._record_memory_history memory._snapshot
"""


OF_CUDA = frozenset(_CUDA.split())
OF_TORCH_NPU = frozenset(_TORCH_NPU.split())


def names() -> list[str]:
    """All names: those of the two modules and ours."""
    ours = {*torch.npu.__all__, "memory.leak_check"} - {"install"}
    return sorted(OF_CUDA | OF_TORCH_NPU | ours, key=lambda name: (name.lower(), name))


def has(name: str) -> bool:
    """Whether our torch.npu has `name`, which may be that of a submodule's function."""
    owner: object = torch.npu
    for part in name.split("."):
        if not hasattr(owner, part):
            return False
        owner = getattr(owner, part)
    return True


def test_of(name: str) -> str | None:
    """The first file below tests/device, else below tests, that uses `torch.npu.<name>`."""
    pattern = re.compile(
        rf"(?<![\w.])(torch\.npu\.{re.escape(name)}|{re.escape(name)})\b(?=[.(]|, )"
        if "." in name
        else rf"torch\.npu\.{name}\b"
    )
    for folder in ("tests/device", "tests"):
        for path in sorted((ROOT / folder).rglob("test_*.py")):
            if pattern.search(path.read_text()):
                return path.relative_to(ROOT).as_posix()
    return None


def table() -> Iterator[str]:
    """The lines of the table. Raises ValueError for a name that is neither there nor in absent.py, or has no test."""
    yield "| Name | torch.cuda | torch_npu | Embedded NPU | Test |"
    yield "| --- | --- | --- | --- | --- |"
    for name in names():
        in_cuda, in_torch_npu = ("x" if name in surface else "" for surface in (OF_CUDA, OF_TORCH_NPU))
        if has(name):
            ours, test = "x", test_of(name)
        else:
            ours, test = absent.REASONS.get(name), "tests/device/test_npu_module_table.py"
        if ours is None:
            raise ValueError(f"torch.npu.{name}: write it, or its reason into absent.py")
        if test is None:
            raise ValueError(f"torch.npu.{name}: no test uses it")
        link = f"[{Path(test).stem}](../{test})"
        yield f"| `{name}` | {in_cuda} | {in_torch_npu} | {ours} | {link} |"


def page() -> str:
    """The page with the table of now."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    return "\n".join([before + BEGIN, *table(), END + rest.partition(END)[2]])


if __name__ == "__main__":
    PAGE.write_text(page())
