"""A made-up report with a row of each kind."""

from __future__ import annotations

from inductor_npu.ascend.collect.collection import Omission
from inductor_npu.ascend.hivm import Cycles, Finding
from inductor_npu.ascend.kernel import Origin
from inductor_npu.ascend.report import UNKNOWN, Refusal, Report, Row
from inductor_npu.ascend.report.model import sorted_by_cost


def row(kernel: str, verdict: str, **fields) -> Row:
    defaults = {
        "key": f"key_{kernel}",
        "operators": ("aten.gelu",),
        "lines": ("model.py:12: y = F.gelu(x) < 3",),
        "launches": 1,
        "grid": (40, 1, 1),
        "source": f"def {kernel}(x): pass",
    }
    return Row(kernel=kernel, verdict=verdict, **{**defaults, **fields})


COMPILED = {
    "ub_bytes": 98304,
    "ub_share": 0.5,
    "buffers_doubled": 2,
    "loops_over_tiles": True,
    "bytes_read": 4000,
    "bytes_written": 2000,
    "bytes_least": 4000,
    "vector_instructions": 1234,
}
VECTOR = row(
    "fast_kernel",
    "vector",
    **COMPILED,
    launches=3,
    cycles=Cycles(mte2=900, vector=500, mte3=300, scalar=10, cube=0),
    findings=(Finding("S1", "one element read from Unified Buffer by the scalar core", 1),),
)
SCALAR = row(
    "slow_kernel",
    "scalar",
    **COMPILED,
    cycles=Cycles(mte2=900, vector=500, mte3=300, scalar=123456, cube=0),
    findings=(Finding("SL", "kernel.py:1: loop over single elements of f32 in device memory (addi, muli)", 64),),
)
ELEMENT = row(
    "narrow_kernel",
    "element DMA",
    **{**COMPILED, "bytes_read": None},
    findings=(Finding("EL", "load in bursts of 4 bytes", 64),),
)
REFUSED = row(
    "big_kernel", "refused", refusal=Refusal("bishengir", "ub overflow, requires 2 bits while 1 bits available")
)
CRASHED = row("odd_kernel", "refused", refusal=Refusal("adapter", "crashed on SIGABRT", True, "crashes/odd_kernel"))
UNREAD = row("new_kernel", UNKNOWN, assumptions=("line 7 of the final HIVM IR cannot be read",))


def report(*rows: Row, **fields) -> Report:
    defaults = {"versions": {"triton-ascend": "3.2.0"}, "unified_buffer": 196608, "status": 0}
    return Report("train.py --lr <1", "Ascend910B3", sorted_by_cost(rows), **{**defaults, **fields})


ALL = report(
    VECTOR,
    SCALAR,
    ELEMENT,
    REFUSED,
    CRASHED,
    UNREAD,
    omissions=(Omission("matmul_kernel", Origin(), "its argument 'a' is a tensor descriptor"),),
)
