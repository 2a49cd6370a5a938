"""Operations that work lane by lane: one table from the operation's name to the function that writes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...ttir.ir import Dense, Op
from ..analysis.operations import MOVES_ADDRESSES_ONLY
from ..errors import UnsupportedOperation
from ..forms.lane import Address, Index, Lane, Prefix, Uniform, Vector, is_uniform
from ..forms.types import BITS, LLVM_TYPES, element_bytes, element_of, limits, llvm_type, pointee_of
from ..forms.value import Val
from .floats import Floats
from .integers import Integers
from .math_functions import MathFunctions

_INTEGER_BINARY = {
    "arith.addi": "add",
    "arith.subi": "sub",
    "arith.muli": "mul",
    "arith.divsi": "sdiv",
    "arith.divui": "udiv",
    "arith.remsi": "srem",
    "arith.remui": "urem",
    "arith.andi": "and",
    "arith.ori": "or",
    "arith.xori": "xor",
    "arith.shli": "shl",
    "arith.shrsi": "ashr",
    "arith.shrui": "lshr",
}
_INTEGER_EXTREMA = {"arith.maxsi": "smax", "arith.minsi": "smin", "arith.maxui": "umax", "arith.minui": "umin"}
_FLOAT_BINARY = {
    "arith.addf": "fadd",
    "arith.subf": "fsub",
    "arith.mulf": "fmul",
    "arith.divf": "fdiv",
    "tt.precise_divf": "fdiv",
}
_FLOAT_EXTREMA = {
    "arith.maxnumf": "maxnum",
    "arith.minnumf": "minnum",
    "arith.maximumf": "maximum",
    "arith.minimumf": "minimum",
}
Handler = Callable[["Elementwise", Op, Sequence[Lane], int], "Lane | tuple[Lane, ...]"]


class Elementwise:
    """Writes one operation for a chunk of `width` lanes (0: scalars only)."""

    def __init__(self, integers: Integers, floats: Floats, math_functions: MathFunctions) -> None:
        self.integers, self.floats, self.math = integers, floats, math_functions
        self.lanes, self.scalars, self.b = integers.lanes, integers.scalars, integers.b
        self.conversions = floats.conversions

    def emit(self, op: Op, operands: Sequence[Lane], width: int) -> Lane | tuple[Lane, ...]:
        """The value of `op` from those of its operands; a tuple for an operation with several results.

        Raises UnsupportedOperation for one that has no code here.
        """
        handler = _HANDLERS.get(op.name)
        if handler is not None:
            return handler(self, op, operands, width)
        if op.name.startswith("math."):
            return self.math_function(op, op.name[5:], operands, width)
        raise UnsupportedOperation(op, "this operation is not supported")

    # -- helpers -----------------------------------------------------------------------------------------------------
    def values(self, operands: Sequence[Lane], width: int) -> tuple[list[Val], Callable[[Val], Lane]]:
        """The operands as scalars if all are uniform, else as vectors, and the form of the result."""
        if all(is_uniform(lane) for lane in operands):
            return [self.lanes.scalar(lane) for lane in operands], Uniform
        return [self.lanes.vector(lane, width) for lane in operands], Vector

    def _uniform_bool(self, lane: Lane) -> bool | None:
        if isinstance(lane, Uniform) and lane.val.constant is not None:
            return bool(lane.val.constant)
        return None

    # -- arith -------------------------------------------------------------------------------------------------------
    def constant(self, op: Op, operands: Sequence[Lane], width: int) -> Lane:
        value = op.attrs["value"]
        if isinstance(value, Dense):
            value = value.values
        return Uniform(self.b.constant(element_of(op.result.type), value))

    def poison(self, op: Op, operands: Sequence[Lane], width: int) -> Lane:
        """What no path uses: anything, here zero."""
        return Uniform(self.b.constant(element_of(op.result.type), 0))

    def integer_binary(self, op: Op, operands: Sequence[Lane], width: int) -> Lane:
        a, b = operands
        return self.integers.binary(_INTEGER_BINARY[op.name], a, b, element_of(op.result.type), width)

    def integer_extremum(self, op: Op, operands: Sequence[Lane], width: int) -> Lane:
        (a, b), form = self.values(operands, width)
        if a.element == "i1":
            return form(self.b.binary("or" if op.name in ("arith.maxui", "arith.minsi") else "and", a, b))
        return form(self.b.intrinsic(_INTEGER_EXTREMA[op.name], (a.element, a.lanes), (a, b)))

    def floor_division(self, op: Op, operands: Sequence[Lane], width: int) -> Lane:
        """ceildivsi, ceildivui, floordivsi, from the truncated quotient and the remainder."""
        (a, b), form = self.values(operands, width)
        signed = op.name.endswith("si")
        quotient = self.integers.guarded_division("sdiv" if signed else "udiv", a, b)
        rest = self.integers.guarded_division("srem" if signed else "urem", a, b)
        zero = self.b.constant(a.element, 0, a.lanes)
        adjust = self.b.compare("icmp ne", rest, zero)
        if signed:
            opposite = self.b.compare("icmp slt", self.b.binary("xor", a, b), zero)
            wanted = (
                opposite
                if op.name == "arith.floordivsi"
                else self.b.binary("xor", opposite, self.b.constant("i1", True, a.lanes))
            )
            adjust = self.b.binary("and", adjust, wanted)
        step = self.b.cast("zext", adjust, a.element)
        return form(self.b.binary("sub" if op.name == "arith.floordivsi" else "add", quotient, step))

    def compare_integers(self, op: Op, operands: Sequence[Lane], width: int) -> Lane:
        left, right = operands
        if any(isinstance(lane, (Address, Prefix)) for lane in operands):
            (a, b), form = self.values(operands, width)
            return form(self.b.compare(f"icmp {op.attrs['predicate']}", a, b))
        return self.integers.compare(op.attrs["predicate"], left, right, width)

    def compare_floats(self, op: Op, operands: Sequence[Lane], width: int) -> Lane:
        (a, b), form = self.values(operands, width)
        predicate = op.attrs["predicate"]
        return form(self.floats.apply((a, b), a.element, lambda x, y: self.b.compare(f"fcmp {predicate}", x, y)))

    def select(self, op: Op, operands: Sequence[Lane], width: int) -> Lane:
        condition, a, b = operands
        known = self._uniform_bool(condition)
        if known is not None:
            return a if known else b
        if isinstance(condition, Uniform):
            (x, y), form = self.values((a, b), width)
            return form(self.b.select(condition.val, x, y))
        return Vector(
            self.b.select(self.lanes.vector(condition, width), self.lanes.vector(a, width), self.lanes.vector(b, width))
        )

    def float_arithmetic(self, op: Op, operands: Sequence[Lane], width: int) -> Lane:
        (a, b), form = self.values(operands, width)
        return form(self.floats.binary(_FLOAT_BINARY[op.name], a, b))

    def float_remainder(self, op: Op, operands: Sequence[Lane], width: int) -> Lane:
        return self.math_function(op, "fmod", operands, width)

    def negate(self, op: Op, operands: Sequence[Lane], width: int) -> Lane:
        (a,), form = self.values(operands, width)
        carried = LLVM_TYPES[a.element]
        if carried.startswith("i"):  # as its bits
            sign = self.b.constant(carried, limits(carried)[0], a.lanes)
            return form(self.b.retype(self.b.binary("xor", a, sign), a.element))
        return form(self.b.pure(a.element, a.lanes, f"fneg {a}", a))

    def float_extremum_op(self, op: Op, operands: Sequence[Lane], width: int) -> Lane:
        (a, b), form = self.values(operands, width)
        return form(self.floats.extremum(_FLOAT_EXTREMA[op.name], a, b))

    def clamp(self, op: Op, operands: Sequence[Lane], width: int) -> Lane:
        (x, low, high), form = self.values(operands, width)
        propagate = op.attrs.get("propagateNan", "none") == "all"
        floor = self.floats.extremum("maximum" if propagate else "maxnum", x, low)
        return form(self.floats.extremum("minimum" if propagate else "minnum", floor, high))

    def widen_float(self, op: Op, operands: Sequence[Lane], width: int) -> Lane:
        (a,), form = self.values(operands, width)
        return form(self.conversions.convert_float(a, element_of(op.result.type)))

    def fp_to_fp(self, op: Op, operands: Sequence[Lane], width: int) -> Lane:
        (a,), form = self.values(operands, width)
        rounding = op.attrs.get("rounding")
        return form(self.conversions.convert_float(a, element_of(op.result.type), rounding == "rtz"))

    def extend_integer(self, op: Op, operands: Sequence[Lane], width: int) -> Lane:
        (lane,), element = operands, element_of(op.result.type)
        signed = op.name in ("arith.extsi", "arith.index_cast")
        index = self.lanes.settled(lane, width) if isinstance(lane, Index) else None
        if index is not None and (signed or (index.first.low >= 0 and index.step >= 0)):
            return Index(index.first, index.step, element)
        if isinstance(lane, Index) and MOVES_ADDRESSES_ONLY in op.attrs and BITS[lane.element] == 32:
            return Index(self.lanes.offset(lane, width), lane.step, element)
        (a,), form = self.values(operands, width)
        if BITS[a.element] >= BITS[element]:
            return form(self._resized(a, element))
        number = form is Uniform and a.element != "i1" and (signed or a.low >= 0)
        if number and a.constant is not None:
            return Uniform(self.b.constant(element, a.constant))
        val = self.b.cast("sext" if signed else "zext", a, element)
        return form(val.known(a.low, a.high, a.divisor) if number else val)

    def _resized(self, a: Val, element: str) -> Val:
        if BITS[a.element] == BITS[element]:
            return self.b.retype(a, element)
        return self.b.cast("trunc", a, element)

    def truncate_integer(self, op: Op, operands: Sequence[Lane], width: int) -> Lane:
        (lane,), element = operands, element_of(op.result.type)
        if isinstance(lane, Index) and element != "i1":
            return Index(lane.first, lane.step, element)
        (a,), form = self.values(operands, width)
        if form is Uniform and a.element == "i64" and element == "i32":
            return Uniform(self.scalars.narrowed(a, element))
        return form(self._resized(a, element))

    def integer_to_float(self, op: Op, operands: Sequence[Lane], width: int) -> Lane:
        (a,), form = self.values(operands, width)
        return form(self.conversions.from_integer(a, element_of(op.result.type), op.name == "arith.sitofp"))

    def float_to_integer(self, op: Op, operands: Sequence[Lane], width: int) -> Lane:
        (a,), form = self.values(operands, width)
        return form(self.conversions.to_integer(a, element_of(op.result.type), op.name == "arith.fptosi"))

    def bitcast(self, op: Op, operands: Sequence[Lane], width: int) -> Lane:
        (lane,), element = operands, element_of(op.result.type)
        if isinstance(lane, Address) or element_of(op.operands[0].type) == element:
            return lane
        (a,), form = self.values(operands, width)
        if a.element == "ptr" or element == "ptr":
            if a.element == element:
                return form(a)
            return form(self.b.cast("ptrtoint" if a.element == "ptr" else "inttoptr", a, element))
        return form(self.b.retype(a, element))

    def pointer_cast(self, op: Op, operands: Sequence[Lane], width: int) -> Lane:
        (a,), form = self.values(operands, width)
        return form(
            self.b.cast("ptrtoint" if op.name == "tt.ptr_to_int" else "inttoptr", a, element_of(op.result.type))
        )

    def high_product(self, op: Op, operands: Sequence[Lane], width: int) -> Lane:
        (a, b), form = self.values(operands, width)
        return form(self._product_halves(a, b, signed=False)[1])

    def _product_halves(self, a: Val, b: Val, signed: bool) -> tuple[Val, Val]:
        """The low and the high half of the full product."""
        bits = BITS[a.element]
        low = self.b.binary("mul", a, b)
        if bits < 64:
            wide_element = f"i{2 * bits}"
            opcode = "sext" if signed else "zext"
            wide = self.b.binary("mul", self.b.cast(opcode, a, wide_element), self.b.cast(opcode, b, wide_element))
            shifted = self.b.binary("lshr", wide, self.b.constant(wide_element, bits, a.lanes))
            return low, self.b.cast("trunc", shifted, a.element)
        wide_type = "i128" if not a.lanes else f"<{a.lanes} x i128>"
        opcode = "sext" if signed else "zext"
        x = self.b.pure("i64", a.lanes, f"{opcode} {a} to {wide_type}", a)
        y = self.b.pure("i64", a.lanes, f"{opcode} {b} to {wide_type}", b)
        product = self.b.pure("i64", a.lanes, f"mul {wide_type} {x.text}, {y.text}", x, y)
        amount = "64" if not a.lanes else "splat (i128 64)"
        shifted = self.b.pure("i64", a.lanes, f"lshr {wide_type} {product.text}, {amount}", product)
        return low, self.b.pure(
            "i64", a.lanes, f"trunc {wide_type} {shifted.text} to {llvm_type('i64', a.lanes)}", shifted
        )

    def extended_product(self, op: Op, operands: Sequence[Lane], width: int) -> tuple[Lane, Lane]:
        (a, b), form = self.values(operands, width)
        low, high = self._product_halves(a, b, signed=op.name == "arith.mulsi_extended")
        return form(low), form(high)

    def extended_sum(self, op: Op, operands: Sequence[Lane], width: int) -> tuple[Lane, Lane]:
        (a, b), form = self.values(operands, width)
        total = self.b.binary("add", a, b)
        return form(total), form(self.b.compare("icmp ult", total, a))

    # -- tt ----------------------------------------------------------------------------------------------------------
    def add_pointer(self, op: Op, operands: Sequence[Lane], width: int) -> Lane:
        base, offset = operands
        size = element_bytes(pointee_of(op.result.type))
        if BITS[element_of(op.operands[1].type)] < 32:
            offset = self.lanes.extended(offset, width)
        index = self.lanes.index(offset)
        if index is not None and not isinstance(base, Vector):
            pointer = base.pointer if isinstance(base, Address) else self.lanes.scalar(base)
            step = base.step if isinstance(base, Address) else 0
            moved = self.scalars.pointer(pointer, self.lanes.offset(index, width), size)
            return Address(moved, step + index.step * size) if step + index.step else Uniform(moved)
        if isinstance(base, Address) and base.step == 0:
            base = Uniform(base.pointer)
        pointer = base.val if isinstance(base, Uniform) else self.lanes.vector(base, width)
        offsets = self.lanes.vector(offset, width)
        if BITS[offsets.element] < 64:
            offsets = self.b.cast("sext", offsets, "i64")
        return Vector(self.b.pure("ptr", width, f"getelementptr {_unit(size)}, {pointer}, {offsets}", pointer, offsets))

    def same(self, op: Op, operands: Sequence[Lane], width: int) -> Lane:
        return operands[0]

    def math_function(self, op: Op, name: str, operands: Sequence[Lane], width: int) -> Lane:
        values, form = self.values(operands, width)
        element = element_of(op.result.type)
        result = self.math.emit(name, values, element)
        if result is None:
            raise UnsupportedOperation(op, f"there is no function {name!r} for {element}")
        return form(result)

    def extern_elementwise(self, op: Op, operands: Sequence[Lane], width: int) -> Lane:
        symbol = str(op.attrs["symbol"])
        values, form = self.values(operands, width)
        result = self.math.extern(symbol, values, element_of(op.result.type))
        if result is None:
            raise UnsupportedOperation(op, f"there is no library function {symbol!r} for this target")
        return form(result)

    def precise_square_root(self, op: Op, operands: Sequence[Lane], width: int) -> Lane:
        return self.math_function(op, "sqrt", operands, width)


def _unit(size: int) -> str:
    return {1: "i8", 2: "i16", 4: "i32", 8: "i64"}[size]


_HANDLERS: dict[str, Handler] = {
    "arith.constant": Elementwise.constant,
    "arith.cmpi": Elementwise.compare_integers,
    "arith.cmpf": Elementwise.compare_floats,
    "arith.select": Elementwise.select,
    "arith.remf": Elementwise.float_remainder,
    "arith.negf": Elementwise.negate,
    "arith.extf": Elementwise.widen_float,
    "arith.truncf": Elementwise.widen_float,
    "arith.extsi": Elementwise.extend_integer,
    "arith.extui": Elementwise.extend_integer,
    "arith.index_cast": Elementwise.extend_integer,
    "arith.index_castui": Elementwise.extend_integer,
    "arith.trunci": Elementwise.truncate_integer,
    "arith.sitofp": Elementwise.integer_to_float,
    "arith.uitofp": Elementwise.integer_to_float,
    "arith.fptosi": Elementwise.float_to_integer,
    "arith.fptoui": Elementwise.float_to_integer,
    "arith.bitcast": Elementwise.bitcast,
    "arith.mulsi_extended": Elementwise.extended_product,
    "arith.mului_extended": Elementwise.extended_product,
    "arith.addui_extended": Elementwise.extended_sum,
    "arith.ceildivsi": Elementwise.floor_division,
    "arith.ceildivui": Elementwise.floor_division,
    "arith.floordivsi": Elementwise.floor_division,
    "tt.addptr": Elementwise.add_pointer,
    "tt.bitcast": Elementwise.bitcast,
    "tt.clampf": Elementwise.clamp,
    "tt.extern_elementwise": Elementwise.extern_elementwise,
    "tt.fp_to_fp": Elementwise.fp_to_fp,
    "tt.int_to_ptr": Elementwise.pointer_cast,
    "tt.mulhiui": Elementwise.high_product,
    "tt.precise_sqrt": Elementwise.precise_square_root,
    "tt.ptr_to_int": Elementwise.pointer_cast,
    "ub.poison": Elementwise.poison,
    **dict.fromkeys(_INTEGER_BINARY, Elementwise.integer_binary),
    **dict.fromkeys(_INTEGER_EXTREMA, Elementwise.integer_extremum),
    **dict.fromkeys(_FLOAT_BINARY, Elementwise.float_arithmetic),
    **dict.fromkeys(_FLOAT_EXTREMA, Elementwise.float_extremum_op),
}
