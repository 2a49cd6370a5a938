"""Uninitialised memory, moved to another device, and written before anything reads it."""

from __future__ import annotations

from fuzz.case import DTYPES
from fuzz.draft import Draft, NothingFits, Rounding, is_real


def filled(draft: Draft) -> None:
    """With one number; or never, where its device alone is asked for."""
    name = draft.operand(lambda tensor: tensor.dim() > 0)
    shape = f"{name}.shape" if draft.sometimes() else str(draft.shape(1, 3))
    memory = _memory(draft, name, shape, draft.choose(DTYPES))
    text = draft.choose(
        (".fill_(2)", ".zero_()", ".fill_(1).mul_(2)", ".zero_() + 1", ".new_ones(3)", ".copy_({}.new_zeros(()))")
    )
    draft.add(memory + text.format(name), [name], Rounding.NONE)


def overwritten(draft: Draft) -> None:
    """With another value."""
    name = draft.operand(is_real)
    dtype = str(draft.of(name).dtype).removeprefix("torch.")
    text = draft.choose(
        (
            "{memory}.copy_({x})",
            "torch.add({x}, {x}, out={memory})",
            "{memory}.fill_(1).add_({x})",
            "{x} + torch.ones_like({memory})",
            "torch.where(torch.ones_like({memory}, dtype=torch.bool), {x}, 0)",
        )
    )
    memory = _memory(draft, name, f"{name}.shape", dtype)
    if "out=" in text and "unsqueeze" in memory:  # eager changes the shape, with a warning that it will not for long
        raise NothingFits
    draft.add(text.format(memory=memory, x=name), [name], Rounding.SUMS)


def _memory(draft: Draft, name: str, shape: str, dtype: str) -> str:
    """On the device of the value, maybe by way of the CPU."""
    named = "torch.bool" if dtype == "bool" else dtype
    text = draft.choose(
        (
            "torch.empty({shape}, dtype={dtype}).to({x}.device)",
            "torch.empty({shape}, dtype={dtype}, device={x}.device)",
            "{x}.new_empty({shape}, dtype={dtype})",
            "torch.empty_like({x}, dtype={dtype})",
            "torch.empty({shape}).to({x}.device, {dtype})",
            "torch.empty({shape}, dtype={dtype}).to({x}.device).clone()",
            "torch.empty({shape}, dtype={dtype}).unsqueeze(0).to({x}.device)",
        )
    )
    return text.format(shape=shape, dtype=named, x=name)


STATEMENTS = (filled, *(overwritten,) * 2)
