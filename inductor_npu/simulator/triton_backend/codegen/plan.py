"""Plans a block: which operations share a loop nest, and which values are kept in scratch.

Tensor values are virtual: written where a *root* (a store, an atomic, a reduction, a loop's next value) needs them.
Neighbouring roots over one tile shape form a group, one loop nest. The plan keeps the order of memory effects: a nest
computes all that a chunk needs before it writes, so that a load may share a nest with a store only through the same
offsets; a load whose memory is written before its last use is kept in scratch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..host_functions import CHOSEN, PLACED, SORT
from ..ttir.ir import Op, TensorType, Value
from .effects import ATOMICS, READS, Bases, free_values, nested, written_pointers
from .lanes import Lane
from .memory import Buffer
from .strides import Strides
from .tables import Tables
from .types import shape_of
from .views import VIEWS, source_axes

_CHEAP = frozenset(
    {"arith.muli", "tt.bitcast", "arith.bitcast", "arith.extsi", "arith.extui", "arith.trunci", "arith.andi"}
)
KEEP_COST = 6  # a value that costs more than this is computed once and kept, if several nests need it
# A gather's source that costs more is computed once and kept, too: a chunk takes from several chunks of it, each of
# which would be computed for that.
GATHERED_COST = 32
REGIONS = frozenset({"scf.for", "scf.while", "scf.if"})
SOLO = frozenset(
    {
        "tt.scan",
        "tt.dot",
        "tt.histogram",
        "tt.cat",
        "tt.print",
        "tt.assert",
        "cf.assert",
        "tt.unsplat",
        SORT,
        PLACED,
        CHOSEN,
    }
)
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


@dataclass(eq=False, slots=True)
class Root:
    """What a loop nest is for: `op` (tt.store, tt.atomic_*, tt.reduce), or keeping `value` in scratch (op is None)."""

    op: Op | None
    value: Value | None = None
    buffer: Buffer | None = None  # where to write `value`; None: a new one, where the value is from then on
    shape: tuple[int, ...] = ()
    axis: int | None = None  # the axis that a reduction removes
    row_major: bool = False  # whether a new buffer must be

    @property
    def operands(self) -> list[Value]:
        return [self.value] if self.op is None else self.op.operands


@dataclass(eq=False, slots=True)
class Group:
    """Roots that share a loop nest over `shape`; `vector_axis` is the axis whose neighbours fill the lanes."""

    roots: list[Root] = field(default_factory=list)
    shape: tuple[int, ...] = ()
    axis: int | None = None
    vector_axis: int = 0


@dataclass(eq=False, slots=True)
class Step:
    """One of: an operation on scalars or with regions (`op`), or a loop nest (`group`)."""

    op: Op | None = None
    group: Group | None = None
    positions: list[int] = field(default_factory=list)


def is_tensor(value: Value) -> bool:
    return isinstance(value.type, TensorType)


def is_pair(op: Op) -> bool:
    """Whether this reduction is over an axis of two: then it is virtual, as both halves are cheap to compute."""
    if op.name != "tt.reduce" or not is_tensor(op.results[0]):
        return False
    return shape_of(op.operands[0].type)[op.attrs["axis"]] == 2 and math.prod(shape_of(op.results[0].type)) > 1


def is_virtual(op: Op) -> bool:
    """Whether the operation's results are tensors that are computed where they are needed."""
    if op.name == "tt.reduce" and not is_pair(op):
        return False
    if op.name in SOLO or op.name in REGIONS or op.name in ATOMICS or not op.results:
        return False
    return all(is_tensor(r) for r in op.results)


def moves(op: Op) -> bool:
    """Whether a virtual operation reads its operands at other coordinates than its result's."""
    return op.name in VIEWS or op.name in ("tt.reduce", "tt.gather")


