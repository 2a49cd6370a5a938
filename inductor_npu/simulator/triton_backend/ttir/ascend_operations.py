"""Rewrites operations of Ascend's Triton as operations of every Triton.

Where upstream's Triton has library functions, Ascend's has operations for its own compiler: `tl.sort`, `tl.flip` and
`%` of floating-point tiles become `tt.sort`, `tt.flip` and `tt.mod`. The rewrite gives what upstream's library makes of
the same calls: a bitonic network, exchanges of neighbours, and `arith.remf`.
"""

from __future__ import annotations

import math

from .ir import Block, Op, ScalarType, TensorType, Type, Value

_I1 = ScalarType("i1")
_I32 = ScalarType("i32")
_BITS = {"bf16": 16, "f16": 16, "f32": 32, "f64": 64, "f8E4M3FN": 8, "f8E5M2": 8}


def write_out(block: Block) -> None:
    """Replaces every such operation in `block` and its regions, in place."""
    replaced: dict[Value, Value] = {}
    ops: list[Op] = []
    for op in block.ops:
        op.operands = [replaced.get(value, value) for value in op.operands]
        for region in op.regions:
            write_out(region)
        spelling = _SPELLINGS.get(op.name)
        if spelling is None:
            ops.append(op)
            continue
        writer = _Writer(op)
        replaced[op.result] = spelling(writer)
        ops += writer.ops
    block.ops = ops
    if replaced:
        for inner in block.walk():
            inner.operands = [replaced.get(value, value) for value in inner.operands]


def _tile(value: Value) -> TensorType:
    assert isinstance(value.type, TensorType), f"{value} is not a tile"
    return value.type


def _number(value: Value) -> ScalarType:
    """The type of the numbers that a tile holds."""
    element = _tile(value).element
    assert isinstance(element, ScalarType), f"{value} is a tile of addresses"
    return element


class _Writer:
    """Makes operations in place of `op`, with its source line."""

    def __init__(self, op: Op) -> None:
        self.op = op
        self.ops: list[Op] = []

    def make(self, name: str, operands: list[Value], type_: Type, **attrs: object) -> Value:
        made = Op(name, operands, [], attrs, [], self.op.line)
        made.results = [Value(f"%{name}", type_, made)]
        self.ops.append(made)
        return made.result

    def reshape(self, value: Value, shape: tuple[int, ...]) -> Value:
        assert math.prod(shape) == math.prod(_tile(value).shape), f"{value.type} has no shape {shape}"
        return self.make("tt.reshape", [value], TensorType(shape, _number(value)))

    def bitcast(self, value: Value, element: ScalarType) -> Value:
        if _number(value) == element:
            return value
        return self.make("tt.bitcast", [value], TensorType(_tile(value).shape, element))

    def exchanged(self, value: Value, axis: int) -> Value:
        """`value` with the two halves of `axis`, which has two elements, exchanged."""
        shape, element = _tile(value).shape, _number(value)
        bits = self.bitcast(value, ScalarType(f"i{_BITS.get(element.name) or element.name[1:]}"))
        both = self._xor_along(bits, axis)
        return self.bitcast(self.make("arith.xori", [bits, both], TensorType(shape, _number(bits))), element)

    def _xor_along(self, value: Value, axis: int) -> Value:
        """The exclusive or of the elements along `axis`, at each of them."""
        shape, element = _tile(value).shape, _number(value)
        arguments = [Value("%left", element), Value("%right", element)]
        combine = Op("arith.xori", list(arguments), [], {}, [], self.op.line)
        combine.results = [Value("%xor", element, combine)]
        rest = shape[:axis] + shape[axis + 1 :]
        reduced = self.make("tt.reduce", [value], TensorType(rest, element) if rest else element, axis=axis)
        self.ops[-1].regions = [Block(arguments, [combine, Op("tt.reduce.return", [combine.result], [])])]
        if not rest:
            return self.make("tt.splat", [reduced], value.type)
        kept = self.make("tt.expand_dims", [reduced], TensorType((*rest[:axis], 1, *rest[axis:]), element), axis=axis)
        return self.make("tt.broadcast", [kept], value.type)

    def is_second(self, shape: tuple[int, ...], axis: int) -> Value:
        """A tile of truth values: whether an element is the second one along `axis`, which has two."""
        pair = TensorType((2,), _I32)
        numbers = self.make("tt.make_range", [], pair, start=0, end=pair.shape[0])
        zeros = self.make("tt.splat", [self.make("arith.constant", [], _I32, value=0)], pair)
        second = self.make("arith.cmpi", [numbers, zeros], TensorType(pair.shape, _I1), predicate="ne")
        aligned = self.reshape(second, tuple(2 if here == axis else 1 for here in range(len(shape))))
        return self.make("tt.broadcast", [aligned], TensorType(shape, _I1))


def _remainder(writer: _Writer) -> Value:
    return writer.make("arith.remf", writer.op.operands, writer.op.result.type)


def _flip(writer: _Writer) -> Value:
    """Exchanges neighbours at every power of two along the axis."""
    (source,), axis = writer.op.operands, writer.op.attrs["axis"]
    shape = _tile(source).shape
    digits = shape[axis].bit_length() - 1
    flipped = writer.reshape(source, (*shape[:axis], *[2] * digits, *shape[axis + 1 :])) if digits else source
    for digit in range(digits):
        flipped = writer.exchanged(flipped, axis + digit)
    return writer.reshape(flipped, shape) if digits else flipped


def _sort(writer: _Writer) -> Value:
    """A bitonic network along the last axis: log2(n) rounds, each of which merges runs that rise and fall by turns."""
    (source,), descending = writer.op.operands, writer.op.attrs["descending"]
    shape = _tile(source).shape
    if writer.op.attrs["axis"] != len(shape) - 1:
        raise ValueError(f"tt.sort along axis {writer.op.attrs['axis']} of {source.type}: only the last axis is sorted")
    rounds = shape[-1].bit_length() - 1
    if rounds == 0:
        return source
    lead = shape[:-1]
    digits = (*lead, *[2] * rounds)
    values = writer.reshape(source, digits)
    for merged in range(1, rounds + 1):
        # Runs of 2**merged elements; the last round makes one of all.
        falls = None if merged == rounds else writer.is_second(digits, len(digits) - 1 - merged)
        for distance in reversed(range(merged)):
            axis = len(digits) - 1 - distance
            values = _compare_and_exchange(writer, values, axis, falls, bool(descending))
    return writer.reshape(values, shape)


def _compare_and_exchange(writer: _Writer, values: Value, axis: int, falls: Value | None, descending: bool) -> Value:
    """Puts the two elements along `axis` in order: rising, or falling where `falls` says so (None: as `descending`).

    Both decide by the same comparison, so that no value is lost where one of them is not a number.
    """
    shape, element = _tile(values).shape, _number(values)
    truths = TensorType(shape, _I1)
    others = writer.exchanged(values, axis)
    compare, predicate = ("arith.cmpf", "ogt") if element.name in _BITS else ("arith.cmpi", "sgt")
    greater = writer.make(compare, [values, others], truths, predicate=predicate)
    less = writer.make(compare, [others, values], truths, predicate=predicate)
    is_second = writer.is_second(shape, axis)
    if falls is not None:
        is_second = writer.make("arith.xori", [is_second, falls], truths)
    at_second, at_first = (greater, less) if falls is None and descending else (less, greater)
    exchange = writer.make("arith.select", [is_second, at_second, at_first], truths)
    return writer.make("arith.select", [exchange, others, values], values.type)


_SPELLINGS = {"tt.mod": _remainder, "tt.flip": _flip, "tt.sort": _sort}
