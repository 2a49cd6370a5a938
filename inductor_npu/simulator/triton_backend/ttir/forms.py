"""The form in which Ascend's compiler holds each value of a kernel: a number, an index for addresses only, a tile.

Index arithmetic that only says which elements a load or store moves costs no memory: `pid * 1024 + arange` becomes the
offset, sizes and strides of a transfer. It becomes a tile (`needed`) where arithmetic on data reads it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeGuard

from .ir import Block, Dense, Function, Op, PointerType, ScalarType, TensorType, Type, Value, splat_number

# Step between neighbours along an axis, in elements: 0 where the axis does not move the index, UNKNOWN where only the
# launch says, None where no single step exists (`arange % 7`): the compiler then walks along the axis.
Step = float | None
UNKNOWN = math.inf

VIEWS = frozenset({"tt.expand_dims", "tt.broadcast", "tt.reshape", "tt.bitcast", "arith.bitcast"})
DOTS = frozenset({"tt.dot", "tt.dot_scaled"})
LOOPS = frozenset({"scf.for", "scf.while"})
_WIDTHS = frozenset({"arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast"})
_INTEGER = frozenset(
    {f"arith.{name}" for name in ("muli", "divsi", "divui", "remsi", "remui", "shli", "shrsi", "shrui", "minsi")}
    | {f"arith.{name}" for name in ("maxsi", "minui", "maxui", "select", "andi", "ori", "xori", "cmpi")}
)
_SHAPES = VIEWS | {"tt.trans", "tt.join", "tt.split", "tt.cat", "tt.addptr", "tt.unsplat", "tt.splat"}
_INDEX = _INTEGER | _WIDTHS | _SHAPES | {"arith.addi", "arith.subi", "arith.constant", "tt.make_range"}
# Comparisons that become the size of a transfer; the others are computed, and what they mask is selected.
_BOUNDS = frozenset({"slt", "sle", "sge", "sgt", "ult", "ule", "uge", "ugt"})
# What the compiler moves into the loop over single elements that an address from data makes.
_ADDRESSES = frozenset({"arith.addi", "arith.subi", "arith.muli", "tt.addptr"}) | _WIDTHS | VIEWS


def is_number_tile(type_: Type) -> TypeGuard[TensorType]:
    return isinstance(type_, TensorType) and isinstance(type_.element, ScalarType)


def is_mask(type_: Type) -> bool:
    return is_number_tile(type_) and type_.element == ScalarType("i1")


@dataclass(frozen=True)
class Index:
    """An index or a pointer: its step along each axis of its type; `bounds` for a mask that only bounds a transfer;
    `sources`, the tiles of data that it is computed from.
    """

    steps: tuple[Step, ...]
    bounds: bool = True
    sources: frozenset[Value] = frozenset()

    @property
    def is_uniform(self) -> bool:
        return all(step == 0 for step in self.steps) and not self.sources

    @property
    def is_regular(self) -> bool:
        """Whether one transfer moves all of it: one step an axis, and nothing read from data."""
        return None not in self.steps and not self.sources


class Forms:
    """`index[value]` for each value that no tile holds by itself; `needed`, those of them that become tiles."""

    def __init__(self, kernel: Function) -> None:
        self.index: dict[Value, Index] = {}
        self.users: dict[Value, list[Op]] = {}
        self.needed: set[Value] = set()
        self._loops: dict[Op, Op] = {}  # of the operation that ends a turn
        for op in kernel.body.walk():
            if op.name in LOOPS:
                self._loops[op.regions[-1].ops[-1]] = op
            for operand in op.operands:
                self.users.setdefault(operand, []).append(op)
        self._visit(kernel.body)
        for op in kernel.body.walk():
            for value in self.read(op):
                self._need(value)

    def is_tile(self, value: Value) -> bool:
        """Whether `value` is in the Unified Buffer: data, or an index that data is computed from."""
        return is_number_tile(value.type) and (value not in self.index or value in self.needed)

    def is_uniform(self, value: Value) -> bool:
        return not isinstance(value.type, TensorType) or (value in self.index and self.index[value].is_uniform)

    def index_of(self, value: Value) -> Index:
        """The index that `value` is; one that no transfer follows for a tile."""
        if value in self.index:
            return self.index[value]
        shape = value.type.shape if isinstance(value.type, TensorType) else ()
        return Index((0,) * len(shape)) if not shape else Index((None,) * len(shape), False, frozenset({value}))

    def read(self, op: Op) -> list[Value]:
        """The operands of `op` that it reads as tiles, in order; of an address, the data that it is computed from."""
        if op.name == "tt.load":
            pointer, *rest = op.operands
            masks = [rest[0]] if rest and self.is_selected(op) else []
            return [*self.index_of(pointer).sources, *masks]
        if op.name == "tt.store":
            pointer, value, *masks = op.operands
            sources = [source for mask in masks for source in self.index_of(mask).sources]
            return [*self.index_of(pointer).sources, value, *sources]
        if op.name in LOOPS or op in self._loops:
            results = self._loops.get(op, op).results
            carried = op.operands[len(op.operands) - len(results) :]
            return [start for start, result in zip(carried, results, strict=True) if result not in self.index]
        if all(result in self.index for result in op.results) and op.results and not op.regions:
            return [operand for operand in op.operands if op.results[0] in self.needed]
        tiles = [operand for operand in op.operands if isinstance(operand.type, TensorType)]
        if op.name == "tt.reduce" and len(op.operands) > 1:  # positions of a maximum are counted, not read
            return [tile for tile in tiles if tile not in self.index]
        return tiles

    def is_selected(self, load: Op) -> bool:
        """Whether a masked load reads all elements and selects: its mask does not just bound one transfer."""
        if len(load.operands) < 2:
            return False
        mask = self.index_of(load.operands[1])
        if mask.is_uniform:
            return False
        return not (mask.bounds and mask.is_regular and self.index_of(load.operands[0]).is_regular)

    def _need(self, value: Value) -> None:
        if value in self.needed or not is_number_tile(value.type):
            return
        if value in self.index:
            self.needed.add(value)
            if value.owner is not None:
                for operand in value.owner.operands:
                    self._need(operand)

    def _visit(self, block: Block) -> None:
        for op in block.ops:
            if op.name in LOOPS:
                self._visit_loop(op)
                continue
            for region in op.regions:
                self._visit(region)
            for result in op.results:
                found = self._index(op, result)
                if found is not None:
                    self.index[result] = found

    def _visit_loop(self, op: Op) -> None:
        """What a loop carries stays an index if it is one before the loop and at the end of a turn."""
        first = 3 if op.name == "scf.for" else 0
        carried = op.operands[first:]
        places = [region.arguments[-len(carried) :] if carried else [] for region in op.regions]
        known = [
            None if is_number_tile(start.type) and not _is_integer(start.type) else self.index.get(start)
            for start in carried
        ]
        while True:
            for arguments in places:
                for argument, index in zip(arguments, known, strict=False):
                    self.index.pop(argument, None)
                    if index is not None:
                        self.index[argument] = index
            for region in op.regions:
                for inner in region.walk():
                    for result in inner.results:
                        self.index.pop(result, None)
                self._visit(region)
            ends = op.regions[-1].ops[-1].operands[-len(carried) :] if carried else []
            found = [index if end in self.index else None for end, index in zip(ends, known, strict=True)]
            if found == known:
                break
            known = found
        for result, index in zip(op.results, known, strict=False):
            if index is not None:
                self.index[result] = index

    def _index(self, op: Op, result: Value) -> Index | None:
        """`result` as an index; None if it is data."""
        type_ = result.type
        if not isinstance(type_, TensorType):
            return None
        rank = len(type_.shape)
        if op.name == "tt.splat":
            return Index((0,) * rank)
        if op.name == "arith.constant":
            value = op.attrs.get("value")
            return Index((0,) * rank) if not isinstance(value, Dense) or value.is_splat else None
        if op.name == "tt.make_range":
            return Index((1,))
        pointer = isinstance(type_.element, PointerType)
        if op.regions or (op.name not in _INDEX and not pointer):
            return None
        operands = [value for value in op.operands if isinstance(value.type, TensorType)]
        data = [value for value in operands if value not in self.index]
        if data and not pointer and not self._is_address(result):
            return None
        if all(self.is_uniform(value) for value in operands) and not pointer and op.name not in _INDEX:
            return None
        indices = [self.index_of(value) for value in operands]
        sources = frozenset().union(*(index.sources for index in indices)) if indices else frozenset()
        bounds = all(index.bounds for index in indices) and op.name != "arith.ori"
        if op.name == "arith.cmpi":
            right = op.operands[1]
            bounds = bounds and self.is_uniform(right) and op.attrs["predicate"] in _BOUNDS
        return Index(self._steps(op, type_, indices), bounds, sources)

    def _is_address(self, value: Value) -> bool:
        """Whether `value` only ends in addresses."""
        if value.owner is None or value.owner.name not in _ADDRESSES:
            return False
        users = self.users.get(value, [])
        return bool(users) and all(
            user.name == "tt.addptr" or (user.name in _ADDRESSES and self._is_address(user.result)) for user in users
        )

    def _steps(self, op: Op, type_: TensorType, indices: list[Index]) -> tuple[Step, ...]:
        rank = len(type_.shape)
        if not indices:
            return (0,) * rank
        first = indices[0].steps
        if op.name == "tt.expand_dims":
            axis = op.attrs["axis"]
            return (*first[:axis], 0, *first[axis:])
        if op.name in ("tt.broadcast", "tt.bitcast", "arith.bitcast", *_WIDTHS) and len(first) == rank:
            return first
        if op.name == "tt.reshape":
            if indices[0].is_uniform:
                return (0,) * rank
            kept = [step for step, size in zip(first, _shape(op.operands[0]), strict=True) if size > 1]
            if len(kept) == sum(size > 1 for size in type_.shape):
                rest = iter(kept)
                return tuple(next(rest) if size > 1 else 0 for size in type_.shape)
            return (None,) * rank
        if op.name == "tt.trans":
            return tuple(first[axis] for axis in op.attrs["order"])
        if op.name == "arith.subi":  # an index that falls is walked along
            left, right = (index.steps for index in indices)
            return tuple(step if other == 0 else None for step, other in zip(left, right, strict=True))
        if op.name in ("arith.addi", "tt.addptr", "arith.cmpi") or is_mask(type_):
            return tuple(map(_sum, zip(*(index.steps for index in indices), strict=True)))
        if op.name == "arith.muli" and len(indices) == 2:
            for index, factor in zip(indices, reversed(op.operands), strict=True):
                if self.is_uniform(factor):
                    return tuple(_product(step, _constant(factor)) for step in index.steps)
        return tuple(0 if all(step == 0 for step in steps) else None for steps in _by_axis(indices, rank))


def _by_axis(indices: list[Index], rank: int) -> Iterator[tuple[Step, ...]]:
    for axis in range(rank):
        yield tuple(index.steps[axis] if len(index.steps) == rank else None for index in indices)


def _sum(steps: tuple[Step, ...]) -> Step:
    known = [step for step in steps if step is not None]
    return None if len(known) < len(steps) else sum(known)


def _product(step: Step, factor: int | None) -> Step:
    if step is None or step == 0:
        return step
    if factor is not None and factor < 0:
        return None
    return UNKNOWN if factor is None else step * factor


def _constant(value: Value) -> int | None:
    """The number that all elements of `value` have, if the kernel's text says it."""
    number = splat_number(value, ("tt.splat", *VIEWS, *_WIDTHS))
    return number if isinstance(number, int) else None


def _shape(value: Value) -> tuple[int, ...]:
    assert isinstance(value.type, TensorType)
    return value.type.shape


def _is_integer(type_: Type) -> bool:
    return is_number_tile(type_) and str(type_.element).startswith("i")
