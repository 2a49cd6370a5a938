"""How a kernel computes each index: its step along each axis of the tile.

`first + tl.arange(0, 64)` steps by 1; `rows[:, None] * stride + columns[None, :]` steps by an unknown number along axis
0 and by 1 along axis 1. An index that Ascend's adapter cannot decompose into such steps is moved element by element.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Union

from inductor_npu.simulator.triton_backend.ttir.ir import Block, Dense, Op, PointerType, ScalarType, TensorType, Value


@dataclass(frozen=True)
class Irregular:
    """A step that differs from element to element, because of the operation `op`.

    `why`: "data" (loaded, or computed of it), "quotient", "remainder", "choice" (a minimum, a maximum, a selection, a
    comparison), "product" (of two axes), "shape" (a reshape that mixes axes), "function" (any other).
    """

    why: str
    op: Op


class _Unknown:
    """A step that is the same for all elements and known only at run time."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN = _Unknown()
Step = Union[int, _Unknown, Irregular]  # noqa: UP007  # evaluated at run time


@dataclass(frozen=True)
class Form:
    """Steps along the axes of a tile (none: a scalar), in elements; `number` is the value of what is the same number
    everywhere and known, `zeroed` the operation that multiplied a tile by zero.
    """

    steps: tuple[Step, ...] = ()
    number: int | None = None
    zeroed: Op | None = None

    @property
    def is_uniform(self) -> bool:
        """Whether all elements are the same."""
        return all(step == 0 for step in self.steps)

    @property
    def is_data(self) -> bool:
        """Whether it holds loaded values, or something computed of them."""
        return any(isinstance(step, Irregular) and step.why == "data" for step in self.steps)

    @property
    def irregular(self) -> tuple[Irregular, ...]:
        """The steps that are not the same for all elements."""
        return tuple(step for step in self.steps if isinstance(step, Irregular))


_SAME = frozenset(
    {"arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast", "arith.bitcast", "tt.bitcast", "tt.broadcast"}
    | {"tt.ptr_to_int", "tt.int_to_ptr", "ttg.convert_layout"}
)
_CHOICES = frozenset(
    [
        "arith.minsi",
        "arith.maxsi",
        "arith.minui",
        "arith.maxui",
        "arith.select",
        "arith.cmpi",
        "arith.ori",
        "arith.xori",
    ]
)
_WHY = {
    "arith.divsi": "quotient",
    "arith.divui": "quotient",
    "arith.shrsi": "quotient",
    "arith.shrui": "quotient",
    "arith.floordivsi": "quotient",
    "arith.remsi": "remainder",
    "arith.remui": "remainder",
    "arith.andi": "remainder",
    **dict.fromkeys(_CHOICES, "choice"),
}
_TURNS = 3  # of a loop's body, until carried indices no longer change


