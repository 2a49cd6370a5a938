"""How the operations of a block depend on each other: which steps need a value, which steps and loads it depends on."""

from __future__ import annotations

from collections.abc import Sequence

from ...ttir.ir import Op, Value
from ..analysis.effects import free_values, nested
from ..analysis.facts import Facts
from ..analysis.operations import READS, STANDALONE, is_tensor, is_virtual, moves
from .steps import Root


class Dataflow:
    """The dependences between `ops`, and the roots in `tail` behind them, as sets of positions: the bits of an int."""

    def __init__(self, facts: Facts, ops: list[Op], tail: list[Root]) -> None:
        self.facts, self.ops, self.tail = facts, ops, tail
        self.users: dict[Value, list[int]] = {}
        self.reach: dict[Value, int] = {}  # positions of the roots and other steps that need a value
        self.needs: dict[Value, int] = {}  # positions of the steps whose results a virtual value depends on
        self.loads: dict[Value, int] = {}  # positions of loads that a value depends on through lane-by-lane operations
        self.moved: dict[Value, int] = {}  # ... and through operations that move elements
        self.wanted_in_loops: set[Value] = set()  # operands of dot, ... in a loop that are the same in every round
        self._relate()

    def _relate(self) -> None:
        for position, op in enumerate(self.ops):
            used = set(op.operands)
            if op.regions:
                free = free_values(op)
                used |= free
                self.wanted_in_loops.update(
                    v
                    for inner in nested(op)
                    for v in self._wanted_in_scratch(inner)
                    if v in free and is_tensor(v) and v.owner is not None and is_virtual(v.owner)
                )
            for value in used:
                self.users.setdefault(value, []).append(position)
            self._relate_forward(position, op)
        for k, root in enumerate(self.tail):
            for value in root.operands:
                self.users.setdefault(value, []).append(len(self.ops) + k)
        for op in reversed(self.ops):
            for result in op.results:
                bits = 0
                for user in self.users.get(result, ()):
                    if user < len(self.ops) and is_virtual(self.ops[user]):
                        for r in self.ops[user].results:
                            bits |= self.reach.get(r, 0)
                    else:
                        bits |= 1 << user
                self.reach[result] = bits

    def _wanted_in_scratch(self, op: Op) -> Sequence[Value]:
        """The operands that a loop around `op` reads from scratch if they are the same in every round."""
        if op.name == "tt.gather":  # computed places; others cost less than to read them
            place = op.operands[1]
            return (
                [] if self.facts.strides.is_position(place) or self.facts.constants.of(place) is not None else [place]
            )
        return op.operands if op.name in STANDALONE else []

    def _relate_forward(self, position: int, op: Op) -> None:
        if not is_virtual(op):
            for result in op.results:
                self.needs[result] = 1 << position
            return
        needs = loads = moved = 0
        for operand in op.operands:
            needs |= self.needs.get(operand, 0)
            loads |= self.loads.get(operand, 0)
            moved |= self.moved.get(operand, 0)
        if moves(op):
            loads, moved = 0, loads | moved
        if op.name in READS:
            loads |= 1 << position
        for result in op.results:
            self.needs[result], self.loads[result], self.moved[result] = needs, loads, moved

    def all_of(self, table: dict[Value, int], values: Sequence[Value]) -> int:
        """The positions that `table` has for any of `values`."""
        bits = 0
        for value in values:
            bits |= table.get(value, 0)
        return bits

    def unsafe_loads(self, pointer: Value, loads: int, moved: int) -> list[Op]:
        """Loads that may read what a store through `pointer` in the same nest has written for another chunk."""
        unsafe = []
        for position in positions_in(loads | moved):
            load = self.ops[position]
            same_place = self.facts.aliases.in_step(load.operands[0], pointer) and not moved >> position & 1
            if not same_place and self.facts.aliases.may_alias(load.operands[0], pointer):
                unsafe.append(load)
        return unsafe


def positions_in(mask: int) -> list[int]:
    """The numbers of the bits that are set, in their order."""
    result = []
    while mask:
        low = mask & -mask
        result.append(low.bit_length() - 1)
        mask ^= low
    return result
