"""The meaning of one element of an HFusion operation, as lines of MLIR's own dialects.

The regions of HFusion's operations are not used: some are placeholders (`vnot` is `x xor 0`, a rounding is the
identity). Where the chip's instruction differs from what the operation's name says, the instruction counts (`shrui`).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass


class UnknownOperationError(Exception):
    """An operation that cannot be executed; the message says which."""


@dataclass(frozen=True)
class Tile:
    """A ranked tensor or memref type: `text` as written, `shape` with None where a size is not static, `element`
    type.
    """

    text: str
    shape: tuple[int | None, ...]
    element: str

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def is_float(self) -> bool:
        return self.element.startswith(("f", "bf"))


def parse_type(text: str) -> Tile | str:
    """A tile type, or a scalar's type as it is."""
    match = re.match(r"(?:tensor|memref)<((?:(?:\d+|\?)x)*)([a-z]\w*)", text)
    if not match:
        return text
    sizes = [size for size in match[1].split("x") if size]
    return Tile(text, tuple(None if size == "?" else int(size) for size in sizes), match[2])


class Names:
    """Fresh names of values, apart from MLIR's own (`%12`, `%cst_3`, `%arg4`)."""

    def __init__(self) -> None:
        self._numbers = itertools.count()

    def __call__(self) -> str:
        return f"%npu{next(self._numbers)}"


# Operations of one element. Each takes fresh names, operands, their element types and the result's type, and returns
# lines and the name of the result.
Lines = tuple[list[str], str]
Operation = Callable[["Names", list[str], list[str], str], Lines]


def _plain(floating: str | None, integer: str | None) -> Operation:
    def write(fresh: Names, operands: list[str], types: list[str], result: str) -> Lines:
        operation = floating if types[-1].startswith(("f", "bf")) else integer
        if operation is None:
            raise UnknownOperationError(f"an operation of {types[-1]} that only exists for the other kind of number")
        name = fresh()
        return [f"{name} = {operation} {', '.join(operands)} : {types[-1]}"], name

    return write


def _not(fresh: Names, operands: list[str], types: list[str], result: str) -> Lines:
    ones, name = fresh(), fresh()
    value = "true" if types[0] == "i1" else f"-1 : {types[0]}"
    return [f"{ones} = arith.constant {value}", f"{name} = arith.xori {operands[0]}, {ones} : {types[0]}"], name


def _constant_first(value: str, operation: str) -> Operation:
    def write(fresh: Names, operands: list[str], types: list[str], result: str) -> Lines:
        constant, name = fresh(), fresh()
        return [
            f"{constant} = arith.constant {value} : {types[0]}",
            f"{name} = {operation} {constant}, {operands[0]} : {types[0]}",
        ], name

    return write


UNARY = {
    "vnot": _not,
    "rec": _constant_first("1.0", "arith.divf"),
    "relu": _constant_first("0.0", "arith.maximumf"),
    "absi": _plain(None, "math.absi"),
    **{
        name: _plain(f"math.{name}", None)
        for name in [
            "sqrt",
            "rsqrt",
            "tanh",
            "sin",
            "cos",
            "atan",
            "tan",
            "erf",
            "log2",
            "log10",
            "log1p",
            "exp2",
            "expm1",
            "asin",
            "acos",
            "asinh",
            "acosh",
            "atanh",
            "sinh",
            "cosh",
        ]
    },
}

BINARY = {
    "vor": _plain(None, "arith.ori"),
    "vand": _plain(None, "arith.andi"),
    "vxor": _plain(None, "arith.xori"),
    # VMAX and VMIN give NaN if an operand is NaN: the compiler surrounds them with selects where the source asks for
    # the other.
    "minf": _plain("arith.minimumf", None),
    "maxf": _plain("arith.maximumf", None),
    "minnumf": _plain("arith.minnumf", None),
    "maxnumf": _plain("arith.maxnumf", None),
    "powf": _plain("math.powf", None),
    "atan2": _plain("math.atan2", None),
    "mod": _plain("arith.remf", "arith.remsi"),
    "modui": _plain(None, "arith.remui"),
    "shli": _plain(None, "arith.shli"),
    "shrsi": _plain(None, "arith.shrsi"),
    # hivm.vshr is the same for both shifts and always calls vshr(s)_*_intN_t, whose instruction is VSHR.sN: the sign is
    # copied.
    "shrui": _plain(None, "arith.shrsi"),
    "floordivsi": _plain(None, "arith.floordivsi"),
    "ceildivsi": _plain(None, "arith.ceildivsi"),
    "ceildivui": _plain(None, "arith.ceildivui"),
}

