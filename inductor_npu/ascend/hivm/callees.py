"""The functions of Ascend's library that the final IR calls: pipe, instruction, and which part is scalar, and when.

Read from the bitcode that the compiler links (`meta_op.aiv.bc`, `meta_op.aic.bc` of ascendnpu-ir 1.2.0). A function of
this library is one or a few hardware instructions or, for some types, strides and addresses, a loop over single
elements that the IR does not show.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from . import guards
from .access import rows
from .guards import Guard, buffers
from .machine import Known


class Pipe(str, Enum):
    """The queues of an AI core that run side by side."""

    MTE2 = "MTE2"  # device memory -> core
    VECTOR = "V"
    MTE3 = "MTE3"  # core -> device memory
    SCALAR = "S"
    MATRIX = "M"  # the cube, with its MTE1
    FIX = "FIX"  # L0C -> device memory


@dataclass(frozen=True, slots=True)
class Callee:
    """A family of library functions.

    `steps` is how many vector instructions it takes for each pass over its largest operand. `hidden` says what is
    scalar inside for given operands; None: nothing ever.
    """

    pattern: str
    pipe: Pipe
    instruction: str
    steps: float = 1.0
    hidden: Guard | None = None


def find(name: str) -> Callee | None:
    """The family that library function `name` belongs to; None if the table does not know it."""
    return _find(name)


_TYPE = r"(?:u?int(?:8|16|32|64)_t|bfloat16_t|half|float|bool)"
_ELEMENTWISE = r"v(?:add|sub|mul|div|max|min|and|or|not|abs|exp|ln|sqrt|rsqrt|rec|relu)_[123]d_T"
_TABLE = (
    # between device memory and the Unified Buffer
    Callee(r"load_gm_to_ubuf_[123]d_T", Pipe.MTE2, "MOV.OUT.TO.UB.ALIGN", hidden=guards.load),
    Callee(r"store_ubuf_to_gm_[123]d_T", Pipe.MTE3, "MOV.UB.TO.OUT.ALIGN", hidden=guards.store),
    Callee(r"copy_ubuf_to_ubuf_[123]d_T", Pipe.VECTOR, "MOV.UB.TO.UB", hidden=guards.elementwise),
    # cube
    Callee(r"nd2nz_T\w*", Pipe.MTE2, "MOV.OUT.TO.L1.ND2NZ"),
    Callee(r"load_gm_to_cbuf_\w+", Pipe.MTE2, "MOV.OUT.TO.L1"),
    Callee(r"set_l1_[12]d_T", Pipe.MTE2, "SET.2D"),
    Callee(r"mma_tile_\w+", Pipe.MATRIX, "MMAD"),
    Callee(r"fixpipe_\w+", Pipe.FIX, "FIX.L0C.TO.OUT"),
    # elementwise
    Callee(_ELEMENTWISE, Pipe.VECTOR, "V<operation>", hidden=guards.elementwise),
    Callee(r"v(?:adds|muls|maxs|mins|shls|shrs)_vs_[123]d_T", Pipe.VECTOR, "V<operation>S", hidden=guards.elementwise),
    Callee(r"v(?:sub|div)_(?:vs|sv)_[123]d_T", Pipe.VECTOR, "V<operation>", 2, guards.elementwise),
    Callee(r"vxor_[123]d_T", Pipe.VECTOR, "VOR, VAND, VNOT", 4, guards.elementwise),
    Callee(r"vpow_1d_T", Pipe.VECTOR, "VLN, VMUL, VEXP", 3, guards.elementwise),
    Callee(r"vcmps?_(?:eq|ne|lt|le|gt|ge)_1d_T", Pipe.VECTOR, "VCMPV", 1, guards.compare),
    Callee(r"vsel_vv_1d_u?int8_t_u?int64_t", Pipe.VECTOR, "VCMPVS, VSEL", 5, guards.strict(-1)),
    Callee(
        r"vsel_(?:vv|vs|sv|ss)_1d_(?:bool_)?u?int64_t",
        Pipe.SCALAR,
        "scalar loop",
        hidden=guards.always("a 64-bit select has no vector instruction"),
    ),
    Callee(r"vsel_(?:vv|vs|sv|ss)_1d_(?:T_)?T", Pipe.VECTOR, "VSEL", 2, guards.strict(-1)),
    Callee(r"vcast_T_to_T_[12]d_with_mode", Pipe.VECTOR, "VCONV", 1, guards.strict(2)),
    Callee(r"vcast_T_to_T_[12]d_with_temp", Pipe.VECTOR, "VSEL", 2, guards.strict(2)),
    Callee(r"vcast_T_to_T_[12]d_with_overflow(?:_no_size_align)?", Pipe.VECTOR, "VNCHWCONV", 4, guards.strict(2)),
    Callee(r"mul_extended_1d_T", Pipe.VECTOR, "VMUL, VCONV, VREDUCEv2", 8, guards.strict(3)),
    # shape
    Callee(r"broadcast_scalar_T_to_[12]d", Pipe.VECTOR, "MOVEV", 1, guards.fill),
    Callee(r"broadcast_1d_T", Pipe.VECTOR, "MOVEV", 1, guards.fill),
    Callee(r"broadcast_(?:first|middle)_axis_(?:\w+_)?[23]d_T", Pipe.VECTOR, "VCOPY"),
    Callee(r"broadcast_last_axis_(?:\w+_)?[23]d_T", Pipe.VECTOR, "VBRCB, VCOPY", 1),
    Callee(
        r"arange_[123]d_u?int64_t",
        Pipe.SCALAR,
        "scalar loop",
        hidden=guards.always("a 64-bit addition has no vector instruction"),
    ),
    Callee(r"arange_[123]d_T", Pipe.VECTOR, "VADDS"),
    Callee(r"transpose_[23]d_with_last_axis_T", Pipe.VECTOR, "VNCHWCONV", 2, guards.strict(2)),
    Callee(r"transpose_3d_without_last_axis_T", Pipe.VECTOR, "MOV.UB.TO.UB"),
    Callee(r"deinterleave_channel_\d_from_2_channels_[12]d_T", Pipe.VECTOR, "VREDUCEv2", 1, guards.strict(2)),
    Callee(r"deinterleave_channel_\d_from_n_channels_[12]d_T", Pipe.VECTOR, "VREDUCEv2"),
    Callee(r"interleave_1d_T", Pipe.VECTOR, "VBRCB, VREDUCEv2, VSEL", 6, guards.strict(3)),
    Callee(
        r"flip_1d_T",
        Pipe.SCALAR,
        "scalar loop",
        hidden=guards.always("a reversal has no vector instruction"),
    ),
    Callee(r"gather_1d_T", Pipe.VECTOR, "VMULS, VADDS, VGATHER", 10, guards.strict(3)),
    Callee(r"vgathermask_1d_T", Pipe.VECTOR, "VREDUCEv2"),
    # reductions and scans
    Callee(r"enablevcg?_reduce_(?:sum|max|min)_r_T", Pipe.VECTOR, "VCGADD/VCMAX", 1.5, guards.strict(1)),
    Callee(r"enablevcg?_reduce_(?:sum|max|min)_a?ar_T", Pipe.VECTOR, "VCGADD/VCMAX", 1.5, guards.strict(1, True)),
    Callee(
        r"reduce_(?:sum|max|min|prod|andi|ori|xori)_(?:aar|ar|r)_T", Pipe.VECTOR, "V<operation>", 2, guards.row_tails
    ),
    Callee(
        r"reduce_(?:sum|max|min|prod|andi|ori|xori)_(?:ra|ara|ra0a1)_T",
        Pipe.VECTOR,
        "V<operation>",
        1,
        guards.strict(1),
    ),
    Callee(r"reduce_(?:max|min)_with_index_\w+_r_T", Pipe.VECTOR, "VCMAX/VCMIN", 2, guards.strict(1)),
    Callee(r"reduce_(?:max|min)_with_index_\w+_ar_T", Pipe.VECTOR, "VCMAX/VCMIN", 2, guards.strict(1, True)),
    Callee(r"reduce_(?:max|min)_with_index_\w+_ra_T", Pipe.VECTOR, "VMAX, VCMPV, VSEL", 4, guards.strict(1)),
    Callee(r"cum(?:sum|prod)_(?:ra|ara)(?:_reverse)?_T", Pipe.VECTOR, "VADD/VMUL"),
    Callee(r"sort_(?:with_index_)?1d_T", Pipe.VECTOR, "VBS32, VMRGSORT", 8),
    # locks of atomics that the hardware has not
    Callee(r"(?:sync_block_(?:un)?lock|free_lock_var)(?:_with_subblock)?", Pipe.SCALAR, "scalar"),
)
_COMPILED = tuple((re.compile(re.sub(r"(?<=[_:?])T(?![a-z])", _TYPE, entry.pattern) + "$"), entry) for entry in _TABLE)


@lru_cache(maxsize=8192)
def _find(name: str) -> Callee | None:
    return next((entry for pattern, entry in _COMPILED if pattern.match(name)), None)


def is_transfer(callee: Callee) -> bool:
    """Whether the function moves between device memory and the core."""
    return callee.pipe in (Pipe.MTE2, Pipe.MTE3, Pipe.FIX)


def transfer_rows(operands: list[Known], tile: bool) -> tuple[int, int, bool] | None:
    """Of a transfer: how many bursts, bytes of each, and whether all strides are known; None where a size is
    unknown.
    """
    views = buffers(operands)[:2]
    if len(views) < 2 or len(views[0].shape) != len(views[1].shape):
        return None
    walked = rows(views, tile)
    return None if walked is None else (walked.count, walked.bytes(views[0].element_bits), walked.known)
