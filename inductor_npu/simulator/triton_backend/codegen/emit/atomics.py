"""Atomic read-modify-write, one element at a time: programs run on several threads, so each is a real atomic of the
host.

A kernel that does little else runs on one thread, while nobody else adds to its memory (option `exclusive`). It reads
and writes its targets like other memory, in whole chunks where addresses are neighbours. That takes a tenth of the
time, which several threads could not recover.
"""

from __future__ import annotations

from ...ttir.ir import Op
from ..errors import UnsupportedOperation
from ..forms.lane import Address, Lane, Vector, is_uniform, is_whole
from ..forms.types import BITS, element_bytes, element_of, is_float, llvm_type, mangled
from ..forms.value import Val
from ..planning.plain_atomics import RMW_INSTRUCTIONS
from .context import CodegenContext

_ORDERINGS = {"relaxed": "monotonic", "acquire": "acquire", "release": "release", "acq_rel": "acq_rel"}
_INTEGER_EXTREMA = {"max": "smax", "min": "smin", "umax": "umax", "umin": "umin"}


def emit_plain_atomic(context: CodegenContext, op: Op, lanes: list[Lane], width: int) -> None:
    """The same as an atomic, for a chunk, by a thread that has the memory for itself."""
    pointer, value, *rest = lanes
    mask = rest[0] if rest else None
    size = element_bytes(element_of(op.operands[1].type))
    if width and isinstance(pointer, Address) and pointer.step == size:
        _plain_chunk(context, op, pointer, value, mask, width)
        return
    for number in range(max(width, 1)):
        address, operand = (_element(context, lane, number, width) for lane in (pointer, value))
        active = None if mask is None else _element(context, mask, number, width)
        _plain_element(context, op, address, operand, active)


def _element(context: CodegenContext, lane: Lane, number: int, width: int) -> Val:
    lanes = context.lanes
    return lanes.scalar(lane) if is_uniform(lane) or not width else context.b.extract(lanes.vector(lane, width), number)


def _plain_chunk(context: CodegenContext, op: Op, pointer: Address, value: Lane, mask: Lane | None, width: int) -> None:
    b, lanes = context.b, context.lanes
    values = lanes.vector(value, width)
    element, type_ = values.element, values.type
    mask = None if is_whole(mask, width) else mask
    if mask is None:
        old = b.effect(element, width, f"load {type_}, {pointer.pointer}, align {element_bytes(element)}")
    else:
        name, bits = f"@llvm.masked.load.{mangled(element, width)}.p0", lanes.vector(mask, width)
        b.declare(f"declare {type_} {name}(ptr, i32, {bits.type}, {type_})")
        operands = f"{pointer.pointer}, i32 {element_bytes(element)}, {bits}, {b.constant(element, 0, width)}"
        old = b.effect(element, width, f"call {type_} {name}({operands})")
    context.memory.store(pointer, Vector(_combined(context, op, old, values)), mask, element, width)


def _plain_element(context: CodegenContext, op: Op, pointer: Val, value: Val, mask: Val | None) -> None:
    b = context.b
    end = b.fresh("after")
    if mask is not None and not mask.constant:
        begin = b.fresh("plain")
        b.line(f"br i1 {mask.text}, label %{begin}, label %{end}")
        b.mark(begin)
    old = b.effect(value.element, 0, f"load {value.type}, {pointer}")
    b.line(f"store {_combined(context, op, old, value)}, {pointer}")
    if mask is not None and not mask.constant:
        b.line(f"br label %{end}")
        b.mark(end)


def _combined(context: CodegenContext, op: Op, old: Val, value: Val) -> Val:
    b, kind = context.b, str(op.attrs["rmw_op"])
    if kind == "exch":
        return value
    if is_float(value.element):
        if kind == "fadd":
            return context.floats.binary("fadd", old, value)
        if kind not in ("max", "min"):
            raise UnsupportedOperation(op, f"there is no atomic {kind!r} for {value.element}")
        return context.floats.extremum(f"{kind}num", old, value)
    if kind in _INTEGER_EXTREMA:
        return b.intrinsic(_INTEGER_EXTREMA[kind], (value.element, value.lanes), (old, value))
    return b.binary(RMW_INSTRUCTIONS[kind], old, value)