class Forms:
    """The form of each value of a kernel whose calls are inlined."""

    def __init__(self, body: Block) -> None:
        self._forms: dict[Value, Form] = {}
        self._visit(body)

    def __getitem__(self, value: Value) -> Form:
        form = self._forms.get(value)
        return Form((0,) * _rank(value)) if form is None else form

    # Regions

    def _visit(self, block: Block) -> None:
        for op in block.ops:
            if op.name == "scf.for":
                self._loop(op, op.operands[3:], op.regions[0].arguments[1:], op.regions[0])
            elif op.name == "scf.while":
                self._while(op)
            elif op.name == "scf.if":
                self._branches(op)
            elif op.name in ("tt.reduce", "tt.scan"):
                self._reduced(op)
            else:
                for region in op.regions:
                    self._visit(region)
                for result in op.results:
                    self._forms[result] = self._form(op, result)

    def _loop(self, op: Op, initial: list[Value], carried: list[Value], body: Block) -> None:
        """A carried index steps as it does at first, if a turn of the loop only adds the same to all elements."""
        forms = [replace(self[value], number=None) for value in initial]
        for _ in range(_TURNS):
            self._forms.update(zip(carried, forms))
            self._visit(body)
            ends = [self[value] for value in body.ops[-1].operands]
            merged = [_merged(form, end, op) for form, end in zip(forms, ends)]
            if merged == forms:
                break
            forms = merged
        self._forms.update(zip(op.results, forms))

    def _while(self, op: Op) -> None:
        before, after = op.regions
        forms = [replace(self[value], number=None) for value in op.operands]
        for _ in range(_TURNS):
            self._forms.update(zip(before.arguments, forms))
            self._visit(before)
            passed = [self[value] for value in before.ops[-1].operands[1:]]
            self._forms.update(zip(after.arguments, passed))
            self._visit(after)
            forms = [_merged(form, self[end], op) for form, end in zip(forms, after.ops[-1].operands)]
        self._forms.update(zip(op.results, (self[value] for value in before.ops[-1].operands[1:])))

    def _branches(self, op: Op) -> None:
        for region in op.regions:
            self._visit(region)
        for index, result in enumerate(op.results):
            ends = [self[region.ops[-1].operands[index]] for region in op.regions]
            self._forms[result] = _merged(ends[0], ends[-1], op)

    def _reduced(self, op: Op) -> None:
        axis = int(op.attrs["axis"])
        for operand, result in zip(op.operands, op.results):
            steps = self[operand].steps
            kept = steps[:axis] + steps[axis + 1 :] if op.name == "tt.reduce" else steps
            self._forms[result] = Form(tuple(_function(step, op) for step in kept))

    # Operations

    def _form(self, op: Op, result: Value) -> Form:
        rule = _RULES.get(op.name)
        if rule is not None:
            return rule(self, op, result)
        if op.name in _SAME:
            return self[op.operands[0]]
        if op.name in _WHY:
            return self._irregular(op, result, _WHY[op.name])
        return self._computed(op, result)

    def _irregular(self, op: Op, result: Value, why: str) -> Form:
        """Of uniform operands a uniform number; else irregular along every axis along which an operand steps."""
        steps = self._together(op, result, lambda step: step if isinstance(step, Irregular) else Irregular(why, op))
        return Form(steps)

    def _computed(self, op: Op, result: Value) -> Form:
        """Anything else: its result is data where an operand is, and otherwise no index."""
        return Form(self._together(op, result, lambda step: _function(step, op)))

    def _together(self, op: Op, result: Value, change: Callable[[Step], Step]) -> tuple[Step, ...]:
        rank = _rank(result)
        forms = [self[value] for value in op.operands]
        varying = [form for form in forms if not form.is_uniform]
        if not varying:
            return (0,) * rank
        if any(len(form.steps) != rank for form in varying):
            is_data = any(form.is_data for form in varying)
            return tuple(Irregular("data" if is_data else "function", op) for _ in range(rank))
        steps: list[Step] = []
        for along in zip(*(form.steps for form in varying)):
            moving = [step for step in along if step != 0]
            data = next((step for step in moving if isinstance(step, Irregular) and step.why == "data"), None)
            chosen: Step = data or next(
                (step for step in moving if isinstance(step, Irregular)), moving[0] if moving else 0
            )
            steps.append(change(chosen) if moving else 0)
        return tuple(steps)

    def _constant(self, op: Op, result: Value) -> Form:
        value = op.attrs["value"]
        if isinstance(value, Dense):
            if not value.is_splat:
                return Form(tuple(Irregular("data", op) for _ in range(_rank(result))))
            value = value.values
        return Form((0,) * _rank(result), value if isinstance(value, int) else None)

    def _range(self, op: Op, result: Value) -> Form:
        return Form((1,))

    def _splat(self, op: Op, result: Value) -> Form:
        return Form((0,) * _rank(result), self[op.operands[0]].number)

    def _expanded(self, op: Op, result: Value) -> Form:
        form, axis = self[op.operands[0]], int(op.attrs["axis"])
        return replace(form, steps=(*form.steps[:axis], 0, *form.steps[axis:]))

    def _transposed(self, op: Op, result: Value) -> Form:
        form = self[op.operands[0]]
        return replace(form, steps=tuple(form.steps[axis] for axis in op.attrs["order"]))

    def _reshaped(self, op: Op, result: Value) -> Form:
        form, source, shape = self[op.operands[0]], _shape(op.operands[0]), _shape(result)
        if form.is_uniform:
            return replace(form, steps=(0,) * len(shape))
        if _without_ones(source) == _without_ones(shape):
            moving = iter([step for step, size in zip(form.steps, source) if size != 1])
            return replace(form, steps=tuple(next(moving) if size != 1 else 0 for size in shape))
        if len(source) == 1:
            return replace(form, steps=_split(form.steps[0], shape))
        mixed = Irregular("data" if form.is_data else "shape", op)
        return Form((mixed,) * len(shape))

    def _sum(self, op: Op, result: Value) -> Form:
        left, right = (self[value] for value in op.operands)
        sign = -1 if op.name == "arith.subi" else 1
        numbers = None if left.number is None or right.number is None else left.number + sign * right.number
        steps = tuple(_added(a, _scaled(b, sign)) for a, b in zip(left.steps, right.steps))
        return Form(steps, numbers, left.zeroed or right.zeroed)

    def _product(self, op: Op, result: Value) -> Form:
        left, right = (self[value] for value in op.operands)
        if not left.is_uniform and not right.is_uniform:
            return self._irregular(op, result, "product")
        tile, factor = (left, right) if right.is_uniform else (right, left)
        if op.name == "arith.shli":
            if not right.is_uniform:
                return self._irregular(op, result, "product")
            tile, factor = left, replace(right, number=None if right.number is None else 1 << right.number)
        number = None if left.number is None or right.number is None else tile.number * factor.number  # type: ignore[operator]
        zeroed = op if factor.number == 0 and not tile.is_uniform else tile.zeroed or factor.zeroed
        return Form(tuple(_scaled(step, factor.number) for step in tile.steps), number, zeroed)

    def _loaded(self, op: Op, result: Value) -> Form:
        """What a load gives is data along the axes along which its address changes."""
        if not isinstance(op.operands[0].type, TensorType):
            return Form(tuple(Irregular("data", op) for _ in range(_rank(result))))  # by a block pointer
        return Form(_as_data(self[op.operands[0]].steps, op))


