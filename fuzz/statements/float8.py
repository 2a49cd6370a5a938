"""8-bit floats: conversions to them, also of values beyond their range, and back. PyTorch computes with them in other
dtypes only.
"""

from __future__ import annotations

import torch

from fuzz.case import FLOATS, FLOATS8, LAYOUTS, Input
from fuzz.draft import Draft, NothingFits, Rounding, is_real

# Powers of two: small ones, the ends of the range of each of the four, and beyond.
FACTORS = (1, 0.0078125, 64, 512, 16384, 32768)


def there(draft: Draft) -> None:
    """Of any dtype, to eight bits. It has no gradient, which would be of eight bits as well."""
    name = draft.operand(is_real, exact=True)
    draft.add(f"{_multiplied(draft, name)}.detach().to(torch.{draft.choose(FLOATS8)})", [name], Rounding.NONE)


def there_and_back(draft: Draft) -> None:
    """Of any dtype, to eight bits and on to more, in one step; so much smaller that statements can compute with it."""
    name = draft.operand(is_real, exact=True)
    small = draft.choose(FLOATS8)
    text = f"{_multiplied(draft, name)}.detach().to(torch.{small})"
    if draft.sometimes():  # from one kind of eight bits to another
        text += f".to(torch.{draft.choose(FLOATS8)})"
    draft.add(f"{text}.to({draft.choose(FLOATS)}) * 0.0078125", [name], Rounding.NONE)


def back(draft: Draft) -> None:
    """Of eight bits, to more."""
    try:
        name = draft.operand(_is_float8)
    except NothingFits:
        there(draft)
        name = draft.operand(_is_float8)
    draft.add(f"{name}.to({draft.choose(FLOATS)}) * 0.0078125", [name], Rounding.NONE)


def given(draft: Draft) -> None:
    """An input of eight bits, and arithmetic with it in another dtype."""
    values = draft.choose(("normal", "integers", "special"))
    part = Input(draft.choose(FLOATS8), draft.shape(), draft.choose(LAYOUTS), values, seed=len(draft.inputs))
    name = draft.input(part)
    text = draft.choose(("{}.to({})", "{}.to({}) * 2", "{}.to({}) + 1", "-{}.to({})"))
    draft.add(text.format(name, draft.choose(FLOATS)), [name], Rounding.SUMS)


def _is_float8(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() and tensor.itemsize == 1


def _multiplied(draft: Draft, name: str) -> str:
    factor = draft.choose(FACTORS)
    return name if factor == 1 else f"({name} * {factor})"


STATEMENTS = (there, *(there_and_back,) * 2, back, given)