def root_of(op: Op) -> Root | None:
    is_root = (op.name == "tt.reduce" and not is_pair(op)) or op.name in ATOMICS or op.name == "tt.store"
    if is_root and is_tensor(op.operands[0]):
        axis = op.attrs["axis"] if op.name == "tt.reduce" else None
        return Root(op, shape=shape_of(op.operands[0].type), axis=axis)
    return None


class Planner:
    """Plans the blocks of one kernel."""

    def __init__(self, bases: Bases, strides: Strides, tables: Tables) -> None:
        self.bases, self.strides, self.tables = bases, strides, tables

    def plan(self, ops: Sequence[Op], tail: Sequence[Root] = (), separate_tail: bool = False) -> list[Step]:
        """Steps for `ops` in order, then for the roots in `tail`, with `separate_tail` in a loop nest of their own."""
        return _BlockPlan(self, list(ops), list(tail), separate_tail).steps

    # -- the axis to vectorise ---------------------------------------------------------------------------------------
    def vector_axis(self, group: Group, places: Mapping[Value, Lane | Buffer]) -> int:
        """The axis along which most memory is contiguous; the last one that has more than one element if there is
        none. `places` says where the values written so far are.
        """
        votes = [0.0] * len(group.shape)
        seen: set[tuple[Value, tuple[int | None, ...]]] = set()
        identity, size = tuple(range(len(group.shape))), math.prod(group.shape)
        for root in group.roots:
            if root.op is not None and root.op.name != "tt.reduce":
                self._vote(root.op.operands[0], identity, votes, 2.0)
            if root.buffer is not None:
                for axis, stride in enumerate(root.buffer.strides):
                    votes[axis] += 1.5 * (stride == 1 and group.shape[axis] > 1)
            for operand in root.operands:
                self._visit(operand, identity, votes, seen, places, size)
        weighted = [v * min(1.0, d / 16) for v, d in zip(votes, group.shape)]
        best = max(weighted, default=0)
        candidates = [a for a, d in enumerate(group.shape) if d > 1]
        if not candidates:
            return max(len(group.shape) - 1, 0)
        for axis in reversed(candidates):
            if best > 0 and weighted[axis] == best:
                return axis
        return candidates[-1]

    def _vote(self, pointer: Value, axes: tuple[int | None, ...], votes: list[float], weight: float) -> None:
        for nest_axis, axis in enumerate(axes):
            if axis is not None and self.strides.along(pointer, axis) in (1, -1):
                votes[nest_axis] += weight

    def _visit(
        self,
        value: Value,
        axes: tuple[int | None, ...],
        votes: list[float],
        seen: set[tuple[Value, tuple[int | None, ...]]],
        places: Mapping[Value, Lane | Buffer],
        size: int,
    ) -> None:
        """Lets the memory behind `value` vote for the axes it runs along; the nest has `size` elements."""
        if (value, axes) in seen or not is_tensor(value):
            return
        seen.add((value, axes))
        place, op = places.get(value), value.owner
        weight = min(1.0, math.prod(shape_of(value.type)) / size)  # a vector that is broadcast is little memory
        if isinstance(place, Buffer):
            for nest_axis, axis in enumerate(axes):
                votes[nest_axis] += weight * (axis is not None and place.strides[axis] == 1 and place.shape[axis] > 1)
        elif place is not None or op is None:
            return
        elif op.name == "tt.load":
            self._vote(op.operands[0], axes, votes, weight)
        elif is_virtual(op):
            for operand in op.operands:
                mapped = source_axes(op, axes) if moves(op) else axes
                if mapped is not None:
                    self._visit(operand, mapped, votes, seen, places, size)


