"""Atomic read-modify-write, one element at a time: programs run on several threads, so each is a real atomic of the
host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ttir.ir import Op
from .builder import Val
from .coordinates import Coordinates
from .errors import UnsupportedOperation
from .lanes import Lane, Uniform
from .memory import Buffer
from .types import BITS, element_of, is_float, llvm_type

if TYPE_CHECKING:
    from .frame import Frame
    from .kernel import KernelGenerator

_ORDERINGS = {"relaxed": "monotonic", "acquire": "acquire", "release": "release", "acq_rel": "acq_rel"}
_INSTRUCTIONS = {
    "add": "add",
    "fadd": "fadd",
    "and": "and",
    "or": "or",
    "xor": "xor",
    "max": "max",
    "min": "min",
    "umax": "umax",
    "umin": "umin",
    "exch": "xchg",
}


def emit_atomic(frame: Frame, op: Op, lanes: list[Lane], coordinates: Coordinates) -> None:
    """The atomic of one element of a tile; keeps the value that was there if something uses it."""
    old = _masked(frame.kernel, op, lanes)
    home = frame.kernel.env.get(op.result)
    if isinstance(home, Buffer):
        frame.kernel.memory.store(frame.address(home, coordinates), Uniform(old), None, home.element, 0)


def emit_scalar_atomic(kernel: KernelGenerator, op: Op) -> None:
    """An atomic on one address."""
    kernel.env[op.result] = Uniform(_masked(kernel, op, [kernel.lane(o) for o in op.operands]))


def _masked(kernel: KernelGenerator, op: Op, lanes: list[Lane]) -> Val:
    """Nothing, and zero as the value that was there, where the mask is off."""
    b = kernel.b
    scalars = [kernel.elementwise.lanes.scalar(lane) for lane in lanes]
    masked = op.name == "tt.atomic_rmw" and len(scalars) > 2
    if not masked or scalars[2].constant:
        return _atomic(kernel, op, scalars)
    element = element_of(op.result.type)
    begin, end, before = b.fresh("atomic"), b.fresh("after"), b.current_label
    b.line(f"br i1 {scalars[2].text}, label %{begin}, label %{end}")
    b.mark(begin)
    old = _atomic(kernel, op, scalars)
    inside = b.current_label
    b.line(f"br label %{end}")
    b.mark(end)
    zero = b.constant(element, 0)
    return b.effect(element, 0, f"phi {llvm_type(element, 0)} [ {zero.text}, %{before} ], [ {old.text}, %{inside} ]")


def _atomic(kernel: KernelGenerator, op: Op, scalars: list[Val]) -> Val:
    b, element = kernel.b, element_of(op.operands[1].type)
    kernel.memory.before_atomic(op, scalars[0], element)
    ordering = _ORDERINGS[str(op.attrs.get("sem", "acq_rel"))]
    if op.name == "tt.atomic_cas":
        return _exchange(kernel, scalars[0], scalars[1], scalars[2], ordering)
    kind = str(op.attrs["rmw_op"])
    if kind not in _INSTRUCTIONS:
        raise UnsupportedOperation(op, f"there is no atomic {kind!r}")
    if is_float(element) and kind != "exch":
        combine = {"fadd": ("fadd", None), "max": (None, "maxnum"), "min": (None, "minnum")}.get(kind)
        if combine is None:
            raise UnsupportedOperation(op, f"there is no atomic {kind!r} for {element}")
        if kind == "fadd" and element in ("f32", "f64"):
            return b.effect(element, 0, f"atomicrmw fadd {scalars[0]}, {scalars[1]} {ordering}")
        return _float_loop(kernel, scalars[0], scalars[1], combine, ordering)
    value = _bits(kernel, scalars[1])
    old = b.effect(value.element, 0, f"atomicrmw {_INSTRUCTIONS[kind]} {scalars[0]}, {value} {ordering}")
    return b.retype(old, element)


def _bits(kernel: KernelGenerator, value: Val) -> Val:
    return kernel.b.retype(value, f"i{BITS[value.element]}") if is_float(value.element) else value


def _failure(ordering: str) -> str:
    """The ordering of a compare-exchange that fails: it stores nothing, so it cannot release."""
    return {"release": "monotonic", "acq_rel": "acquire"}.get(ordering, ordering)


def _exchange(kernel: KernelGenerator, pointer: Val, expected: Val, value: Val, ordering: str) -> Val:
    b = kernel.b
    if value.element == "ptr":
        expected, value = (b.cast("ptrtoint", v, "i64") for v in (expected, value))
        return b.cast("inttoptr", _exchange(kernel, pointer, expected, value, ordering), "ptr")
    old_bits, new_bits = _bits(kernel, expected), _bits(kernel, value)
    pair = b.fresh("%cas")
    b.line(f"{pair} = cmpxchg {pointer}, {old_bits}, {new_bits} {ordering} {_failure(ordering)}")
    old = b.effect(old_bits.element, 0, f"extractvalue {{ {old_bits.type}, i1 }} {pair}, 0")
    return b.retype(old, value.element)


def _float_loop(
    kernel: KernelGenerator, pointer: Val, value: Val, combine: tuple[str | None, str | None], ordering: str
) -> Val:
    """Compare and exchange until nobody came between: for formats that the host has no atomic of."""
    b = kernel.b
    bits = f"i{BITS[value.element]}"
    first = b.effect(bits, 0, f"load atomic {bits}, {pointer} monotonic, align {BITS[value.element] // 8}")
    before, again, end = b.current_label, b.fresh("again"), b.fresh("done")
    b.line(f"br label %{again}")
    b.mark(again)
    seen = Val(b.fresh("%seen"), bits, 0, b.level)
    retry = b.fresh("%retry")
    b.line(f"{seen.text} = phi {bits} [ {first.text}, %{before} ], [ {retry}, %{again} ]")
    old = b.retype(seen, value.element)
    opcode, intrinsic = combine
    if opcode is not None:
        new = kernel.elementwise.float_binary(opcode, old, value)
    else:
        new = kernel.elementwise.float_extremum(intrinsic, old, value)
    pair, success = b.fresh("%cas"), b.fresh("%won")
    b.line(f"{pair} = cmpxchg {pointer}, {seen}, {b.retype(new, bits)} {ordering} {_failure(ordering)}")
    b.line(f"{retry} = extractvalue {{ {bits}, i1 }} {pair}, 0")
    b.line(f"{success} = extractvalue {{ {bits}, i1 }} {pair}, 1")
    b.line(f"br i1 {success}, label %{end}, label %{again}")
    b.mark(end)
    return old
