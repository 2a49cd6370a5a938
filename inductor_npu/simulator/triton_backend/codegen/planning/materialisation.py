"""Which values are computed once and kept in scratch: those that are costly and needed several times, and loads whose
memory is written before their last use.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...ttir.ir import Op, Value
from ..analysis.effects import written_pointers
from ..analysis.operations import ATOMICS, READS, VIEWS, is_pair, is_tensor, is_virtual, moves
from ..forms.types import shape_of
from .dataflow import Dataflow, positions_in
from .steps import Group, KeptRoot, NestStep, OpRoot, OpStep, Root, Step

_CHEAP = frozenset(
    {"arith.muli", "tt.bitcast", "arith.bitcast", "arith.extsi", "arith.extui", "arith.trunci", "arith.andi"}
)
KEEP_COST = 6  # a value that costs more than this is computed once and kept, if several nests need it
# A gather's source that costs more is computed once and kept, too: a chunk takes from several chunks of it, each of
# which would be computed for that.
GATHERED_COST = 32
_COSTS = {
    "arith.divf": 6,
    "arith.divsi": 8,
    "arith.divui": 8,
    "arith.remsi": 8,
    "arith.remui": 8,
    "arith.remf": 20,
    "tt.extern_elementwise": 12,
    "tt.precise_divf": 6,
    "tt.precise_sqrt": 6,
    "math.sqrt": 6,
    "math.absf": 1,
    "math.fma": 1,
    "math.floor": 1,
    "math.ceil": 1,
}


class Materialisation:
    """Adds to the steps of a block the roots that keep values; `steps` are then complete."""

    def __init__(self, flow: Dataflow, steps: list[Step]) -> None:
        self.flow, self.facts, self.steps = flow, flow.facts, steps
        self.step_of = {p: i for i, step in enumerate(steps) for p in step.positions}
        kept = self._hazards()
        kept |= self._shared(kept)
        self._keep(kept)

    def _hazards(self) -> set[Value]:
        """Loads whose memory may be written before their last use."""
        kept: set[Value] = set()
        writers = [(p, op, written_pointers(op)) for p, op in enumerate(self.flow.ops) if not is_virtual(op)]
        writers = [w for w in writers if w[2]]
        if not writers:
            return kept
        for position, load in enumerate(self.flow.ops):
            if load.name not in READS or not is_virtual(load):
                continue
            last = max((self.step_of[p] for p in positions_in(self.flow.reach[load.result])), default=-1)
            for written_at, op, pointers in writers:
                if written_at < position or not any(
                    self.facts.aliases.may_alias(load.operands[0], p) for p in pointers
                ):
                    continue
                step = self.step_of[written_at]
                inside = step == last and op.regions and self.flow.reach[load.result] >> written_at & 1
                if step < last or inside:
                    kept.add(load.result)
        groups = [step.group for step in self.steps if isinstance(step, NestStep)]
        return kept.union(*(self._self_conflicts(group) for group in groups))

    def _self_conflicts(self, group: Group) -> set[Value]:
        operands = [value for root in group.roots for value in root.operands]
        loads, moved = self.flow.all_of(self.flow.loads, operands), self.flow.all_of(self.flow.moved, operands)
        return {
            load.result
            for root in group.roots
            if isinstance(root, OpRoot) and root.is_effect
            for load in self.flow.unsafe_loads(root.operands[0], loads, moved)
        }

    def _shared(self, kept: set[Value]) -> set[Value]:
        """Costly values that several steps need, and of those only what the steps use directly."""
        shared: set[Value] = self._halves() - kept
        costs: dict[Value, float] = {}
        for op in self.flow.ops:
            if not is_virtual(op):
                continue
            if self.facts.constants.is_known(op.results[0]):
                costs[op.results[0]] = 0
                continue
            cost = self._own_cost(op) + sum(costs.get(o, 0) for o in set(op.operands))
            for result in op.results:
                costs[result] = 1 if result in kept or result in shared else min(cost, 1000.0)
                wanted: Value | None
                if result in self.flow.wanted_in_loops or (cost > GATHERED_COST and self._is_gathered(result)):
                    wanted = result
                elif cost >= KEEP_COST and self._is_frontier(result):
                    wanted = _before_broadcast(result)
                else:
                    continue
                costs[result] = 1
                if wanted is not None and wanted not in kept:
                    shared.add(wanted)
        return shared

    def _is_gathered(self, value: Value) -> bool:
        """Whether a gather takes elements of a computed value, as it is or seen in another shape."""
        readers = [self.flow.ops[user] for user in self.flow.users.get(value, ()) if user < len(self.flow.ops)]
        return any(
            (op.name == "tt.gather" and op.operands[0] is value)
            or (op.name in VIEWS and any(map(self._is_gathered, op.results)))
            for op in readers
        )

    def _own_cost(self, op: Op) -> float:
        """What computing an element takes, its operands left out; positions are computed once a chunk, as scalars."""
        if op.name in VIEWS or op.name in ("tt.make_range", "tt.splat", "arith.constant", "tt.addptr"):
            return 0
        if all(self.facts.strides.is_position(result) for result in op.results):
            return 0
        return _COSTS.get(op.name, 10 if op.name.startswith("math.") else 1)

    def _halves(self) -> set[Value]:
        """What reductions over pairs read at two places: computed once, or a chain of them would double the work each
        time.
        """
        found: set[Value] = set()
        for op in self.flow.ops:
            if not is_pair(op):
                continue
            stack = list(op.operands)
            while stack:
                value = stack.pop()
                owner = value.owner
                if owner is None or not is_tensor(value) or not is_virtual(owner) or value not in self.flow.reach:
                    continue
                if owner.name in _CHEAP or (moves(owner) and owner.name != "tt.reduce"):
                    stack += owner.operands
                elif self.flow.loads[value] | self.flow.moved[value] | self.flow.needs[value]:
                    found.add(value)
        return found

    def _steps(self, value: Value) -> frozenset[int]:
        return frozenset(self.step_of[p] for p in positions_in(self.flow.reach[value]))

    def _is_frontier(self, value: Value) -> bool:
        if math.prod(shape_of(value.type)) == 1:
            return False
        steps = self._steps(value)
        if len(steps) < 2 and not any(self._is_loop(self.steps[s]) for s in steps):
            return False
        for user in self.flow.users.get(value, ()):
            if user >= len(self.flow.ops) or not is_virtual(self.flow.ops[user]):
                return True
            if any(self._steps(r) != steps for r in self.flow.ops[user].results):
                return True
        return False

    def _is_loop(self, step: Step) -> bool:
        return isinstance(step, OpStep) and step.op.name in ("scf.for", "scf.while")

    def _keep(self, values: set[Value]) -> None:
        """Adds a root for each value to the first nest that needs it, or a nest of its own before that."""
        inserted: dict[int, list[NestStep]] = {}
        for op in self.flow.ops:
            for value in op.results:
                if value in values and self.flow.reach[value]:
                    self._keep_one(op, value, inserted)
        self.steps = [s for i, step in enumerate(self.steps) for s in (*inserted.get(i, ()), step)]

    def _keep_one(self, op: Op, value: Value, inserted: dict[int, list[NestStep]]) -> None:
        """`inserted` are the nests to put before each step."""
        root = KeptRoot(value, shape_of(value.type), row_major=value in self.flow.wanted_in_loops)
        first = min(self._steps(value))
        step = self.steps[first]
        if op.name in READS:
            first = self._before_writes(op, first)
        elif isinstance(step, NestStep) and self._takes(step.group, root):
            step.group.roots.append(root)
            return
        own = inserted.setdefault(first, [])
        last = own[-1].group if own else None
        apart = last is None or any(self._read_elsewhere([root], v) for r in last.roots for v in r.operands)
        if last is not None and not apart and last.shape == root.shape and op.name not in READS:
            last.roots.append(root)
        else:
            own.append(NestStep(Group([root], root.shape)))

    def _takes(self, group: Group, root: KeptRoot) -> bool:
        """Whether the nest of `group` can keep a value, too: no atomics, which are done one by one."""
        atomic = any(isinstance(r, OpRoot) and r.op.name in ATOMICS for r in group.roots)
        return group.shape == root.shape and not atomic and not self._read_elsewhere(group.roots, root.value)

    def _read_elsewhere(self, roots: Sequence[Root], value: Value) -> bool:
        """Whether one of `roots` reads `value` at other coordinates than its own: then it must be in scratch before."""
        stack = [(operand, False) for root in roots for operand in root.operands]
        seen: set[tuple[Value, bool]] = set()
        while stack:
            current, moved = stack.pop()
            if (current, moved) in seen:
                continue
            seen.add((current, moved))
            if current is value:
                if moved:
                    return True
                continue
            owner = current.owner
            if owner is not None and is_tensor(current) and is_virtual(owner):
                moved = moved or moves(owner)
                stack += [(o, moved) for o in owner.operands]
        return False

    def _before_writes(self, load: Op, first: int) -> int:
        """The step before which a load must be kept: the first that needs it or may write its memory."""
        position = self.flow.ops.index(load)
        for index, step in enumerate(self.steps[:first]):
            for p in step.positions:
                written = written_pointers(self.flow.ops[p]) if position < p < len(self.flow.ops) else []
                if any(self.facts.aliases.may_alias(load.operands[0], w) for w in written):
                    return index
        return first


def _before_broadcast(value: Value) -> Value | None:
    """What `value` repeats; None where that is one element, which costs nothing to compute again."""
    while value.owner is not None and value.owner.name in ("tt.broadcast", "tt.expand_dims"):
        value = value.owner.operands[0]
    return value if math.prod(shape_of(value.type)) > 1 else None
