"""Simplifications of a kernel before its code is planned."""

from __future__ import annotations

from collections import defaultdict

from ..ttir.ir import Block, Dense, Function, Op, PointerType, ScalarType, TensorType, Type, Value
from .branches import Mapping, choose_sides
from .chosen import choose
from .idioms import rounded_to_even
from .placed import place_values
from .plan import is_tensor
from .reductions import Uses, combining
from .types import element_of, shape_of

_COMBINING = frozenset({"tt.reduce", "tt.scan", "tt.map_elementwise"})
OFFSET = "moves_addresses_only"
_SUMS = frozenset(
    {"arith.addi", "arith.subi", "arith.muli", "tt.splat", "tt.broadcast", "tt.expand_dims", "tt.reshape"}
)


def rewrite(function: Function, observed: bool = False) -> None:
    """Works in place: what is spelled out for Ascend becomes one operation (`idioms.py`, `placed.py`,
    `chosen.py`); functions of elements lose their branches, and maps of them become operations on tiles; asserts of
    tiles become asserts of one truth value; loops carry offsets instead of tiles of addresses; extensions of integers
    that serve addresses alone are marked (attribute OFFSET).

    Where what the kernel reads is `observed`, it reads all that the chip would.

    Raises UnsupportedOperation for a function of elements that cannot be computed for all of them at once.
    """
    _rewrite_block(function.body)
    _rewrite_reductions(function.body, Uses(function), observed)
    _mark_offsets(function.body)


def _rewrite_block(block: Block) -> None:
    ops: list[Op] = []
    for op in block.ops:
        for region in op.regions:
            (choose_sides if op.name in _COMBINING else _rewrite_block)(region)
        if op.name == "tt.map_elementwise":
            mapping = Mapping(op)
            ops += mapping.ops
            for result, tile in zip(op.results, mapping.results):
                _replace(block, result, tile)
        elif op.name in ("tt.assert", "cf.assert") and is_tensor(op.operands[0]):
            ops += _all_true(op)
        elif op.name == "scf.for":
            before, after = _carry_offsets(op)
            ops += [*before, op, *after]
        else:
            x = rounded_to_even(op)
            if x is not None:
                op.name, op.operands, op.attrs = "math.roundeven", [x], {}
            ops.append(op)
    block.ops = ops


def _rewrite_reductions(block: Block, uses: Uses, observed: bool) -> None:
    for op in list(block.ops):
        for region in op.regions if op.name in ("scf.for", "scf.if", "scf.while") else ():
            _rewrite_reductions(region, uses, observed)
        combine = combining(op)
        if combine is not None and not place_values(op, combine, block, uses) and not observed:
            choose(op, combine, block, uses)


def _make(name: str, operands: list[Value], type_: Type, op: Op, **attrs: object) -> Op:
    made = Op(name, operands, [], dict(attrs), [], op.line)
    made.results = [Value(f"%{name}", type_, made)]
    return made


# -- asserts ---------------------------------------------------------------------------------------------------------
def _all_true(op: Op) -> list[Op]:
    """The assert of a tile as reductions over its axes, and an assert of the result."""
    ops: list[Op] = []
    condition = op.operands[0]
    for axis in reversed(range(len(shape_of(condition.type)))):
        element, shape = ScalarType("i1"), shape_of(condition.type)[:axis]
        reduce_ = _make("tt.reduce", [condition], TensorType(shape, element) if shape else element, op, axis=axis)
        arguments = [Value("%left", element), Value("%right", element)]
        both = _make("arith.andi", arguments, element, op)
        reduce_.regions = [Block(arguments, [both, Op("tt.reduce.return", [both.result], [])])]
        ops.append(reduce_)
        condition = reduce_.result
    op.operands[0] = condition
    return [*ops, op]


# -- loop-carried tiles of addresses ---------------------------------------------------------------------------------
def _carry_offsets(loop: Op) -> tuple[list[Op], list[Op]]:
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
        zero = _make("arith.constant", [], scalar_type, loop, value=0)
        before.append(zero)
        offset = Value(f"{argument.name}.offset", scalar_type)
        moved = _moved(adder, initial, offset, argument.type, loop)
        total = _make("arith.addi", [offset, amount], scalar_type, loop)
        _replace(body, argument, moved[-1].result)
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
    splat = _make("tt.splat", [offset], TensorType(shape_of(type_), offset.type), op)
    return [splat, _make(adder, [initial, splat.result], type_, op)]


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
        number = _make("arith.constant", [], ScalarType(element_of(amount.type)), op, value=owner.attrs["value"].values)
        return op.name, number.result, [number]
    return None


def _replace(block: Block, old: Value, new: Value) -> None:
    for op in block.walk():
        op.operands = [new if o is old else o for o in op.operands]


# -- integers that move addresses ------------------------------------------------------------------------------------
def _mark_offsets(block: Block) -> None:
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
            op.attrs[OFFSET] = True
