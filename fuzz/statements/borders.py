"""Padding whose widths are computed from sizes, and convolutions of padded tensors."""

from __future__ import annotations

from collections.abc import Sequence

from fuzz.case import Input, is_float
from fuzz.draft import Draft, Rounding
from fuzz.statements.sizes import size

MODES = ("constant", "constant", "reflect", "replicate", "circular")
WIDTHS = ("{n} // 2", "{n} % 3", "-{n} % 4", "({n} - 1) // 3", "({n} + 3) // 4", "max(0, 5 - {n})", "min({n}, 2)")


def computed(draft: Draft) -> None:
    """A border of an expression of sizes, as of causal convolutions and of rows that become a multiple of four."""
    name = draft.operand(lambda tensor: tensor.dim() > 0)
    rank = draft.of(name).dim()
    mode = draft.choose(MODES)
    most = rank if mode == "constant" else min(3, max(1, rank - 1))
    widths = _widths(draft, name, draft.integer(1, most), (*WIDTHS, "-({n} // 4)") if mode == "constant" else WIDTHS)
    draft.add(_padded(name, widths, mode), [name], Rounding.NONE)


def convolved(draft: Draft) -> None:
    """A convolution in one or two dimensions of a value with a border, of which the sizes may be arguments."""
    rank = draft.choose((2, 1))
    channels = draft.choose((2, 1, 3, 4))
    name = _image(draft, rank, channels)
    channels = draft.of(name).shape[1]
    groups = channels if draft.integer(0, 3) == 3 else 1
    kernel = tuple(draft.choose((3, 1, 2, 5)) for _ in range(rank))
    dtype = str(draft.of(name).dtype).removeprefix("torch.")
    shape = (groups * draft.integer(1, 3), channels // groups, *kernel)
    weight = draft.input(Input(dtype, shape, values=draft.choose(("integers", "normal")), seed=len(draft.inputs)))
    mode = draft.choose(MODES)
    widths = _widths(draft, name, rank, (*WIDTHS, "1", "2", "2", "2")) if draft.sometimes() else ["2"] * (2 * rank)
    options = f"stride={draft.integer(1, 2)}, dilation={draft.integer(1, 2)}, padding={draft.integer(0, 1)}"
    text = f"F.conv{rank}d({_padded(name, widths, mode)}, {weight}, {options}, groups={groups})"
    draft.add(text, [name, weight], Rounding.ALWAYS)


def _image(draft: Draft, rank: int, channels: int) -> str:
    """A value with that many axes behind those of samples and channels; most often an input made for it."""
    if draft.integer(0, 3) == 3:
        return draft.operand(lambda tensor: is_float(tensor) and tensor.dim() == rank + 2 and 0 < tensor.shape[1] <= 8)
    sizes = tuple(draft.choose((8, 5, 7, 9, 12, 17)) for _ in range(rank))
    dtype = draft.choose(("float32", "float32", "float64", "bfloat16"))
    layout = draft.choose(("contiguous", "transposed", "every second", "inside"))
    shape = (draft.choose((2, 1)), channels, *sizes)
    return draft.input(Input(dtype, shape, layout, draft.choose(("integers", "normal")), seed=len(draft.inputs)))


def _widths(draft: Draft, name: str, axes: int, forms: Sequence[str]) -> list[str]:
    widths = []
    for _ in range(2 * axes):
        form = draft.choose(("0", "1", *forms, *forms))
        widths.append(form.replace("{n}", size(draft, name)))
    return widths


def _padded(name: str, widths: list[str], mode: str) -> str:
    return f"F.pad({name}, ({', '.join(widths)}), mode={mode!r})"


STATEMENTS = (*(computed,) * 3, *(convolved,) * 3)
