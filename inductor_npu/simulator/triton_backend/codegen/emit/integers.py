"""Integer arithmetic on lanes: coordinates stay scalar, and no division traps."""

from __future__ import annotations

from ..forms.lane import Index, Lane, Prefix, Uniform, Vector, is_uniform
from ..forms.types import BITS
from ..forms.value import Val
from .lanes import Lanes
from .math_functions import MathFunctions

_SWAPPED = {"eq": "eq", "ne": "ne", "slt": "sgt", "sgt": "slt", "sle": "sge", "sge": "sle"}
_SWAPPED.update({"ult": "ugt", "ugt": "ult", "ule": "uge", "uge": "ule"})


class Integers:
    """Writes integer arithmetic and comparisons on lanes."""

    def __init__(self, lanes: Lanes, math: MathFunctions) -> None:
        self.lanes = lanes
        self.math = math
        self.scalars, self.b = lanes.scalars, lanes.b

    # -- sums and products -------------------------------------------------------------------------------------------
    def binary(self, opcode: str, a: Lane, b: Lane, element: str, width: int) -> Lane:
        """add, sub, mul, shl, sdiv, udiv, srem, urem, and, or, xor, lshr, ashr."""
        if opcode == "shl" and isinstance(b, Uniform) and not isinstance(a, (Vector, Prefix)):
            amount = b.val.constant
            if amount is not None and 0 <= amount < 24:
                opcode, b = "mul", Uniform(self.b.constant(element, 1 << amount))
        if element == "i1":
            return self._logical(opcode, a, b, width)
        if isinstance(a, Uniform) and isinstance(b, Uniform):
            return Uniform(self._scalar(opcode, a.val, b.val))
        indexed = self._indexed(opcode, a, b, width)
        if indexed is not None:
            return indexed
        if is_uniform(a) and is_uniform(b):
            return Uniform(self._scalar(opcode, self.lanes.scalar(a), self.lanes.scalar(b)))
        if opcode in ("sdiv", "udiv", "srem", "urem"):
            return Vector(self._divide(opcode, a, b, element, width))
        x, y = self.lanes.vector(a, width), self.lanes.vector(b, width)
        if opcode in ("shl", "lshr", "ashr"):
            return Vector(self.shift(opcode, x, y))
        return Vector(self.b.binary(opcode, x, y))

    def _logical(self, opcode: str, a: Lane, b: Lane, width: int) -> Lane:
        """On masks; a sum of bits is their xor, a product their and."""
        opcode = {"add": "xor", "sub": "xor", "mul": "and"}.get(opcode, opcode)
        for x, y in ((a, b), (b, a)):
            if isinstance(x, Uniform) and x.val.constant is not None and opcode in ("and", "or"):
                return y if bool(x.val.constant) == (opcode == "and") else x
        for x, y in ((a, b), (b, a)):
            if isinstance(x, Prefix) and opcode == "and":
                if isinstance(y, Prefix):
                    return self.lanes.both(x, y, width) or Prefix(self._least(x.count, y.count))
                if isinstance(y, Uniform):
                    chosen = self.lanes.where(y.val, x, width)
                    if chosen is not None:
                        return chosen
                    count = self.b.select(y.val, x.count, self.b.constant("i64", 0))
                    return Prefix(count.known(min(0, x.count.low), max(0, x.count.high)))
        if isinstance(a, Uniform) and isinstance(b, Uniform):
            return Uniform(self.b.binary(opcode, a.val, b.val))
        return Vector(self.b.binary(opcode, self.lanes.vector(a, width), self.lanes.vector(b, width)))

    def _least(self, a: Val, b: Val) -> Val:
        return self.b.intrinsic("smin", ("i64", 0), (a, b)).known(min(a.low, b.low), min(a.high, b.high))

    def _indexed(self, opcode: str, a: Lane, b: Lane, width: int) -> Lane | None:
        if not (isinstance(a, Index) or isinstance(b, Index)):
            return None
        x, y = self.lanes.index(a), self.lanes.index(b)
        if x is None or y is None:
            return None
        if opcode in ("add", "sub", "mul"):
            sums = {"add": self.lanes.index_add, "sub": self.lanes.index_subtract, "mul": self.lanes.index_multiply}
            return sums[opcode](x, y)
        if y.step != 0:
            return None
        if opcode in ("sdiv", "udiv", "srem", "urem"):
            return self._indexed_division(opcode, x, y, width)
        number = y.first.constant
        if number is None:
            return None
        number = int(number)
        if opcode == "and" and number >= 0 and number & (number + 1) == 0:
            return self._indexed_division("urem", x, Index(self.b.constant("i64", number + 1), 0, x.element), width)
        if opcode in ("lshr", "ashr") and 0 <= number < 31:
            return self._indexed_division("udiv", x, Index(self.b.constant("i64", 1 << number), 0, x.element), width)
        return None

    def _indexed_division(self, opcode: str, x: Index, y: Index, width: int) -> Lane | None:
        """Where a chunk cannot cross a multiple of the divisor, the quotient is uniform and the remainder still
        counts up.
        """
        divides = opcode in ("sdiv", "udiv")
        dividend, divided_by = self.lanes.settled(x, width), self.lanes.settled(y, width)
        if dividend is None or divided_by is None or dividend.first.low < 0 or divided_by.first.low <= 0:
            return None
        x, y, divisor = dividend, divided_by, divided_by.first.constant
        if x.step == 0:
            result = self.scalars.divide(x.first, y.first) if divides else self.scalars.remainder(x.first, y.first)
            return Index(result, 0, x.element)
        if divisor is None:
            return None
        if self.lanes.index_within(x, divisor, width):
            first = self.scalars.divide(x.first, y.first) if divides else self.scalars.remainder(x.first, y.first)
            return Index(first, 0 if divides else x.step, x.element)
        if x.first.divisor % divisor == 0 and x.step % divisor == 0:
            if divides:
                return Index(self.scalars.divide(x.first, y.first), x.step // divisor, x.element)
            return Index(self.b.constant("i64", 0), 0, x.element)
        if 0 < x.step * (width - 1) < divisor and width:
            return Vector(self._crossing_once(divides, x, y, width))
        return None

    def _crossing_once(self, divides: bool, x: Index, y: Index, width: int) -> Val:
        """A chunk shorter than the divisor crosses at most one multiple of it: one comparison instead of a vector
        division.
        """
        quotient, rest = self.scalars.divide(x.first, y.first), self.scalars.remainder(x.first, y.first)
        rests = self.lanes.vector(Index(rest, x.step, x.element), width)
        divisor = self.lanes.vector(Index(y.first, 0, x.element), width)
        crossed = self.b.compare("icmp uge", rests, divisor)
        if divides:
            low = self.lanes.vector(Index(quotient, 0, x.element), width)
            return self.b.binary("add", low, self.b.cast("zext", crossed, x.element))
        return self.b.select(crossed, self.b.binary("sub", rests, divisor), rests)

    # -- scalars -----------------------------------------------------------------------------------------------------
    def _scalar(self, opcode: str, a: Val, b: Val) -> Val:
        if opcode == "add":
            return self.scalars.add(a, b)
        if opcode == "sub":
            return self.scalars.subtract(a, b)
        if opcode == "mul":
            return self.scalars.multiply(a, b)
        if opcode in ("sdiv", "udiv", "srem", "urem"):
            return self._scalar_division(opcode, a, b)
        if opcode in ("shl", "lshr", "ashr"):
            return self.shift(opcode, a, b)
        val = self.b.binary(opcode, a, b)
        if opcode == "and" and b.constant is not None and b.constant >= 0:
            return val.known(0, int(b.constant))
        return val

    def _scalar_division(self, opcode: str, a: Val, b: Val) -> Val:
        divides, signed = opcode in ("sdiv", "udiv"), opcode in ("sdiv", "srem")
        if b.low > 0 and (signed or a.low >= 0):
            return self.scalars.divide(a, b) if divides else self.scalars.remainder(a, b)
        return self.guarded_division(opcode, a, b)

    def shift(self, opcode: str, x: Val, y: Val) -> Val:
        """A shift by the width or more gives 0, or the sign: LLVM leaves it undefined."""
        if y.constant is not None and 0 <= y.constant < BITS[x.element]:
            return self.b.binary(opcode, x, y)
        limit = self.b.constant(x.element, BITS[x.element] - 1, x.lanes)
        beyond = self.b.compare("icmp ugt", y, limit)
        if opcode == "ashr":
            return self.b.binary("ashr", x, self.b.select(beyond, limit, y))
        shifted = self.b.binary(opcode, x, self.b.select(beyond, limit, y))
        return self.b.select(beyond, self.b.constant(x.element, 0, x.lanes), shifted)

    # -- division ----------------------------------------------------------------------------------------------------
    def guarded_division(self, opcode: str, a: Val, b: Val) -> Val:
        """Integer division that never traps: by zero it gives 0 (the remainder a), the least number by -1 wraps."""
        if b.constant is not None and b.constant not in (0, -1):
            return self.b.binary(opcode, a, b)
        zero, one = self.b.constant(a.element, 0, a.lanes), self.b.constant(a.element, 1, a.lanes)
        is_zero = self.b.compare("icmp eq", b, zero)
        special = is_zero
        if opcode in ("sdiv", "srem"):
            minus = self.b.compare("icmp eq", b, self.b.constant(a.element, -1, a.lanes))
            special = self.b.binary("or", is_zero, minus)
        result = self.b.binary(opcode, a, self.b.select(special, one, b))
        if opcode == "sdiv":
            result = self.b.select(minus, self.b.binary("sub", zero, a), result)
        return self.b.select(is_zero, a if opcode in ("srem", "urem") else zero, result)

    def _divide(self, opcode: str, a: Lane, b: Lane, element: str, width: int) -> Val:
        x, y = self.lanes.vector(a, width), self.lanes.vector(b, width)
        if isinstance(b, Index) and b.step == 0:
            b = Uniform(self.lanes.scalar(b))
            y = self.lanes.vector(b, width)
        if isinstance(b, Uniform) and b.val.constant is not None and b.val.constant not in (0, -1):
            return self.b.binary(opcode, x, y)  # LLVM multiplies by the reciprocal
        if isinstance(b, Uniform) and opcode in ("sdiv", "srem") and element == "i32":
            return self._by_reciprocal(opcode, x, b.val, y, width)
        prefix = "" if opcode in ("sdiv", "srem") else "unsigned_"
        name = f"{prefix}int_{'divide' if opcode in ('sdiv', 'udiv') else 'remainder'}"
        return self.math.required_call(name, (x, y))

    def _by_reciprocal(self, opcode: str, x: Val, divisor: Val, y: Val, width: int) -> Val:
        """By a divisor that all lanes share: one division for all chunks, a product for each."""
        one = self.b.constant("f64", 1.0)
        reciprocal = self.b.binary("fdiv", one, self.b.cast("sitofp", divisor, "f64"))
        quotient = self.math.required_call("divide_by_reciprocal", (x, y, self.b.splat(reciprocal, width)))
        if opcode == "sdiv":
            return quotient
        return self.b.binary("sub", x, self.b.binary("mul", quotient, y))

    # -- comparisons -------------------------------------------------------------------------------------------------
    def compare(self, predicate: str, a: Lane, b: Lane, width: int) -> Lane:
        if isinstance(a, Uniform) and isinstance(b, Uniform):
            folded = _folded(predicate, a.val, b.val, 0)
            return Uniform(self.b.compare(f"icmp {predicate}", a.val, b.val)) if folded is None else self._truth(folded)
        known = self._compare_indices(predicate, a, b, width)
        if known is not None:
            return known
        if is_uniform(a) and is_uniform(b):
            return Uniform(self.b.compare(f"icmp {predicate}", self.lanes.scalar(a), self.lanes.scalar(b)))
        return Vector(self.b.compare(f"icmp {predicate}", self.lanes.vector(a, width), self.lanes.vector(b, width)))

    def _truth(self, value: bool) -> Uniform:
        return Uniform(self.b.constant("i1", value))

    def _compare_indices(self, predicate: str, a: Lane, b: Lane, width: int) -> Lane | None:
        """Where at most one side differs from lane to lane, and no lane wraps: by the scalars alone."""
        left, right = self.lanes.index(a), self.lanes.index(b)
        if left is None or right is None:
            return None
        x, y = self.lanes.settled(left, width), self.lanes.settled(right, width)
        if x is None or y is None:
            return None
        if x.step == 0 and y.step != 0:
            x, y, predicate = y, x, _SWAPPED[predicate]
        if y.step != 0:
            return None
        if predicate[0] == "u":
            if x.first.low < 0 or y.first.low < 0:
                return None
            predicate = "s" + predicate[1:]
        folded = _folded(predicate, x.first, y.first, x.step * max(width - 1, 0)) if x.step >= 0 else None
        if folded is not None:
            return self._truth(folded)
        if x.step == 0:
            return Uniform(self.b.compare(f"icmp {predicate}", x.first, y.first))
        if x.step != 1 or predicate not in ("slt", "sle"):
            return None
        return self.lanes.below(y.first, x.first, width, inclusive=predicate == "sle")


def _folded(predicate: str, a: Val, b: Val, spread: int) -> bool | None:
    """What the bounds say of `a + d predicate b` for every d in 0..spread; None: nothing. Signed orders only."""
    if predicate in ("slt", "sge") and (a.high + spread < b.low or a.low >= b.high):
        return (a.low < b.low) == (predicate == "slt")
    if predicate in ("sle", "sgt") and (a.high + spread <= b.low or a.low > b.high):
        return (a.low <= b.low) == (predicate == "sle")
    return None