class _BlockPlan:
    def __init__(self, planner: Planner, ops: list[Op], tail: list[Root], separate_tail: bool) -> None:
        self.planner, self.bases = planner, planner.bases
        self.ops, self.tail = ops, tail
        self.users: dict[Value, list[int]] = {}
        self.reach: dict[Value, int] = {}  # positions of the roots and other steps that need a value, as bits
        self.needs: dict[Value, int] = {}  # positions of the steps whose results a virtual value depends on
        self.loads: dict[
            Value, int
        ] = {}  # positions of the loads that a value depends on through lane-by-lane operations
        self.moved: dict[Value, int] = {}  # ... and through operations that move elements
        self.solo_in_loops: set[Value] = set()  # operands of dot, ... in a loop that are the same in every round
        self._relate()
        self.steps: list[Step] = []
        self._open: Step | None = None
        self._open_mask = 0
        for position, op in enumerate(ops):
            self._place(position, op)
        if separate_tail:
            self._close()
        for k, root in enumerate(tail):
            self._add_root(len(ops) + k, root)
        self._close()
        self.step_of = {p: i for i, step in enumerate(self.steps) for p in step.positions}
        kept = self._hazards()
        kept |= self._shared(kept)
        self._keep(kept)

    # -- relations ---------------------------------------------------------------------------------------------------
    def _relate(self) -> None:
        for position, op in enumerate(self.ops):
            used = set(op.operands)
            if op.regions:
                free = free_values(op)
                used |= free
                self.solo_in_loops.update(
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
                [] if self.planner.strides.is_position(place) or self.planner.tables.of(place) is not None else [place]
            )
        return op.operands if op.name in SOLO and op.name not in (PLACED, CHOSEN) else []

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

    def _all_of(self, table: dict[Value, int], values: Sequence[Value]) -> int:
        bits = 0
        for value in values:
            bits |= table.get(value, 0)
        return bits

    # -- grouping ----------------------------------------------------------------------------------------------------
    def _place(self, position: int, op: Op) -> None:
        if is_virtual(op):
            if self._open is not None and op.name in READS and self._written_by_open(op.operands[0]):
                self._close()
            return
        root = root_of(op)
        if root is not None:
            self._add_root(position, root)
            return
        used = list(op.operands) + (list(free_values(op)) if op.regions else [])
        effects = op.name in READS or bool(written_pointers(op)) or op.name in SOLO or op.regions
        if self._all_of(self.needs, used) & self._open_mask or (effects and not self._independent(op)):
            self._close()
        self.steps.append(Step(op=op, positions=[position])) if self._open is None else self._before_open(op, position)

    def _before_open(self, op: Op, position: int) -> None:
        """An operation that does not concern the open group is done before it."""
        self.steps.insert(len(self.steps) - 1, Step(op=op, positions=[position]))

    def _independent(self, op: Op) -> bool:
        """Whether a scalar memory operation may be done before the open group."""
        if self._open is None or op.regions or op.name in SOLO:
            return self._open is None
        reads = op.name in READS
        return not written_pointers(op) and not (reads and self._written_by_open(op.operands[0]))

    def _written_by_open(self, pointer: Value) -> bool:
        """Whether the open group may write what a read through `pointer`, which comes after it, must see."""
        return any(
            self.bases.may_alias(pointer, written)
            for root in self._open.group.roots
            if root.op is not None
            for written in written_pointers(root.op)
        )

    def _add_root(self, position: int, root: Root) -> None:
        if self._open is not None and not self._fits(root):
            self._close()
        if self._open is None:
            self._open = Step(group=Group(shape=root.shape, axis=root.axis))
            self.steps.append(self._open)
        group = self._open.group
        group.roots.append(root)
        group.axis = root.axis if group.axis is None else group.axis
        self._open.positions.append(position)
        self._open_mask |= 1 << position

    def _close(self) -> None:
        self._open, self._open_mask = None, 0

    def _fits(self, root: Root) -> bool:
        group = self._open.group
        if root.shape != group.shape or (None is not root.axis != group.axis and group.axis is not None):
            return False
        if self._all_of(self.needs, root.operands) & self._open_mask:
            return False
        return not self._conflicts([*group.roots, root])

    def _conflicts(self, roots: Sequence[Root]) -> bool:
        """Whether interleaving the chunks of these roots could read or overwrite what another chunk wrote."""
        writes = [r.op for r in roots if r.op is not None and r.op.name != "tt.reduce"]
        if len(roots) > 1 and any(w.name in ATOMICS for w in writes):
            return True
        operands = [value for root in roots for value in root.operands]
        loads, moved = self._all_of(self.loads, operands), self._all_of(self.moved, operands)
        for i, write in enumerate(writes):
            pointer = write.operands[0]
            for other in writes[:i]:
                first = other.operands[0]
                if not self.bases.in_step(first, pointer) and self.bases.may_alias(first, pointer):
                    return True
            if self._unsafe_loads(pointer, loads, moved):
                return True
        return False

    def _unsafe_loads(self, pointer: Value, loads: int, moved: int) -> list[Op]:
        """Loads that may read what a store through `pointer` in the same nest has written for another chunk."""
        unsafe = []
        for position in _bits(loads | moved):
            load = self.ops[position]
            same_place = self.bases.in_step(load.operands[0], pointer) and not moved >> position & 1
            if not same_place and self.bases.may_alias(load.operands[0], pointer):
                unsafe.append(load)
        return unsafe

    # -- what to keep ------------------------------------------------------------------------------------------------
    def _hazards(self) -> set[Value]:
        """Loads whose memory may be written before their last use."""
        kept: set[Value] = set()
        writers = [(p, op, written_pointers(op)) for p, op in enumerate(self.ops) if not is_virtual(op)]
        writers = [w for w in writers if w[2]]
        if not writers:
            return kept
        for position, load in enumerate(self.ops):
            if load.name not in READS or not is_virtual(load):
                continue
            last = max((self.step_of[p] for p in _bits(self.reach[load.result])), default=-1)
            for written_at, op, pointers in writers:
                if written_at < position or not any(self.bases.may_alias(load.operands[0], p) for p in pointers):
                    continue
                step = self.step_of[written_at]
                inside = step == last and op.regions and self.reach[load.result] >> written_at & 1
                if step < last or inside:
                    kept.add(load.result)
        groups = [step.group for step in self.steps if step.group is not None]
        return kept.union(*(self._self_conflicts(group) for group in groups))

    def _self_conflicts(self, group: Group) -> set[Value]:
        operands = [value for root in group.roots for value in root.operands]
        loads, moved = self._all_of(self.loads, operands), self._all_of(self.moved, operands)
        return {
            load.result
            for root in group.roots
            if root.op is not None and root.op.name != "tt.reduce"
            for load in self._unsafe_loads(root.op.operands[0], loads, moved)
        }

    def _shared(self, kept: set[Value]) -> set[Value]:
        """Costly values that several steps need, and of those only what the steps use directly."""
        shared: set[Value] = self._halves() - kept
        costs: dict[Value, float] = {}
        for op in self.ops:
            if not is_virtual(op):
                continue
            if self.planner.tables.is_known(op.results[0]):
                costs[op.results[0]] = 0
                continue
            cost = self._own_cost(op) + sum(costs.get(o, 0) for o in set(op.operands))
            for result in op.results:
                costs[result] = 1 if result in kept or result in shared else min(cost, 1000.0)
                wanted: Value | None
                if result in self.solo_in_loops or (cost > GATHERED_COST and self._is_gathered(result)):
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
        readers = [self.ops[user] for user in self.users.get(value, ()) if user < len(self.ops)]
        return any(
            (op.name == "tt.gather" and op.operands[0] is value)
            or (op.name in VIEWS and any(map(self._is_gathered, op.results)))
            for op in readers
        )

    def _own_cost(self, op: Op) -> float:
        """What computing an element takes, its operands left out; positions are computed once a chunk, as scalars."""
        if op.name in VIEWS or op.name in ("tt.make_range", "tt.splat", "arith.constant", "tt.addptr"):
            return 0
        if all(self.planner.strides.is_position(result) for result in op.results):
            return 0
        return _COSTS.get(op.name, 10 if op.name.startswith("math.") else 1)

    def _halves(self) -> set[Value]:
        """What reductions over pairs read at two places: computed once, or a chain of them would double the work each
        time.
        """
        found: set[Value] = set()
        for op in self.ops:
            if not is_pair(op):
                continue
            stack = list(op.operands)
            while stack:
                value = stack.pop()
                owner = value.owner
                if owner is None or not is_tensor(value) or not is_virtual(owner) or value not in self.reach:
                    continue
                if owner.name in _CHEAP or (moves(owner) and owner.name != "tt.reduce"):
                    stack += owner.operands
                elif self.loads[value] | self.moved[value] | self.needs[value]:
                    found.add(value)
        return found

    def _steps(self, value: Value) -> frozenset[int]:
        return frozenset(self.step_of[p] for p in _bits(self.reach[value]))

    def _is_frontier(self, value: Value) -> bool:
        if math.prod(shape_of(value.type)) == 1:
            return False
        steps = self._steps(value)
        loops = any(self.steps[s].op is not None and self.steps[s].op.name in ("scf.for", "scf.while") for s in steps)
        if len(steps) < 2 and not loops:
            return False
        for user in self.users.get(value, ()):
            if user >= len(self.ops) or not is_virtual(self.ops[user]):
                return True
            if any(self._steps(r) != steps for r in self.ops[user].results):
                return True
        return False

    def _keep(self, values: set[Value]) -> None:
        """Adds a root for each value to the first nest that needs it, or a nest of its own before that."""
        order = [r for op in self.ops for r in op.results if r in values]
        inserted: dict[int, list[Step]] = {}
        for value in order:
            if not self.reach[value]:
                continue
            first = min(self._steps(value))
            root = Root(None, value, shape=shape_of(value.type), row_major=value in self.solo_in_loops)
            group = self.steps[first].group
            if value.owner.name in READS:
                first, group = self._before_writes(value, first), None
            atomic = group is not None and any(r.op is not None and r.op.name in ATOMICS for r in group.roots)
            if (
                group is not None
                and group.shape == root.shape
                and not atomic
                and not self._read_elsewhere(group.roots, value)
            ):
                group.roots.append(root)
                continue
            own = inserted.setdefault(first, [])
            mine = {r.value for r in own[-1].group.roots} if own else set()
            apart = not own or any(self._read_elsewhere([root], other) for other in mine)
            if not apart and own[-1].group.shape == root.shape and value.owner.name not in READS:
                own[-1].group.roots.append(root)
            else:
                own.append(Step(group=Group([root], root.shape)))
        self.steps = [s for i, step in enumerate(self.steps) for s in (*inserted.get(i, ()), step)]

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

    def _before_writes(self, load: Value, first: int) -> int:
        """The step before which a load must be kept: the first that needs it or may write its memory."""
        position = self.ops.index(load.owner)
        for index, step in enumerate(self.steps[:first]):
            for p in step.positions:
                written = written_pointers(self.ops[p]) if position < p < len(self.ops) else []
                if any(self.bases.may_alias(load.owner.operands[0], w) for w in written):
                    return index
        return first


def _before_broadcast(value: Value) -> Value | None:
    """What `value` repeats; None where that is one element, which costs nothing to compute again."""
    while value.owner is not None and value.owner.name in ("tt.broadcast", "tt.expand_dims"):
        value = value.owner.operands[0]
    return value if math.prod(shape_of(value.type)) > 1 else None


def _bits(mask: int) -> list[int]:
    result = []
    while mask:
        low = mask & -mask
        result.append(low.bit_length() - 1)
        mask ^= low
    return result


__all__ = ["REGIONS", "SOLO", "Group", "Planner", "Root", "Step", "is_tensor", "is_virtual", "moves", "root_of"]
