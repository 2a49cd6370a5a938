"""Tiles of numbers known at code-generation time: those that follow from ranges and constants alone.

The places of a gather, or a mask against a constant, are often such a table, however many operations compute it. The
operations are evaluated one by one as the kernel would, in the same types.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...ttir.ir import Dense, Op, Value
from ..forms.types import element_of, shape_of

LARGEST = 1 << 16  # elements of a table
_TYPES: dict[str, type[np.generic]] = {
    "i1": np.bool_,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "index": np.int64,
    "f32": np.float32,
}
_COMPARISONS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "slt": np.less,
    "sle": np.less_equal,
    "sgt": np.greater,
    "sge": np.greater_equal,
    "oeq": np.equal,
    "olt": np.less,
    "ole": np.less_equal,
    "ogt": np.greater,
    "oge": np.greater_equal,
}
_BINARY: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "arith.addi": np.add,
    "arith.subi": np.subtract,
    "arith.muli": np.multiply,
    "arith.minsi": np.minimum,
    "arith.maxsi": np.maximum,
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor,
    "arith.addf": np.add,
    "arith.subf": np.subtract,
    "arith.mulf": np.multiply,
}
_BITWISE = frozenset({"arith.andi", "arith.ori", "arith.xori"})


class ConstantTiles:
    """The constant tiles of one kernel, each computed once."""

    def __init__(self) -> None:
        self._known: dict[Value, np.ndarray | None] = {}

    def of(self, value: Value) -> np.ndarray | None:
        """All elements of an integer or float32 tile (or scalar), in its shape; None where they are not known, or more
        than `LARGEST`.
        """
        if value not in self._known:
            self._known[value] = None  # a value that a loop carries may depend on itself
            self._known[value] = _elements(self, value)
        return self._known[value]

    def is_known(self, value: Value) -> bool:
        """Whether `of` was asked for a table that this value is, or is a part of."""
        return self._known.get(value) is not None


def _elements(constants: ConstantTiles, value: Value) -> np.ndarray | None:
    op, shape = value.owner, shape_of(value.type)
    element = element_of(value.type)
    type_ = _TYPES.get(element)
    if op is None or type_ is None or len(op.results) != 1 or op.regions or int(np.prod(shape)) > LARGEST:
        return None
    if op.name == "tt.make_range":
        start = op.attrs["start"]
        return np.arange(start, start + shape[0], dtype=type_)
    if op.name == "arith.constant":
        number = op.attrs["value"]
        number = number.values if isinstance(number, Dense) else number
        if isinstance(number, tuple):
            return np.array(number, dtype=type_).reshape(shape)
        return np.full(shape, number, dtype=type_)
    if op.name not in _BINARY and op.name not in _OTHERS:
        return None
    operands = []
    for operand in op.operands:
        table = constants.of(operand)
        if table is None:
            return None
        operands.append(table)
    if op.name in _ARITHMETIC and any(table.dtype == np.bool_ for table in operands):
        return None  # numpy's arithmetic of truth values is not that of numbers of one bit
    with np.errstate(all="ignore"):
        if op.name in _BINARY:
            return _BINARY[op.name](*operands)
        return _OTHERS[op.name](op, operands, shape, type_)


def _converted(
    op: Op, operands: list[np.ndarray], shape: tuple[int, ...], type_: type[np.generic]
) -> np.ndarray | None:
    return None if type_ is np.bool_ else operands[0].astype(type_)


def _truncated(
    op: Op, operands: list[np.ndarray], shape: tuple[int, ...], type_: type[np.generic]
) -> np.ndarray | None:
    """Floats as integers, where all are in range."""
    limits = np.iinfo(type_)
    inside = (operands[0] >= limits.min) & (operands[0] < float(limits.max))
    return operands[0].astype(type_) if inside.all() else None


def _divided(op: Op, operands: list[np.ndarray], shape: tuple[int, ...], type_: type[np.generic]) -> np.ndarray | None:
    """Quotients and remainders, where nothing is negative or divided by zero."""
    number, divisor = operands
    if (number < 0).any() or (divisor <= 0).any():
        return None
    return number // divisor if op.name == "arith.divsi" else number % divisor


def _shifted(op: Op, operands: list[np.ndarray], shape: tuple[int, ...], type_: type[np.generic]) -> np.ndarray | None:
    """Numbers that are not negative, by fewer bits than they have."""
    number, amount = operands
    if (number < 0).any() or (amount < 0).any() or (amount >= 8 * number.dtype.itemsize).any():
        return None
    return np.right_shift(number, amount)


def _compared(op: Op, operands: list[np.ndarray], shape: tuple[int, ...], type_: type[np.generic]) -> np.ndarray | None:
    compare = _COMPARISONS.get(op.attrs["predicate"])
    return None if compare is None else compare(*operands)


def _moved(op: Op, operands: list[np.ndarray], shape: tuple[int, ...], type_: type[np.generic]) -> np.ndarray:
    (source,) = operands
    if op.name == "tt.trans":
        return source.transpose(op.attrs["order"])
    if op.name == "tt.expand_dims":
        return np.expand_dims(source, op.attrs["axis"])
    return source.reshape(shape) if op.name == "tt.reshape" else np.broadcast_to(source, shape)


_OTHERS: dict[str, Callable[[Op, list[np.ndarray], tuple[int, ...], type[np.generic]], np.ndarray | None]] = {
    "arith.extsi": _converted,
    "arith.trunci": _converted,
    "arith.sitofp": _converted,
    "arith.fptosi": _truncated,
    "arith.divsi": _divided,
    "arith.remsi": _divided,
    "arith.shrsi": _shifted,
    "arith.shrui": _shifted,
    "arith.cmpi": _compared,
    "arith.cmpf": _compared,
    "arith.select": lambda op, operands, shape, type_: np.where(*operands),
    "tt.splat": _moved,
    "tt.broadcast": _moved,
    "tt.expand_dims": _moved,
    "tt.reshape": _moved,
    "tt.trans": _moved,
}
_ARITHMETIC = (frozenset(_BINARY) - _BITWISE) | {
    "arith.cmpi",
    "arith.extsi",
    "arith.trunci",
    "arith.sitofp",
    "arith.shrsi",
    "arith.shrui",
}
