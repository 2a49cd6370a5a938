"""Operations that are written on their own, with their operands in scratch: scan, dot, histogram, cat, print,
assert.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..host_functions import CHOSEN, PLACED, SORT
from ..ttir.ir import Op, Value
from . import counters
from .builder import Val
from .chosen import emit_chosen
from .dot import emit_dot
from .errors import UnsupportedOperation
from .frame import row_major
from .lanes import Uniform
from .memory import Buffer, held
from .placed import emit_placed
from .plan import Group, Root, is_tensor
from .scan import ScanNest
from .types import element_bytes, element_of, llvm_type, shape_of

if TYPE_CHECKING:
    from .kernel import KernelGenerator

# How the runtime names the types of printed values; upper case for unsigned integers.
_PRINT_KINDS = {
    "i1": "b",
    "i8": "c",
    "i16": "h",
    "i32": "i",
    "i64": "l",
    "f16": "e",
    "bf16": "y",
    "f32": "f",
    "f64": "d",
    "ptr": "p",
}


SORT_WORK = 16  # what sorting an element takes, in elements that are computed


def emit(kernel: KernelGenerator, op: Op) -> None:
    """Writes one of the operations in `plan.SOLO`."""
    handler = _HANDLERS.get(op.name)
    if handler is None:
        raise UnsupportedOperation(op, "this operation is not supported")
    handler(kernel, op)


def in_scratch(kernel: KernelGenerator, value: Value) -> Buffer:
    """`value` in scratch, row-major."""
    home = kernel.env.get(value)
    shape = shape_of(value.type)
    if isinstance(home, Buffer) and home.strides == row_major(shape):
        return home
    buffer = kernel.allocate(shape, element_of(value.type), row_major(shape))
    kernel.keep([Root(None, value, buffer, shape)])
    kernel.env[value] = buffer
    return buffer


def _scan(kernel: KernelGenerator, op: Op) -> None:
    group = Group([Root(op, shape=shape_of(op.operands[0].type), axis=op.attrs["axis"])])
    group.shape, group.axis = group.roots[0].shape, group.roots[0].axis
    group.vector_axis = kernel.planner.vector_axis(group, kernel.env)
    kernel.work += math.prod(group.shape)
    ScanNest(kernel, group).emit()


def _histogram(kernel: KernelGenerator, op: Op) -> None:
    """Counts one by one; what lies outside of the bins, or is masked off, is counted in a slot behind them."""
    b, memory = kernel.b, kernel.memory
    source = in_scratch(kernel, op.operands[0])
    mask = in_scratch(kernel, op.operands[1]) if len(op.operands) > 1 else None
    (bins,) = shape_of(op.result.type)
    element = element_of(op.result.type)
    size = element_bytes(element)
    offset = kernel.reserve((bins + 1) * size)
    counts = memory.scratch_pointer(offset)
    b.declare("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
    b.line(f"call void @llvm.memset.p0.i64({counts}, i8 0, i64 {(bins + 1) * size}, i1 false)")
    loop = b.open_loop(0, source.shape[0], 1)
    at = memory.address(memory.scratch_pointer(source.offset), Uniform(loop.iv), element_bytes(source.element), 0)
    lanes = kernel.elementwise.lanes
    bin_ = lanes.widened(lanes.scalar(memory.load(at, None, None, source.element, 0)))
    inside = b.compare("icmp ult", bin_, b.constant("i64", bins))
    if mask is not None:
        at = memory.address(memory.scratch_pointer(mask.offset), Uniform(loop.iv), 1, 0)
        inside = b.binary("and", inside, lanes.scalar(memory.load(at, None, None, "i1", 0)))
    slot = b.select(inside, bin_, b.constant("i64", bins))
    place = b.pure("ptr", 0, f"getelementptr {llvm_type(element, 0)}, {counts}, {slot}", counts, slot)
    count = b.effect(element, 0, f"load {llvm_type(element, 0)}, {place}")
    b.line(f"store {b.effect(element, 0, f'add {count}, 1')}, {place}")
    b.close_loop(loop)
    kernel.env[op.result] = Buffer(offset, (bins,), (1,), element)


def _cat(kernel: KernelGenerator, op: Op) -> None:
    """One after the other in a new tile."""
    shape, element = shape_of(op.result.type), element_of(op.result.type)
    whole = kernel.allocate(shape, element, row_major(shape))
    offset = whole.offset
    for operand in op.operands:
        part = shape_of(operand.type)
        kernel.keep([Root(None, operand, Buffer(offset, part, row_major(part), element), part)])
        offset += math.prod(part) * element_bytes(held(element))
    kernel.env[op.result] = whole


def _unsplat(kernel: KernelGenerator, op: Op) -> None:
    kernel.env[op.result] = Uniform(kernel.scalar(op.operands[0]))


def _sort(kernel: KernelGenerator, op: Op) -> None:
    """Rows in order, by the runtime's function; the axis is the first or the last one of the tile."""
    b, sort = kernel.b, op.attrs["sort"]
    tiles = [in_scratch(kernel, value) for value in op.operands[:2]]
    results = [kernel.allocate(tile.shape, tile.element, tile.strides) for tile in tiles]
    shape = tiles[0].shape
    extent = shape[sort.axis]
    rows, stride = math.prod(shape) // extent, tiles[0].strides[sort.axis]
    lanes = kernel.elementwise.lanes
    if sort.length is None:
        length = lanes.widened(kernel.scalar(op.operands[2]))
    else:
        length = b.constant("i64", sort.length)
    kernel.work += math.prod(shape) * SORT_WORK
    addresses = ", ".join(str(kernel.memory.scratch_pointer(tile.offset)) for tile in (*tiles, *results))
    bytes_ = [element_bytes(held(tile.element)) for tile in tiles]
    b.declare("declare void @npu_sort_rows(ptr, ptr, ptr, ptr, i64, i64, i64, i64, i64, i32, i32, i32, i32)")
    b.line(
        f"call void @npu_sort_rows({addresses}, i64 {rows}, {length}, i64 {extent}, "
        f"i64 {extent if stride == 1 else 1}, i64 {stride}, i32 {ord(sort.kind)}, i32 {bytes_[0]}, i32 {bytes_[1]}, "
        f"i32 {int(sort.descending)})"
    )
    kernel.env.update(zip(op.results, results, strict=True))


