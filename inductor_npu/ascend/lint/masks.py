"""Which masks limit a transfer on Ascend: intervals of single axes, and their conjunction.

The adapter turns `index < bound`, `<=`, `>=`, `>` of an index that steps by one along one axis, joined by `&`, into the
size of the transfer. With any other part in a mask, it moves the whole tile and selects afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from inductor_npu.simulator.triton_backend.ttir.ir import Op, Value

from .forms import Form, Forms, Irregular

_VIEWS = frozenset({"tt.broadcast", "tt.expand_dims", "tt.splat", "tt.reshape", "tt.trans"})
_INTERVALS = frozenset({"slt", "sle", "sge"})  # compiled with each: > is none, and none unsigned
_WRITTEN = {"eq": "`==`", "ne": "`!=`", "sgt": "`>`, which is not known, unlike `>=`"}
# Of what the adapter takes an index in a mask apart into.
_INDEX = _VIEWS | {"tt.make_range", "arith.addi", "arith.extsi", "arith.extui", "arith.trunci", "arith.constant"}


@dataclass(frozen=True)
class Fault:
    """A part of a mask that does not limit a transfer: `kind` is "reversed", "data" or "form"."""

    kind: str
    what: str
    op: Op | None


def faults(mask: Value, forms: Forms) -> Iterator[Fault]:
    """The parts of `mask` that are no intervals of an axis."""
    if forms[mask].is_uniform:
        return
    op = mask.owner
    if op is None:
        if forms[mask].is_data:
            yield Fault("data", "a mask that a loop carries", None)
        return
    if op.name == "arith.andi":
        for part in op.operands:
            yield from faults(part, forms)
    elif op.name in _VIEWS:
        yield from faults(op.operands[0], forms)
    elif op.name == "arith.cmpi":
        yield from _comparison(op, forms)
    elif forms[mask].is_data and op.name not in ("arith.ori", "arith.xori"):
        yield Fault("data", "a mask that is computed of loaded values", op)
    else:
        what = {"arith.ori": "`|`", "arith.xori": "`~` or `^`", "arith.select": "a selection"}.get(op.name, op.name)
        yield Fault("form", what, op)


def _comparison(op: Op, forms: Forms) -> Iterator[Fault]:
    left, right = (forms[value] for value in op.operands)
    predicate = str(op.attrs["predicate"])
    if left.is_data or right.is_data:
        yield Fault("data", "a comparison of loaded values", op)
    elif left.is_uniform:
        yield Fault("reversed", "the bound stands on the left", op)
    elif predicate not in _INTERVALS:
        yield Fault("form", _WRITTEN.get(predicate, "an unsigned comparison"), op)
    elif not right.is_uniform:
        yield Fault("form", "a comparison of two indices", op)
    elif (what := _unlike_an_axis(left) or _unlike_a_sum(op.operands[0], forms)) is not None:
        yield Fault("form", what, op)


def _unlike_a_sum(index: Value, forms: Forms) -> str | None:
    """What in an index is no sum: the adapter knows none of a difference, though it is as good."""
    op = index.owner
    if op is None or forms[index].is_uniform:
        return None
    if op.name not in _INDEX:
        name = {"arith.subi": "a difference: `i < n + k` instead of `i - k < n`"}.get(op.name, op.name)
        return f"a comparison of {name}"
    return next((what for operand in op.operands if (what := _unlike_a_sum(operand, forms)) is not None), None)


def _unlike_an_axis(form: Form) -> str | None:
    """What keeps an index from being one axis of a tile that begins somewhere."""
    moving = [step for step in form.steps if step != 0]
    irregular = next((step for step in moving if isinstance(step, Irregular)), None)
    if irregular is not None:
        return f"a comparison of an index that is a {irregular.why}"
    if len(moving) > 1:
        return "a comparison of an index that runs along several axes"
    if moving[0] != 1:
        return (
            "a comparison of an index that is multiplied" if moving[0] != -1 else "a comparison of an index that falls"
        )
    return None


def left_out(mask: Value, axis: int, forms: Forms) -> int | None:
    """How many of a tile's last elements along `axis` a mask leaves out; None where that is not known. What it asks
    along other axes does not count.
    """
    form, op = forms[mask], mask.owner
    if form.is_uniform or form.steps[axis] == 0:
        return 0
    if op is None:
        return None
    if op.name == "arith.andi":
        parts = [left_out(part, axis, forms) for part in op.operands]
        return None if None in parts else max(part or 0 for part in parts)
    if op.name == "tt.broadcast":
        return left_out(op.operands[0], axis, forms)
    if op.name == "tt.expand_dims":
        return left_out(op.operands[0], axis - (int(op.attrs["axis"]) < axis), forms)
    if op.name != "arith.cmpi" or str(op.attrs["predicate"]) != "slt":
        return None
    index, bound = op.operands[0], forms[op.operands[1]].number
    while index.owner is not None and index.owner.name in ("tt.broadcast", "tt.expand_dims"):
        index = index.owner.operands[0]
    if bound is None or index.owner is None or index.owner.name != "tt.make_range":
        return None
    return max(0, int(index.owner.attrs["end"]) - bound) if int(index.owner.attrs["start"]) == 0 else None
