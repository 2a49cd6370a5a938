"""How much of a product of tiles matters, where masks leave only a part of the tiles.

A row of the product does not matter where all that is made of it is stored under a mask that leaves out that row of A
when it is loaded: then neither is loaded nor multiplied. So it is for columns and B. Steps along K do not matter where
both operands are loaded as zeros: nothing is added there.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from ...ttir.ir import Function, Op, Value, splat_number
from ..forms.types import shape_of
from .operations import is_tensor, is_virtual, moves
from .patterns import conjuncts, longer_axes, peeled, unbroadcast

_PURE = ("tt.make_range", "tt.splat", "tt.expand_dims", "tt.broadcast", "tt.get_program_id", "tt.get_num_programs")


@dataclass(frozen=True)
class Extents:
    """Conditions of one axis, each with that axis; they hold for the `rows`, `columns` and steps that matter. A step
    matters where one of `depth` holds, of which there are two or none.
    """

    rows: tuple[tuple[Value, int], ...] = ()
    columns: tuple[tuple[Value, int], ...] = ()
    depth: tuple[tuple[Value, int], ...] = ()

    def of_operand(self, is_left: bool, inside: bool) -> Extents:
        """What of them is known where A or B is packed: of the other operand nothing, unless that is `inside` of the
        innermost loop around the product.
        """
        return Extents(rows=self.rows if is_left or inside else (), columns=() if is_left else self.columns)


def dot_extents(function: Function) -> dict[Op, Extents]:
    """The conditions for each product of `function`."""
    users: defaultdict[Value, list[tuple[Op, int]]] = defaultdict(list)
    owners: dict[int, Op] = {}
    for op in function.body.walk():
        for place, operand in enumerate(op.operands):
            users[operand].append((op, place))
        for region in op.regions:
            owners.update({id(inner): op for inner in region.ops})
    observations = _Observations(users, owners)
    return {op: _of_dot(op, observations) for op in function.body.walk() if op.name == "tt.dot"}


def _of_dot(op: Op, observations: _Observations) -> Extents:
    if len(shape_of(op.result.type)) != 2:
        return Extents()
    a, b = (_conditions(operand) for operand in op.operands[:2])
    seen = observations.of(op.result) if a or b else None

    def unobserved(conditions: list[tuple[Value, int]], axis: int) -> tuple[tuple[Value, int], ...]:
        if seen is None:
            return ()
        return tuple(
            (condition, along) for condition, along in conditions if along == axis and seen.only_where(condition)
        )

    rows, columns = unobserved(a, 0), unobserved(b, 1)
    left, right = ([c for c in conditions if c[1] == axis] for conditions, axis in ((a, 1), (b, 0)))
    return Extents(rows, columns, (left[0], right[0]) if left and right else ())


def _conditions(operand: Value) -> list[tuple[Value, int]]:
    """Comparisons along one axis of positions that count up, beyond which the operand is loaded as zeros."""
    order = [0, 1]
    while operand.owner is not None and operand.owner.name == "tt.trans":
        order = [operand.owner.attrs["order"][axis] for axis in order]
        operand = operand.owner.operands[0]
    load = operand.owner
    if load is None or load.name != "tt.load" or len(load.operands) < 2 or not is_tensor(load.operands[0]):
        return []
    if len(load.operands) > 2 and splat_number(load.operands[2]) != 0:
        return []
    found = []
    for term in _terms(load.operands[1]):
        axes, op = longer_axes(term), peeled(term).owner  # compared before or after it is a row or column
        is_bound = op is not None and op.name == "arith.cmpi" and op.attrs["predicate"] in ("slt", "sle")
        if is_bound and len(axes) == 1 and len(shape_of(term.type)) == 2:
            found.append((term, order.index(axes[0])))
    return found


def _terms(condition: Value) -> list[Value]:
    """What has to hold for `condition` to hold, each as long as it is before it is broadcast."""
    parts = conjuncts(unbroadcast(condition))
    return parts if len(parts) == 1 else [term for part in parts for term in _terms(part)]


@dataclass(frozen=True)
class _Seen:
    """The conditions of each store that shows elements of a tile at their own places, maybe `later`: in another round
    of loops, of which these are the arguments.
    """

    masks: list[list[Value]]
    later: set[Value]

    def only_where(self, condition: Value) -> bool:
        """Whether elements are seen only where `condition` held when the tile was made."""
        stable = not self.later or not _depends_on(condition, self.later)
        return stable and all(any(_alike(condition, term, set()) for term in mask) for mask in self.masks)


class _Observations:
    """Where elements of a tile end up."""

    def __init__(self, users: dict[Value, list[tuple[Op, int]]], owners: dict[int, Op]) -> None:
        self.users, self.owners = users, owners

    def of(self, tile: Value) -> _Seen | None:
        """Who sees elements of `tile`; None where others than stores may, or at other places."""
        found = _Seen([], set())
        stack, seen = [tile], set()
        while stack:
            value = stack.pop()
            if value in seen:
                continue
            seen.add(value)
            for op, place in self.users[value]:
                following = self._following(op, place, value)
                if following is None:
                    return None
                stack += following
                if op.name == "tt.store":
                    found.masks.append(_terms(op.operands[2]) if len(op.operands) > 2 else [])
                elif op.name == "scf.yield" and (loop := self.owners[id(op)]).name == "scf.for":
                    found.later.update(loop.regions[0].arguments)
        return found

    def _following(self, op: Op, place: int, value: Value) -> list[Value] | None:
        """The tiles whose elements depend on those of `value` at the same places alone; None if others do."""
        if op.name == "tt.store":
            return [] if place == 1 else None
        if op.name == "tt.dot":
            return [op.result] if place == 2 else None
        if op.name == "scf.yield":
            loop = self.owners.get(id(op))
            if loop is None or loop.name not in ("scf.for", "scf.if"):
                return None
            carried = [loop.regions[0].arguments[1 + place]] if loop.name == "scf.for" else []
            return [*carried, loop.results[place]]
        if op.name == "scf.for":
            return [op.regions[0].arguments[place - 2], op.results[place - 3]]
        elementwise = is_virtual(op) and not moves(op) and op.name not in ("tt.load", "tt.splat")
        same_shape = all(shape_of(result.type) == shape_of(value.type) for result in op.results)
        return list(op.results) if elementwise and same_shape and op.results else None


def _alike(a: Value, b: Value, compared: set[tuple[Value, Value]]) -> bool:
    """Whether two values are made the same way, of the same values by operations without effects, apart from pairs that
    were `compared` before.
    """
    if a is b or (a, b) in compared:
        return True
    compared.add((a, b))
    left, right = a.owner, b.owner
    if left is None or right is None or a.index != b.index or a.type != b.type:
        return False
    if left.name != right.name or left.attrs != right.attrs or len(left.operands) != len(right.operands):
        return False
    return _is_pure(left) and all(_alike(x, y, compared) for x, y in zip(left.operands, right.operands))


def _depends_on(value: Value, changing: set[Value]) -> bool:
    """Whether `value` may depend on one of `changing`."""
    stack, seen = [value], set()
    while stack:
        current = stack.pop()
        if current in changing or (current.owner is not None and not _is_pure(current.owner)):
            return True
        if current not in seen and current.owner is not None:
            stack += current.owner.operands
        seen.add(current)
    return False


def _is_pure(op: Op) -> bool:
    return op.name.startswith("arith.") or op.name in _PURE
