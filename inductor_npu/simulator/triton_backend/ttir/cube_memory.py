"""L1 and L0C: the operands and the accumulators of dots that are live at once.

Sizes are those of the cube core's form: tiles in pieces of `fractal_rows` rows of `fractal_bytes` bytes, accumulators
in squares of `fractal_rows` elements of 32 bits. The compiler doubles operands where all of them fit doubled; so only
one buffer of each counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ....target import NpuTarget
from .cube_values import CubeValues, operand_root
from .forms import DOTS, is_number_tile
from .ir import Block, Function, Op, Value
from .literals import element_bits
from .unified_buffer import LiveTile, Peak

_ACCUMULATOR_BYTES = 4  # of an element, float32 or int32


def l1_peak(kernel: Function, target: NpuTarget, cube: CubeValues) -> Peak:
    """What the operands of dots need in L1."""

    def size(value: Value) -> int:
        return _operand_bytes(value, target)

    return _Liveness(lambda op: _l1_reads(op, cube), lambda op: [], size).run(kernel)


def l0c_peak(kernel: Function, target: NpuTarget, cube: CubeValues) -> Peak:
    """What accumulators need in L0C. A dot adds to its accumulator in place; one that is read leaves L0C at once."""

    def size(value: Value) -> int:
        return _accumulator_bytes(value, target)

    def added_to(op: Op) -> list[Value]:
        if op.name in DOTS:
            return [value for value in op.operands[2:3] if value in cube.accumulators]
        if op.name == "scf.yield":
            return [value for value in op.operands if value in cube.accumulators]
        return []

    def starts(op: Op) -> list[Value]:
        if op.name != "scf.for":
            return []
        carried = zip(op.operands[3:], op.results, strict=True)
        return [start for start, result in carried if start in cube.accumulators and result in cube.accumulators]

    made = [result for dot in cube.dots for result in dot.results]
    return _Liveness(added_to, starts, size, frozenset(made)).run(kernel)


class _Liveness:
    """Walks backwards with the values that are still needed: from the operation that makes one to the last that reads
    it. What a loop reads from outside is live throughout. `made` are live where they are made, though nothing reads
    them.
    """

    def __init__(
        self,
        reads: Callable[[Op], list[Value]],
        starts: Callable[[Op], list[Value]],
        size: Callable[[Value], int],
        made: frozenset[Value] = frozenset(),
    ) -> None:
        self._reads, self._starts, self._size, self._made = reads, starts, size, made
        self._peak = Peak()

    def run(self, kernel: Function) -> Peak:
        self._walk(kernel.body, set())
        return self._peak

    def _walk(self, block: Block, after: set[Value]) -> set[Value]:
        live = set(after)
        for op in reversed(block.ops):
            here = live | {value for value in op.results if value in self._made}
            if not op.regions:
                here |= set() if op.name in DOTS and self._made else set(self._reads(op))
            self._record(here)
            live -= set(op.results)
            if op.regions:
                live = self._walk_regions(op, live)
            live |= set(self._reads(op)) | set(self._starts(op))
        return live

    def _walk_regions(self, op: Op, live: set[Value]) -> set[Value]:
        outside = live | self._read_from_outside(op)
        before = set(outside)
        for region in op.regions:
            before |= self._walk(region, outside) - set(region.arguments)
        return before

    def _read_from_outside(self, op: Op) -> set[Value]:
        inner = [nested for region in op.regions for nested in region.walk()]
        defined = {value for nested in inner for value in nested.results}
        defined |= {value for region in op.regions for value in region.arguments}
        defined |= {value for nested in inner for region in nested.regions for value in region.arguments}
        return {value for nested in inner for value in self._reads(nested) if value not in defined}

    def _record(self, live: set[Value]) -> None:
        tiles = [
            LiveTile(self._size(value), value.type, value.owner.line if value.owner is not None else None)
            for value in live
        ]
        self._peak.reach(sum(tile.bytes for tile in tiles), tiles)


def _l1_reads(op: Op, cube: CubeValues) -> list[Value]:
    """What a dot reads in L1: its two operands, as they were before they were transposed, and a bias."""
    if op.name not in DOTS:
        return []
    read = [operand_root(value) for value in op.operands[:2]]
    if len(op.operands) > 2 and op.operands[2] not in cube.accumulators and cube.is_row_of_bias(op.operands[2]):
        read.append(operand_root(op.operands[2]))
    return read


def _operand_bytes(value: Value, target: NpuTarget) -> int:
    if not is_number_tile(value.type):
        return 0
    item = max(1, element_bits(value.type.element) // 8)
    *batch, columns = value.type.shape
    if not batch:
        return columns * item
    *batch, rows = batch
    return math.prod(batch) * target.operand_bytes(rows, columns, item)


def _accumulator_bytes(value: Value, target: NpuTarget) -> int:
    if not is_number_tile(value.type):
        return 0
    *batch, rows, columns = value.type.shape
    return math.prod(batch) * target.accumulator_bytes(rows, columns)