_RULES: dict[str, Callable[[Forms, Op, Value], Form]] = {
    "arith.constant": Forms._constant,
    "tt.make_range": Forms._range,
    "tt.splat": Forms._splat,
    "tt.expand_dims": Forms._expanded,
    "tt.trans": Forms._transposed,
    "tt.reshape": Forms._reshaped,
    "arith.addi": Forms._sum,
    "arith.subi": Forms._sum,
    "tt.addptr": Forms._sum,
    "arith.muli": Forms._product,
    "arith.shli": Forms._product,
    "tt.load": Forms._loaded,
    "tt.atomic_rmw": Forms._loaded,
    "tt.atomic_cas": Forms._loaded,
}


def _added(left: Step, right: Step) -> Step:
    if left == 0:
        return right
    if right == 0:
        return left
    for step in (left, right):
        if isinstance(step, Irregular) and step.why == "data":
            return step
    for step in (left, right):
        if isinstance(step, Irregular):
            return step
    if isinstance(left, int) and isinstance(right, int):
        return left + right
    return UNKNOWN


def _scaled(step: Step, factor: int | None) -> Step:
    if step == 0 or isinstance(step, Irregular):
        return step if factor != 0 else 0
    if isinstance(step, int) and factor is not None:
        return step * factor
    return UNKNOWN if factor != 0 else 0


def _merged(first: Form, second: Form, op: Op) -> Form:
    """Either of the two: what both agree on."""
    if len(first.steps) != len(second.steps):
        return Form(tuple(Irregular("data", op) for _ in first.steps))
    steps = tuple(a if a == b else _either(a, b, op) for a, b in zip(first.steps, second.steps))
    return Form(steps, first.number if first.number == second.number else None, first.zeroed or second.zeroed)


def _either(first: Step, second: Step, op: Op) -> Step:
    for step in (first, second):
        if isinstance(step, Irregular) and step.why == "data":
            return step
    return _function(first if first != 0 else second, op)


def _function(step: Step, op: Op) -> Step:
    return step if step == 0 or isinstance(step, Irregular) else Irregular("function", op)


def _data(step: Step, op: Op) -> Step:
    if step == 0 or (isinstance(step, Irregular) and step.why == "data"):
        return step
    return Irregular("data", op)


def _as_data(steps: tuple[Step, ...], op: Op) -> tuple[Step, ...]:
    return tuple(_data(step, op) for step in steps)


def _split(step: Step, shape: tuple[int, ...]) -> tuple[Step, ...]:
    """Steps of one axis cut into `shape`, row-major."""
    steps: list[Step] = []
    inner = 1
    for size in reversed(shape):
        steps.insert(0, _scaled(step, inner) if not isinstance(step, Irregular) else step)
        inner *= size
    return tuple(steps)


def _without_ones(shape: tuple[int, ...]) -> list[int]:
    return [size for size in shape if size != 1]


def _shape(value: Value) -> tuple[int, ...]:
    return value.type.shape if isinstance(value.type, TensorType) else ()


def _rank(value: Value) -> int:
    return len(_shape(value))


def element(value: Value) -> str:
    """MLIR's name of the type of a value's elements: "i64", "f32", "ptr"."""
    type_ = value.type.element if isinstance(value.type, TensorType) else value.type
    if isinstance(type_, ScalarType):
        return type_.name
    return "ptr" if isinstance(type_, PointerType) else str(type_)
