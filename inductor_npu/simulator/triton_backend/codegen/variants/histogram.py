"""tl.histogram."""

from __future__ import annotations

from ...ttir.ir import Op
from ..emit.context import CodegenContext
from ..forms.lane import Uniform
from ..forms.scratch import Buffer
from ..forms.types import element_bytes, element_of, llvm_type, shape_of
from ..nests.materialise import materialised


def emit_histogram(context: CodegenContext, op: Op) -> None:
    """Counts one by one; what lies outside of the bins, or is masked off, is counted in a slot behind them."""
    b, memory = context.b, context.memory
    source = materialised(context, op.operands[0])
    mask = materialised(context, op.operands[1]) if len(op.operands) > 1 else None
    (bins,) = shape_of(op.result.type)
    element = element_of(op.result.type)
    size = element_bytes(element)
    offset = context.scratch.reserve((bins + 1) * size)
    counts = memory.scratch_pointer(offset)
    b.declare("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
    b.line(f"call void @llvm.memset.p0.i64({counts}, i8 0, i64 {(bins + 1) * size}, i1 false)")
    loop = b.open_loop(0, source.shape[0], 1)
    at = memory.address(memory.scratch_pointer(source.offset), Uniform(loop.iv), element_bytes(source.element), 0)
    lanes = context.lanes
    bin_ = context.scalars.widened(lanes.scalar(memory.load(at, None, None, source.element, 0)))
    inside = b.compare("icmp ult", bin_, b.constant("i64", bins))
    if mask is not None:
        at = memory.address(memory.scratch_pointer(mask.offset), Uniform(loop.iv), 1, 0)
        inside = b.binary("and", inside, lanes.scalar(memory.load(at, None, None, "i1", 0)))
    slot = b.select(inside, bin_, b.constant("i64", bins))
    place = b.pure("ptr", 0, f"getelementptr {llvm_type(element, 0)}, {counts}, {slot}", counts, slot)
    count = b.effect(element, 0, f"load {llvm_type(element, 0)}, {place}")
    b.line(f"store {b.effect(element, 0, f'add {count}, 1')}, {place}")
    b.close_loop(loop)
    context.places[op.result] = Buffer(offset, (bins,), (1,), element)
