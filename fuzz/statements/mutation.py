"""Writes into an existing value: inputs, copies, and views of both."""

from __future__ import annotations

from fuzz.case import is_float
from fuzz.draft import Draft, NothingFits, Rounding
from fuzz.statements.pointwise import partner


def with_number(draft: Draft) -> None:
    """Arithmetic with a number, in place."""
    name = draft.operand(lambda tensor: tensor.dtype.itemsize > 1)
    text = draft.choose(("{}.add_(1)", "{}.mul_(2)", "{}.sub_(3)", "{}.neg_()", "{}.zero_()", "{}.fill_(2)"))
    draft.change(text.format(name), name, [], Rounding.SUMS)


def with_value(draft: Draft) -> None:
    """Arithmetic with another value, in place."""
    name = draft.operand(is_float)
    other = partner(draft, name, is_float)
    if draft.of(other).untyped_storage().data_ptr() == draft.of(name).untyped_storage().data_ptr():
        raise NothingFits  # eager itself reads what it has written
    text = draft.choose(("{}.add_({})", "{}.mul_({})", "{}.copy_({})", "{}.sub_({})"))
    draft.change(text.format(name, other), name, [other], Rounding.SUMS)


def part(draft: Draft) -> None:
    """Into a slice."""
    name = draft.operand(lambda tensor: tensor.dim() > 0)
    size = draft.of(name).shape[0]
    first = draft.integer(0, max(0, size - 1))
    place = draft.choose((f"{first}:", f"{first}::2", f":{first}", f"..., {first}:"))
    text = draft.choose(("{}[{}] = 1", "{}[{}] += 2", "{}[{}] *= -1"))
    draft.change(text.format(name, place), name, [], Rounding.SUMS)


def rows(draft: Draft) -> None:
    """Into rows by an index without repetition."""
    name = draft.operand(lambda tensor: tensor.dim() > 0)
    index = draft.index((1,), draft.of(name).shape[0])
    draft.change(f"{name}[{index}] = {draft.integer(-2, 2)}", name, [], Rounding.NONE)


STATEMENTS = (with_number, with_value, part, rows)
