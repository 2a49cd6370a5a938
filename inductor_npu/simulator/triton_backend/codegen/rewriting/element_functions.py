"""Scalar functions inside an operation: the combine function of a reduction or scan, the function of
`tl.map_elementwise`.

They are computed for all lanes at once, so that both sides of an `if` run and one result is selected. This is
equivalent, because neither side has effects and no operation traps.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ttir.ir import Block, Op, PointerType, ScalarType, TensorType, Type, Value
from ..errors import UnsupportedOperation
from ..forms.types import shape_of

_LOOPS = frozenset({"scf.for", "scf.while"})
_EFFECTS = frozenset({"tt.load", "tt.atomic_rmw", "tt.atomic_cas"})  # and all that has no result


def choose_sides(block: Block) -> None:
    """Replaces every `scf.if` of a function by the operations of both sides and a choice between their values.

    Raises UnsupportedOperation for loops and effects.
    """
    ops: list[Op] = []
    for op in block.ops:
        if op.name in _LOOPS:
            raise UnsupportedOperation(op, "a loop inside a function of elements is not supported; use tl.static_range")
        if op.name in _EFFECTS or not (op.results or op.regions or op is block.ops[-1]):
            raise UnsupportedOperation(
                op, "a function of elements may only compute; load before it, and store after it"
            )
        ops += _both_sides(op) if op.name == "scf.if" else [op]
    block.ops = ops


def _both_sides(branch: Op) -> list[Op]:
    ops: list[Op] = []
    for side in branch.regions:
        choose_sides(side)
        ops += side.ops[:-1]
    ends = [side.ops[-1].operands for side in branch.regions if side.ops]
    for index, result in enumerate(branch.results):
        choice = Op("arith.select", [branch.operands[0], *(end[index] for end in ends)], [result], {}, [], branch.line)
        result.owner, result.index = choice, 0
        ops.append(choice)
    return ops


class ElementMap:
    """A `tt.map_elementwise`, of a function without branches, as operations on tiles: `ops` make `results`, one for
    each result of the operation.

    Where a call takes several neighbours along the last axis (`pack`), each argument is a tile of every so manieth one.
    """

    def __init__(self, op: Op) -> None:
        self.op, self.ops = op, list[Op]()
        (function,) = op.regions
        pack = int(op.attrs.get("pack", 1))
        shape = shape_of(op.operands[0].type)
        if pack > 1 and (not shape or shape[-1] % pack or pack & (pack - 1)):
            raise UnsupportedOperation(op, f"pack={pack} must be a power of two that divides the last axis of {shape}")
        self._shape = (*shape[:-1], shape[-1] // pack) if shape else ()
        arguments = [part for operand in op.operands for part in self._unpacked(operand, pack)]
        self._tiles: dict[Value, Value] = dict(zip(function.arguments, arguments, strict=True))
        *body, ending = function.ops
        for inner in body:
            self._map(inner)
        values = [self._tile(value) for value in ending.operands]
        self.results = [self._packed(values[first : first + pack]) for first in range(0, len(values), pack)]

    def _map(self, inner: Op) -> None:
        """The operation on tiles; what takes no operand, as a constant, stays a scalar."""
        if not inner.operands:
            self.ops.append(inner)
            return
        operands = [self._tile(value) for value in inner.operands]
        mapped = Op(inner.name, operands, [], inner.attrs, [], inner.line)
        for index, result in enumerate(inner.results):
            self._tiles[result] = Value(result.name, self._type(result.type), mapped, index)
            mapped.results.append(self._tiles[result])
        self.ops.append(mapped)

    def _tile(self, value: Value) -> Value:
        """The tile of a value of the function; a scalar from outside of it is repeated."""
        if value not in self._tiles:
            self._tiles[value] = self._make("tt.splat", [value], self._type(value.type)) if self._shape else value
        return self._tiles[value]

    def _type(self, type_: Type) -> Type:
        assert isinstance(type_, (ScalarType, PointerType)), "elements are numbers or pointers"
        return TensorType(self._shape, type_) if self._shape else type_

    def _make(self, name: str, operands: Sequence[Value], *types: Type) -> Value:
        made = Op(name, list(operands), [], {}, [], self.op.line)
        made.results = [Value(f"%{name}", type_, made, index) for index, type_ in enumerate(types)]
        self.ops.append(made)
        return made.results[0]

    def _unpacked(self, tile: Value, pack: int) -> list[Value]:
        """`pack` tiles: number j holds the elements whose place along the last axis leaves the remainder j."""
        if pack == 1:
            return [tile]
        assert isinstance(tile.type, TensorType), "a scalar is not packed"
        *outer, extent = tile.type.shape
        half = TensorType((*outer, extent // 2), tile.type.element)
        pairs = self._make("tt.reshape", [tile], TensorType((*half.shape, 2), half.element))
        even = self._make("tt.split", [pairs], half, half)
        odd = self.ops[-1].results[1]
        columns = (self._unpacked(even, pack // 2), self._unpacked(odd, pack // 2))
        return [part for pair in zip(*columns, strict=True) for part in pair]

    def _packed(self, parts: Sequence[Value]) -> Value:
        """The inverse of `_unpacked`."""
        if len(parts) == 1:
            return parts[0]
        even, odd = self._packed(parts[::2]), self._packed(parts[1::2])
        assert isinstance(even.type, TensorType), "a scalar is not packed"
        *outer, extent = even.type.shape
        pairs = self._make("tt.join", [even, odd], TensorType((*even.type.shape, 2), even.type.element))
        return self._make("tt.reshape", [pairs], TensorType((*outer, 2 * extent), even.type.element))
