"""Shifts of integers, signed and unsigned, by any number of bits: also negative ones and more than there are."""

from __future__ import annotations

from fuzz.case import Input
from fuzz.draft import Draft, NothingFits, Rounding, is_whole
from fuzz.statements.pointwise import partner

AMOUNTS = (1, 3, 7, 8, 15, 16, 31, 32, 33, 63, 64, 0, -1, -8)
SIGNS = ("{} >> {}", "{} << {}")
# Beyond 64 bits C++ does not say what int64, in which the CPU computes these, becomes.
FEWER_AMOUNTS = tuple(amount for amount in AMOUNTS if amount < 64)


def by_number(draft: Draft) -> None:
    """Of any integers by a constant."""
    name = _integers(draft)
    draft.add(draft.choose(SIGNS).format(name, draft.choose(AMOUNTS)), [name], Rounding.NONE)


def by_value(draft: Draft) -> None:
    """By another value, each element by its own amount."""
    name = _integers(draft)
    other = partner(draft, name, is_whole)
    draft.add(draft.choose(SIGNS).format(name, other), [name, other], Rounding.NONE)


def of_bytes(draft: Draft) -> None:
    """Of a value as bytes, all of whose bits are in use."""
    name = _integers(draft)
    text = draft.choose(SIGNS).format(f"({name} * 37).to(uint8)", draft.choose(AMOUNTS))
    draft.add(text, [name], Rounding.NONE)


def of_unsigned(draft: Draft) -> None:
    """Of unsigned integers of 16 and 32 bits, which CUDA shifts and the CPU does not."""
    name = _integers(draft)
    dtype = draft.choose(("uint16", "uint32"))
    kind = draft.choose(("right", "left"))
    shifted = f"torch.bitwise_{kind}_shift, ({name} * 9999).to(torch.{dtype}), {draft.choose(FEWER_AMOUNTS)}"
    draft.add(f"wider({shifted}, within=int64).to(int64)", [name], Rounding.NONE)


def _integers(draft: Draft) -> str:
    """The name of a value of integers; of an input if there is none."""
    try:
        return draft.operand(is_whole)
    except NothingFits:
        dtype = draft.choose(("int32", "int64", "int16", "int8", "uint8"))
        return draft.input(Input(dtype, draft.shape(), seed=len(draft.inputs)))


STATEMENTS = (by_number, by_value, *(of_bytes,) * 2, of_unsigned)
