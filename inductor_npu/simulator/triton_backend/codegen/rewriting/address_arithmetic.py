"""Loops carry offsets instead of tiles of addresses; extensions of integers that serve addresses alone are marked."""

from __future__ import annotations

from collections import defaultdict

from ...ttir.ir import Block, Dense, Op, PointerType, ScalarType, TensorType, Type, Value
from ..analysis.operations import MOVES_ADDRESSES_ONLY
from ..forms.types import element_of, shape_of
from .building import make_op, replace_uses

_SUMS = frozenset(
    {"arith.addi", "arith.subi", "arith.muli", "tt.splat", "tt.broadcast", "tt.expand_dims", "tt.reshape"}
)


def carry_offsets(loop: Op) -> tuple[list[Op], list[Op]]:
    """A carried tile that every round moves by a uniform amount, such as `pointers += BLOCK`, is carried as that
    amount alone.

    Returns operations to put before and after the loop.
    """
    body = loop.regions[0]
    before: list[Op] = []
    after: list[Op] = []
    for i in range(len(loop.results)):
        argument, initial, result = body.arguments[1 + i], loop.operands[3 + i], loop.results[i]
        step = _uniform_step(body, argument, body.ops[-1].operands[i])
        if step is None:
            continue
        adder, amount, made = step
        scalar_type = amount.type
        zero = make_op("arith.constant", [], scalar_type, loop, value=0)
        before.append(zero)
        offset = Value(f"{argument.name}.offset", scalar_type)
        moved = _moved(adder, initial, offset, argument.type, loop)
        total = make_op("arith.addi", [offset, amount], scalar_type, loop)
        replace_uses(body, argument, moved[-1].result)
        body.arguments[1 + i] = offset
        body.ops[:-1] = [*moved, *body.ops[:-1], *made, total]
        body.ops[-1].operands[i] = total.result
        loop.operands[3 + i] = zero.result
        final = Value(f"{result.name}.offset", scalar_type, loop, i)
        loop.results[i] = final
        ending = _moved(adder, initial, final, result.type, loop)
        # The old result is now made after the loop: same Value, so that its users need no change.
        ending[-1].results = [result]
        result.owner, result.index = ending[-1], 0
        after += ending
    return before, after


def _moved(adder: str, initial: Value, offset: Value, type_: Type, op: Op) -> list[Op]:
    """The tile `initial` moved by the scalar `offset`."""
    splat = make_op("tt.splat", [offset], TensorType(shape_of(type_), offset.type), op)
    return [splat, make_op(adder, [initial, splat.result], type_, op)]


def _uniform_step(body: Block, argument: Value, yielded: Value) -> tuple[str, Value, list[Op]] | None:
    """How `yielded` follows from `argument`: the adding operation, the scalar that is added, operations that make
    that scalar.
    """
    op = yielded.owner
    if not isinstance(argument.type, TensorType) or op is None or op.name not in ("tt.addptr", "arith.addi"):
        return None
    if op not in body.ops or not (
        isinstance(argument.type.element, PointerType) or element_of(argument.type) in ("i32", "i64")
    ):
        return None
    if op.operands[0] is argument:
        amount = op.operands[1]
    elif op.operands[1] is argument and op.name == "arith.addi":
        amount = op.operands[0]
    else:
        return None
    while amount.owner is not None and amount.owner.name in ("tt.broadcast", "tt.expand_dims", "tt.reshape"):
        amount = amount.owner.operands[0]
    owner = amount.owner
    if owner is None:
        return None
    if owner.name == "tt.splat":
        return op.name, owner.operands[0], []
    if owner.name == "arith.constant" and isinstance(owner.attrs["value"], Dense) and owner.attrs["value"].is_splat:
        number = make_op(
            "arith.constant", [], ScalarType(element_of(amount.type)), op, value=owner.attrs["value"].values
        )
        return op.name, number.result, [number]
    return None


def mark_offsets(block: Block) -> None:
    """Gives extensions of integers that only move addresses the attribute MOVES_ADDRESSES_ONLY."""
    users: defaultdict[Value, list[tuple[Op, int]]] = defaultdict(list)
    for op in block.walk():
        for place, operand in enumerate(op.operands):
            users[operand].append((op, place))
    offsets: dict[Value, bool] = {}

    def is_offset(value: Value) -> bool:
        """Whether all that becomes of `value` is what an address is moved by."""
        if value not in offsets:
            offsets[value] = bool(users[value]) and all(
                (op.name == "tt.addptr" and place == 1) or (op.name in _SUMS and is_offset(op.result))
                for op, place in users[value]
            )
        return offsets[value]

    for op in block.walk():
        if op.name == "arith.extsi" and is_offset(op.result):
            op.attrs[MOVES_ADDRESSES_ONLY] = True
