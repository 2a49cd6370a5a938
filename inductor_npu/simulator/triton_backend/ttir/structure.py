"""Branches between blocks as nested `scf.if`.

Triton writes loops and most conditions as `scf`, but `return` inside `if` as `cf.cond_br` between the blocks of a
function. Those blocks form no cycle, so that they can be nested again: a condition becomes `scf.if`, and what follows
the point where its two sides meet comes after it, guarded by a flag if one side may have returned before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from .copying import Values, copy_operations
from .ir import Block, Op, ScalarType, Type, Value

I1 = ScalarType("i1")


@dataclass(eq=False)
class Labelled:
    """A block and its label (empty for the entry of a function)."""

    label: str
    block: Block


@dataclass
class _Exit:
    """How control leaves a piece of the program.

    `arrived`: i1, whether it arrives at the meeting point; True or False where that is known. `arguments` are then the
    values of that point's block arguments; `returned` the function's results otherwise. Where only one of the two is
    known at run time, the other's values are poison.
    """

    arrived: Value | bool
    arguments: list[Value] = field(default_factory=list)
    returned: list[Value] = field(default_factory=list)


def structured(blocks: list[Labelled], arguments: list[Value] | None, error: Callable[[str], Exception]) -> Block:
    """One block that does what `blocks` do, starting at the first of them. Blocks that nothing branches to disappear.

    `arguments` replace the first block's where given and not empty. `error(reason)` makes the exception for blocks that
    form a cycle.
    """
    entry = blocks[0].block
    if arguments:
        entry.arguments = arguments
    if not entry.ops or "successors" not in entry.ops[-1].attrs:
        return entry
    return _Structurer(blocks, error).run()


class _Structurer:
    def __init__(self, blocks: list[Labelled], error: Callable[[str], Exception]) -> None:
        self._blocks = {labelled.label: labelled.block for labelled in blocks}
        self._entry = blocks[0].label
        self._error = error
        self._reachable: dict[str, set[str]] = {}  # including itself
        self._order: list[str] = []  # the labels, each after all that it can reach
        self._ending = "tt.return"  # the name of the operation that ends the region
        self._reach(self._entry, ())

    def run(self) -> Block:
        ops: list[Op] = []
        left = self._emit(self._entry, None, ops, {})
        ops.append(Op(self._ending, left.returned, []))
        return Block(self._blocks[self._entry].arguments, ops)

    def _reach(self, label: str, path: tuple[str, ...]) -> set[str]:
        """Labels reachable from `label`."""
        if label in path:
            raise self._error(f"branches form a cycle through {label}; only scf.for and scf.while may loop")
        if label not in self._reachable:
            successors = self._blocks[label].ops[-1].attrs.get("successors", [])
            self._reachable[label] = {label}.union(*(self._reach(other, (*path, label)) for other in successors))
            self._order.append(label)
        return self._reachable[label]

    def _emit(self, label: str, stop: str | None, ops: list[Op], values: Values) -> _Exit:
        """Append what runs from `label` to the block `stop` (or to the function's end)."""
        *body, terminator = self._blocks[label].ops
        ops += copy_operations(body, values)
        operands = [values.get(value, value) for value in terminator.operands]
        if terminator.name == "cf.br":
            return self._follow(terminator.attrs["successors"][0], operands, stop, ops, values)
        if terminator.name == "cf.cond_br":
            return self._condition(terminator, operands, stop, ops, values)
        self._ending = terminator.name
        return _Exit(False, returned=operands)

    def _follow(self, label: str, arguments: list[Value], stop: str | None, ops: list[Op], values: Values) -> _Exit:
        if label == stop:
            return _Exit(True, arguments)
        values.update(zip(self._blocks[label].arguments, arguments, strict=True))
        return self._emit(label, stop, ops, values)

    def _condition(self, branch: Op, operands: list[Value], stop: str | None, ops: list[Op], values: Values) -> _Exit:
        then_label, else_label = branch.attrs["successors"]
        condition, *passed = operands
        size = branch.attrs["sizes"][0]
        meeting = self._meeting_point(then_label, else_label, stop)
        sides: list[tuple[list[Op], _Exit]] = []
        for label, arguments in ((then_label, passed[:size]), (else_label, passed[size:])):
            side: list[Op] = []
            sides.append((side, self._follow(label, arguments, meeting or stop, side, dict(values))))
        left = _merge(condition, sides, ops, self._arguments(meeting or stop))
        if meeting is None or meeting == stop or left.arrived is False:
            return left
        values.update(zip(self._blocks[meeting].arguments, left.arguments, strict=True))
        if left.arrived is True:
            return self._emit(meeting, stop, ops, values)
        rest: list[Op] = []
        sides = [(rest, self._emit(meeting, stop, rest, dict(values))), ([], _Exit(False, returned=left.returned))]
        return _merge(left.arrived, sides, ops, self._arguments(stop))

    def _arguments(self, label: str | None) -> list[Value]:
        return self._blocks[label].arguments if label else []

    def _meeting_point(self, then_label: str, else_label: str, stop: str | None) -> str | None:
        """The first block that both sides may run before or at `stop`.

        Blocks that only return, and those behind `stop`, do not count: a side that gets there gets a copy of them.
        """
        common = self._reachable[then_label] & self._reachable[else_label]
        if stop is not None:
            common -= self._reachable[stop] - {stop}
        candidates = (label for label in reversed(self._order) if label in common)
        return next((label for label in candidates if not self._only_returns(label)), None)

    def _only_returns(self, label: str) -> bool:
        ops = self._blocks[label].ops
        return len(ops) == 1 and "successors" not in ops[0].attrs


def _merge(condition: Value, sides: list[tuple[list[Op], _Exit]], ops: list[Op], arguments: list[Value]) -> _Exit:
    """Append `scf.if condition` over two sides, whose exits it joins; `arguments` are those of the block where they
    meet.
    """
    exits = [exit_ for _, exit_ in sides]
    mixed = any(exit_.arrived is not exits[0].arrived or isinstance(exit_.arrived, Value) for exit_ in exits)
    argument_types = [value.type for value in arguments] if any(exit_.arrived is not False for exit_ in exits) else []
    returned_values = next((exit_.returned for exit_ in exits if exit_.arrived is not True), [])
    returned_types = [value.type for value in returned_values]
    types = ([I1] if mixed else []) + argument_types + returned_types
    regions: list[Block] = []
    for side, exit_ in sides:
        flag = [_as_value(exit_.arrived, side)] if mixed else []
        passed = exit_.arguments or [_poison(type_, side) for type_ in argument_types]
        returned = exit_.returned or [_poison(type_, side) for type_ in returned_types]
        side.append(Op("scf.yield", [*flag, *passed, *returned], []))
        regions.append(Block([], side))
    op = Op("scf.if", [condition], [], {}, regions)
    op.results = [Value(f"%branch_{index}", type_, op, index) for index, type_ in enumerate(types)]
    ops.append(op)
    first = 1 if mixed else 0
    middle = first + len(argument_types)
    arrived = op.results[0] if mixed else exits[0].arrived
    return _Exit(arrived, op.results[first:middle], op.results[middle:])


def _as_value(flag: Value | bool, ops: list[Op]) -> Value:
    return flag if isinstance(flag, Value) else _make("arith.constant", I1, {"value": flag}, ops)


def _poison(type_: Type, ops: list[Op]) -> Value:
    return _make("ub.poison", type_, {}, ops)


def _make(name: str, type_: Type, attrs: dict[str, object], ops: list[Op]) -> Value:
    op = Op(name, [], [], attrs)
    op.results = [Value("%" + name.partition(".")[2], type_, op)]
    ops.append(op)
    return op.result