def _print(kernel: KernelGenerator, op: Op) -> None:
    b = kernel.b
    prefix = b.table("i8", [*str(op.attrs.get("prefix", "")).encode(), 0])
    program = kernel.memory.scratch_pointer(kernel.reserve(12))
    for axis, val in enumerate(kernel.program_ids):
        place = b.pure("ptr", 0, f"getelementptr i32, {program}, i64 {axis}", program)
        b.line(f"store {val}, {place}")
    b.declare("declare void @npu_device_print(ptr, ptr, ptr, i32, i32, i32, i32, ptr, i32)")
    signs = op.attrs.get("isSigned") or [0] * len(op.operands)
    hexadecimal = int(bool(op.attrs.get("hex")))
    if not op.operands:
        b.line(
            f"call void @npu_device_print({program}, {prefix}, ptr null, i32 0, i32 0, i32 0, i32 0, ptr null, i32 0)"
        )
    for number, operand in enumerate(op.operands):
        values, shape = _printed(kernel, operand)
        element = element_of(operand.type)
        kind = _PRINT_KINDS.get(element)
        if kind is None:
            raise UnsupportedOperation(op, f"printing {element} is not supported; convert it first")
        if element in ("i8", "i16", "i32", "i64") and not signs[number]:
            kind = kind.upper()
        extents = b.table("i64", shape or (1,))
        b.line(
            f"call void @npu_device_print({program}, {prefix}, {values}, i32 {ord(kind)}, i32 {hexadecimal}, "
            f"i32 {number}, i32 {len(op.operands)}, {extents}, i32 {len(shape)})"
        )


def _printed(kernel: KernelGenerator, operand: Value) -> tuple[Val, tuple[int, ...]]:
    """Where the values to print lie, and their shape."""
    if is_tensor(operand):
        return kernel.memory.scratch_pointer(in_scratch(kernel, operand).offset), shape_of(operand.type)
    element = element_of(operand.type)
    place = kernel.memory.scratch_pointer(kernel.reserve(8))
    kernel.memory.store(Uniform(place), kernel.lane(operand), None, element, 0)
    return place, ()


def _assert(kernel: KernelGenerator, op: Op) -> None:
    """Ends this call of the kernel with the assert's number where the condition does not hold."""
    b = kernel.b
    condition = kernel.scalar(op.operands[0])
    kernel.messages.append(
        f"{op.attrs.get('message', '')} ({op.line})" if op.line else str(op.attrs.get("message", ""))
    )
    failed, passed = b.fresh("failed"), b.fresh("passed")
    b.line(f"br i1 {condition.text}, label %{passed}, label %{failed}")
    known = b.enter(failed)
    b.line("store i64 %number, ptr %context")
    if b.counting:
        b.sinks[-1] += counters.report(failed)
    b.line(f"ret i32 {len(kernel.messages)}")
    b.leave(passed, known)


_HANDLERS = {
    SORT: _sort,
    PLACED: emit_placed,
    CHOSEN: emit_chosen,
    "cf.assert": _assert,
    "tt.assert": _assert,
    "tt.cat": _cat,
    "tt.dot": emit_dot,
    "tt.histogram": _histogram,
    "tt.print": _print,
    "tt.scan": _scan,
    "tt.unsplat": _unsplat,
}