_COMPARISONS = {"veq": "eq", "vne": "ne", "vlt": "lt", "vle": "le", "vgt": "gt", "vge": "ge"}
_UNSIGNED_COMPARISONS = {"vult": "ult", "vule": "ule", "vugt": "ugt", "vuge": "uge"}

_ROUNDINGS = {
    "floor": "math.floor",
    "ceil": "math.ceil",
    "trunc": "math.trunc",
    "round": "math.round",  # half away from zero
    "rint": "math.roundeven",
}


def bits_of(element: str) -> int:
    return int(re.sub(r"\D", "", element))


def saturating_cast(source: str, result: str) -> str:
    """Name of the function that turns a float into an integer as VCONV does: towards zero, at the ends of the range,
    NaN to 0.
    """
    return f"npu_{source}_to_{result}"


def cast(fresh: Names, operand: str, source: str, result: str, rounding: str, unsigned: bool) -> Lines:
    floats = (source.startswith(("f", "bf")), result.startswith(("f", "bf")))
    name = fresh()
    if floats == (True, False):
        lines = []
        if rounding not in ("trunc", "truncwithoverflow"):
            rounded = fresh()
            lines, operand = [f"{rounded} = {_rounding(rounding)} {operand} : {source}"], rounded
        if result == "i1":
            zero = fresh()
            return [
                *lines,
                f"{zero} = arith.constant 0.0 : {source}",
                f"{name} = arith.cmpf une, {operand}, {zero} : {source}",
            ], name
        return [
            *lines,
            f"{name} = func.call @{saturating_cast(source, result)}({operand}) : ({source}) -> {result}",
        ], name
    if floats == (False, True):
        operation = "arith.uitofp" if unsigned or source == "i1" else "arith.sitofp"
        return [f"{name} = {operation} {operand} : {source} to {result}"], name
    if floats == (True, True):
        if bits_of(source) == bits_of(result):
            return [f"{name} = {_rounding(rounding)} {operand} : {source}"], name
        operation = "arith.extf" if bits_of(source) < bits_of(result) else "arith.truncf"
        return [f"{name} = {operation} {operand} : {source} to {result}"], name
    if bits_of(source) > bits_of(result):
        operation = "arith.trunci"
    else:
        operation = "arith.extui" if unsigned or source == "i1" else "arith.extsi"
    return [f"{name} = {operation} {operand} : {source} to {result}"], name


def _rounding(mode: str) -> str:
    if mode not in _ROUNDINGS:
        raise UnknownOperationError(f"hfusion.cast with rounding {mode!r}")
    return _ROUNDINGS[mode]


def compare(fresh: Names, operands: list[str], element: str, function: str) -> Lines:
    name = fresh()
    if element.startswith(("f", "bf")):
        if function not in _COMPARISONS:
            raise UnknownOperationError(f"hfusion.compare {function} of {element}")
        # An unordered != is the one comparison with NaN that holds.
        predicate = "une" if function == "vne" else "o" + _COMPARISONS[function]
        return [f"{name} = arith.cmpf {predicate}, {operands[0]}, {operands[1]} : {element}"], name
    if function in _UNSIGNED_COMPARISONS:
        predicate = _UNSIGNED_COMPARISONS[function]
    elif function in _COMPARISONS:
        predicate = _COMPARISONS[function]
        predicate = predicate if predicate in ("eq", "ne") else "s" + predicate
    else:
        raise UnknownOperationError(f"hfusion.compare {function} of {element}")
    return [f"{name} = arith.cmpi {predicate}, {operands[0]}, {operands[1]} : {element}"], name


ATOMICS = {
    "add": _plain("arith.addf", "arith.addi"),
    "max": _plain("arith.maximumf", "arith.maxsi"),
    "min": _plain("arith.minimumf", "arith.minsi"),
    "umax": _plain(None, "arith.maxui"),
    "umin": _plain(None, "arith.minui"),
    "and": _plain(None, "arith.andi"),
    "or": _plain(None, "arith.ori"),
    "xor": _plain(None, "arith.xori"),
}
