"""How many bytes the Unified Buffer gives to a tile, and to the temporaries of an operation."""

from __future__ import annotations

import math

from .forms import UNKNOWN, Forms, is_mask, is_number_tile
from .ir import Function, Op, TensorType, Type, Value
from .literals import element_bits
from .vector_unit import (
    BLOCK,
    NARROW_ARITHMETIC,
    NEEDS_MORE_WITH_NUMBERS,
    REDUCED_AT_ONCE,
    SCRATCH_OF_MASK,
    SCRATCH_OF_SELECTION,
    TILES_OF_NARROW_ARITHMETIC,
    WIDENINGS,
    temporary_tiles,
)


class TileSizes:
    """Sizes in bytes, for one kernel."""

    def __init__(self, kernel: Function, forms: Forms) -> None:
        self._forms = forms
        self.spread = _spread_shapes(kernel, forms)
        self._halves: set[Value] = set()  # bytes that are only compared: as numbers of 16 bits
        for op in kernel.body.walk():
            if op.name in WIDENINGS and self._is_compared_only(op):
                self._halves |= {op.result, *(value for user in forms.users[op.result] for value in user.operands)}

    def _is_compared_only(self, op: Op) -> bool:
        users = self._forms.users.get(op.result, [])
        return bits_of(op.operands[0]) == 8 and bool(users) and all(user.name == "arith.cmpi" for user in users)

    def bytes(self, type_: Type) -> int:
        """Of a tile of this type; 0 for what is none."""
        if not is_number_tile(type_):
            return 0
        bits = BLOCK * 8 if type_.shape in self.spread else element_bits(type_.element)
        return -(-math.prod(type_.shape) * bits // 8)

    def of_result(self, op: Op, result: Value) -> float:
        """Of what `op` makes."""
        if result in self._halves:
            return 2 * math.prod(shape_of(result))
        if is_mask(result.type):
            source = op.operands[0] if op.operands else result
            if op.name == "tt.broadcast":
                return max(self.bytes(result.type), 2 * math.prod(shape_of(result)))  # as numbers of 16 bits
            if op.name == "arith.cmpi" and bits_of(source) == 64:
                return math.prod(shape_of(result))  # as bytes, one by one
        elif op.operands and is_mask(op.operands[0].type) and op.name in ("arith.extui", "arith.extsi"):
            return max(self.bytes(result.type), 2 * math.prod(shape_of(result)))
        return self.bytes(result.type)

    def of_temporaries(self, op: Op, read: list[Value]) -> list[float]:
        """What `op`, which reads `read`, needs besides."""
        tiles = 0.0 if op.results[0] in self._halves else temporary_tiles(op)
        if op.name in NEEDS_MORE_WITH_NUMBERS and any(self._forms.is_uniform(value) for value in op.operands):
            tiles += NEEDS_MORE_WITH_NUMBERS[op.name]
        sizes = [tiles * self.bytes(op.results[0].type)]
        if op.name == "tt.load":
            sizes += self._of_load(op)
        elif op.name == "tt.reduce":
            sizes += self._of_reduction(op)
        elif takes_temporary(op):
            sizes += self._of_mask(op)
        elif op.name == "arith.select":
            sizes.append(0.75 * self.bytes(op.result.type) if bits_of(op.result) == 64 else SCRATCH_OF_SELECTION)
        elif op.name in NARROW_ARITHMETIC and bits_of(op.result) == 8:
            sizes.append(float(TILES_OF_NARROW_ARITHMETIC * self.bytes(op.result.type)))
        elif any(is_mask(value.type) for value in read) and (
            op.name == "tt.broadcast" or not is_mask(op.results[0].type)
        ):
            sizes.append(SCRATCH_OF_MASK)
        return [size for size in sizes if size]

    def _of_load(self, op: Op) -> list[float]:
        sizes = []
        if self._forms.is_selected(op):
            sizes += [float(self.bytes(op.result.type)), SCRATCH_OF_SELECTION]
        step = _last_step(self._forms.index_of(op.operands[0]).steps, shape_of(op.result))
        if step not in (None, 0, 1) and op.result.type.shape not in self.spread:  # type: ignore[union-attr]
            is_pair = step == 2 and len(op.operands) == 1  # read with what lies between, then picked from it
            apart = 2 * self.bytes(op.result.type) if is_pair else BLOCK * math.prod(shape_of(op.result))
            sizes.append(float(apart))
        return sizes

    def _of_mask(self, op: Op) -> list[float]:
        source = op.operands[0]
        elements = math.prod(shape_of(op.result))
        if bits_of(source) == 8:
            return [2.0 * elements, 2.0 * elements]  # both sides as numbers of 16 bits
        if op.name == "arith.cmpi" and op.attrs["predicate"] not in ("eq", "ne") and 1 < bits_of(source) < 64:
            return [float(self.bytes(source.type))]  # the greater of both
        return []

    def _of_reduction(self, op: Op) -> list[float]:
        source = op.operands[0]
        shape, size = shape_of(source), float(self.bytes(source.type))
        if shape in self.spread:
            return [size]
        axis = op.attrs["axis"]
        tiles = len(op.operands) if op.regions[0].ops[0].name != "arith.mulf" else 2
        if any(length > 1 for length in shape[axis + 1 :]) or tiles > 1:
            return [size * (tiles if len(op.operands) == 1 or axis + 1 < len(shape) else 1)]
        if shape[axis] * bits_of(source) // 8 <= REDUCED_AT_ONCE:
            return []
        return [size / 2]


def takes_temporary(op: Op) -> bool:
    """Whether the result, a mask, is in the place of a temporary."""
    return op.name in ("arith.cmpi", "arith.trunci") and is_mask(op.result.type)


def _spread_shapes(kernel: Function, forms: Forms) -> set[tuple[int, ...]]:
    """The shapes of tiles whose elements lie 32 bytes apart."""
    found = set()
    for op in kernel.body.walk():
        if op.name not in ("tt.load", "tt.store") or not op.operands:
            continue
        type_ = op.operands[0].type
        if not isinstance(type_, TensorType):
            continue
        steps = forms.index_of(op.operands[0]).steps
        step = _last_step(steps, type_.shape)
        if step in (None, 0, 1):
            continue
        walked = any(other is None for other, size in zip(steps, type_.shape, strict=True) if size > 1)
        if op.name == "tt.store" or walked or step == UNKNOWN:
            found.add(type_.shape)
    return found


def _last_step(steps: tuple[float | None, ...], shape: tuple[int, ...]) -> float | None:
    """The step between neighbours of the tile; 1 where it has none."""
    return next((step for step, size in zip(reversed(steps), reversed(shape), strict=True) if size > 1), 1)


def bits_of(value: Value) -> int:
    """Of an element of a tile; 0 for what is none."""
    return element_bits(value.type.element) if is_number_tile(value.type) else 0


def shape_of(value: Value) -> tuple[int, ...]:
    """Of a tile; () for a number."""
    return value.type.shape if isinstance(value.type, TensorType) else ()