def emit_atomic(context: CodegenContext, op: Op, lanes: list[Lane]) -> Val:
    """An atomic on one address, if its mask is on; returns the value that was there, zero where it is off."""
    b = context.b
    scalars = [context.lanes.scalar(lane) for lane in lanes]
    masked = op.name == "tt.atomic_rmw" and len(scalars) > 2
    if not masked or scalars[2].constant:
        return _atomic(context, op, scalars)
    element = element_of(op.result.type)
    begin, end, before = b.fresh("atomic"), b.fresh("after"), b.current_label
    b.line(f"br i1 {scalars[2].text}, label %{begin}, label %{end}")
    b.mark(begin)
    old = _atomic(context, op, scalars)
    inside = b.current_label
    b.line(f"br label %{end}")
    b.mark(end)
    zero = b.constant(element, 0)
    return b.effect(element, 0, f"phi {llvm_type(element, 0)} [ {zero.text}, %{before} ], [ {old.text}, %{inside} ]")


def _atomic(context: CodegenContext, op: Op, scalars: list[Val]) -> Val:
    b, element = context.b, element_of(op.operands[1].type)
    context.memory.before_atomic(op, scalars[0], element)
    ordering = _ORDERINGS[str(op.attrs.get("sem", "acq_rel"))]
    if op.name == "tt.atomic_cas":
        return _exchange(context, scalars[0], scalars[1], scalars[2], ordering)
    kind = str(op.attrs["rmw_op"])
    if kind not in RMW_INSTRUCTIONS:
        raise UnsupportedOperation(op, f"there is no atomic {kind!r}")
    if is_float(element) and kind != "exch":
        if kind == "fadd" and element in ("f32", "f64"):
            return b.effect(element, 0, f"atomicrmw fadd {scalars[0]}, {scalars[1]} {ordering}")
        return _float_loop(context, op, scalars[0], scalars[1], ordering)
    value = _bits(context, scalars[1])
    old = b.effect(value.element, 0, f"atomicrmw {RMW_INSTRUCTIONS[kind]} {scalars[0]}, {value} {ordering}")
    return b.retype(old, element)


def _bits(context: CodegenContext, value: Val) -> Val:
    return context.b.retype(value, f"i{BITS[value.element]}") if is_float(value.element) else value


def _failure(ordering: str) -> str:
    """The ordering of a compare-exchange that fails: it stores nothing, so it cannot release."""
    return {"release": "monotonic", "acq_rel": "acquire"}.get(ordering, ordering)


def _exchange(context: CodegenContext, pointer: Val, expected: Val, value: Val, ordering: str) -> Val:
    b = context.b
    if value.element == "ptr":
        expected, value = (b.cast("ptrtoint", v, "i64") for v in (expected, value))
        return b.cast("inttoptr", _exchange(context, pointer, expected, value, ordering), "ptr")
    old_bits, new_bits = _bits(context, expected), _bits(context, value)
    pair = b.fresh("%cas")
    b.line(f"{pair} = cmpxchg {pointer}, {old_bits}, {new_bits} {ordering} {_failure(ordering)}")
    old = b.effect(old_bits.element, 0, f"extractvalue {{ {old_bits.type}, i1 }} {pair}, 0")
    return b.retype(old, value.element)


def _float_loop(context: CodegenContext, op: Op, pointer: Val, value: Val, ordering: str) -> Val:
    """Compare and exchange until nobody came between: for formats that the host has no atomic of."""
    b = context.b
    bits = f"i{BITS[value.element]}"
    first = b.effect(bits, 0, f"load atomic {bits}, {pointer} monotonic, align {BITS[value.element] // 8}")
    before, again, end = b.current_label, b.fresh("again"), b.fresh("done")
    b.line(f"br label %{again}")
    b.mark(again)
    seen = Val(b.fresh("%seen"), bits, 0, b.level)
    retry = b.fresh("%retry")
    b.line(f"{seen.text} = phi {bits} [ {first.text}, %{before} ], [ {retry}, %{again} ]")
    old = b.retype(seen, value.element)
    new = _combined(context, op, old, value)
    pair, success = b.fresh("%cas"), b.fresh("%won")
    b.line(f"{pair} = cmpxchg {pointer}, {seen}, {b.retype(new, bits)} {ordering} {_failure(ordering)}")
    b.line(f"{retry} = extractvalue {{ {bits}, i1 }} {pair}, 0")
    b.line(f"{success} = extractvalue {{ {bits}, i1 }} {pair}, 1")
    b.line(f"br i1 {success}, label %{end}, label %{again}")
    b.mark(end)
    return old
