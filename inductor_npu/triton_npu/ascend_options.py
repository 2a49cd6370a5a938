"""Options of Ascend's compiler that a launch, or a `triton.Config`, has among its keywords.

The embedded NPU does nothing with them; `inductor-npu check` hands them to Ascend's compiler, as a launch on the chip
does.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True)
class AscendOptions:
    """What kernels and autotune configurations written for Ascend's Triton pass to its compiler: fields of its
    `NPUOptions`. Accepted, so that they run here too; they change nothing.
    """

    num_buffers_warp_spec: int = 0
    num_consumer_groups: int = 0
    reg_dec_producer: int = 0
    reg_inc_consumer: int = 0
    multibuffer: bool | None = None
    sync_solver: bool | None = None
    unit_flag: bool | None = None
    inject_barrier_all: bool | None = None
    inject_block_all: bool | None = None
    disable_auto_inject_block_sync: bool | None = None
    limit_auto_multi_buffer_only_for_local_buffer: bool | None = None
    limit_auto_multi_buffer_of_local_buffer: str | None = None
    set_workspace_multibuffer: int | None = None
    tile_mix_vector_loop: int | None = None
    tile_mix_cube_loop: int | None = None
    enable_auto_bind_sub_block: bool | None = None
    enable_hivm_auto_cv_balance: bool | None = None
    enable_linearize: bool | None = None
    enable_nd2nz_on_vector: bool | None = None
    enable_select_analysis: bool | None = None
    force_simt_only: bool | None = None
    force_simt_template: bool | None = None
    compile_mode: str | None = None
    parallel_mode: str | None = None
    stream: int | None = None


def ascend_options(metadata: Any) -> dict[str, Any]:
    """The options that a compiled kernel's launch gave, from its metadata, by name."""
    given = {field.name: getattr(metadata, field.name, field.default) for field in fields(AscendOptions)}
    return {field.name: given[field.name] for field in fields(AscendOptions) if given[field.name] != field.default}
