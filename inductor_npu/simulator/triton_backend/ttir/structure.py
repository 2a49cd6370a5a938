"""Branches between blocks as nested `scf.if`.

Triton writes loops and most conditions as `scf`, but `return` inside `if` as `cf.cond_br` between the blocks of a function. Those blocks form no cycle,
so that they can be nested again: a condition becomes `scf.if`, and what follows the point where its two sides meet comes after it, guarded by a
flag if one side may have returned before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from .ir import Block, Op, ScalarType, Value

I1 = ScalarType("i1")


@dataclass(eq=False)
class Labelled:
    """A block and its label (empty for the entry of a function)."""

    label: str
    block: Block


@dataclass
class _Exit:
    """How control leaves a piece of the program.

    `arrived`: i1, whether it arrives at the meeting point; True or False where that is known. `arguments` are then the values of
    that point's block arguments; `returned` the function's results otherwise. Where only one of the two is known at run time, the other's values are poison.
    """

    arrived: Value | bool
    arguments: list[Value] = field(default_factory=list)
    returned: list[Value] = field(default_factory=list)


def structured(
    blocks: list[Labelled], arguments: list[Value] | None, error: Callable[[str], Exception]
) -> Block:
    """One block that does what `blocks` do, starting at the first of them. Blocks that nothing branches to disappear.

    `arguments` replace the first block's where given and not empty. `error(reason)` makes the exception for blocks that form a cycle.
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
        self._reachable: dict[str, list[str]] = {}  # in topological order, itself first
        self._replaced: dict[Value, Value] = {}

    def run(self) -> Block:
        ops: list[Op] = []
        self._reach(self._entry, ())
        left = self._emit(self._entry, None, ops)
        ops.append(Op("tt.return", left.returned, []))
        body = Block(self._blocks[self._entry].arguments, ops)
        for op in body.walk():
            op.operands = [self._final(value) for value in op.operands]
        return body

    def _final(self, value: Value) -> Value:
        while value in self._replaced:
            value = self._replaced[value]
        return value

    def _reach(self, label: str, path: tuple[str, ...]) -> list[str]:
        """Labels reachable from `label`, in topological order."""
        if label in path:
            raise self._error(f"branches form a cycle through {label}; only scf.for and scf.while may loop")
        if label not in self._reachable:
            terminator = self._blocks[label].ops[-1]
            below: list[str] = []
            for successor in reversed(terminator.attrs.get("successors", [])):
                order = self._reach(successor, (*path, label))
                below = order + [other for other in below if other not in order]
            self._reachable[label] = [label, *below]
        return self._reachable[label]

    def _emit(self, label: str, stop: str | None, ops: list[Op]) -> _Exit:
        """Append what runs from `label` to the block `stop` (or to the function's end)."""
        block = self._blocks[label]
        *body, terminator = block.ops
        ops += body
        if terminator.name == "cf.br":
            return self._follow(terminator.attrs["successors"][0], terminator.operands, stop, ops)
        if terminator.name == "cf.cond_br":
            return self._condition(terminator, stop, ops)
        return _Exit(False, returned=terminator.operands)

    def _follow(self, label: str, arguments: list[Value], stop: str | None, ops: list[Op]) -> _Exit:
        if label == stop:
            return _Exit(True, arguments)
        self._replaced.update(zip(self._blocks[label].arguments, arguments))
        return self._emit(label, stop, ops)

    def _condition(self, branch: Op, stop: str | None, ops: list[Op]) -> _Exit:
        then_label, else_label = branch.attrs["successors"]
        size = branch.attrs["sizes"][0]
        condition, *values = branch.operands
        meeting = self._meeting_point(then_label, else_label)
        sides: list[tuple[list[Op], _Exit]] = []
        for label, arguments in ((then_label, values[:size]), (else_label, values[size:])):
            side: list[Op] = []
            sides.append((side, self._follow(label, arguments, meeting, side)))
        left = _merge(condition, sides, ops, self._blocks[meeting].arguments if meeting else [])
        if meeting is None or meeting == stop or left.arrived is False:
            return left
        self._replaced.update(zip(self._blocks[meeting].arguments, left.arguments))
        if left.arrived is True:
            return self._emit(meeting, stop, ops)
        rest: list[Op] = []
        sides = [(rest, self._emit(meeting, stop, rest)), ([], _Exit(False, returned=left.returned))]
        return _merge(left.arrived, sides, ops, self._blocks[stop].arguments if stop else [])

    def _meeting_point(self, then_label: str, else_label: str) -> str | None:
        """The first block that both sides may run."""
        others = set(self._reachable[else_label])
        return next((label for label in self._reachable[then_label] if label in others), None)


def _merge(
    condition: Value, sides: list[tuple[list[Op], _Exit]], ops: list[Op], arguments: list[Value]
) -> _Exit:
    """Append `scf.if condition` over two sides, whose exits it joins; `arguments` are those of the block where they meet."""
    exits = [exit_ for _, exit_ in sides]
    mixed = any(exit_.arrived is not exits[0].arrived or isinstance(exit_.arrived, Value) for exit_ in exits)
    argument_types = [value.type for value in arguments] if any(exit_.arrived is not False for exit_ in exits) else []
    returned_types = next(([value.type for value in exit_.returned] for exit_ in exits if exit_.arrived is not True), [])
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


def _poison(type_: object, ops: list[Op]) -> Value:
    return _make("ub.poison", type_, {}, ops)


def _make(name: str, type_: object, attrs: dict[str, object], ops: list[Op]) -> Value:
    op = Op(name, [], [], attrs)
    op.results = [Value("%" + name.partition(".")[2], type_, op)]
    ops.append(op)
    return op.result
