"""Movement of elements: views, copies in another order, joins, padding."""

from __future__ import annotations

import math

from fuzz.case import Input
from fuzz.draft import Draft, NothingFits, Rounding


def turned(draft: Draft) -> None:
    """Axes in another order."""
    name = draft.operand(lambda tensor: tensor.dim() >= 2)
    rank = draft.of(name).dim()
    text = draft.choose(("transpose", "permute", "movedim"))
    if text == "permute":
        order = list(range(rank))
        for place in range(rank - 1, 0, -1):
            other = draft.integer(0, place)
            order[place], order[other] = order[other], order[place]
        draft.add(f"{name}.permute({tuple(order)})", [name], Rounding.NONE)
    else:
        draft.add(f"{name}.{text}({draft.axis(name)}, {draft.axis(name)})", [name], Rounding.NONE)


def reshaped(draft: Draft) -> None:
    """Axes joined, or one axis split in two; sizes are computed from the value's, or are numbers."""
    name = draft.operand()
    shape = list(draft.of(name).shape)
    rank = len(shape)
    kind = draft.choose(("flatten", "join", "split", "ravel"))
    if kind == "flatten" or rank == 0:
        draft.add(f"{name}.reshape(-1)", [name], Rounding.NONE)
    elif kind == "ravel":
        draft.add(f"torch.flatten({name}, {draft.integer(0, rank - 1)})", [name], Rounding.NONE)
    elif kind == "join":
        first = draft.integer(0, rank - 1)
        last = draft.integer(first, rank - 1)
        sizes = [f"{name}.shape[{axis}]" for axis in range(rank)]
        joined = " * ".join(sizes[first : last + 1])
        draft.add(f"{name}.reshape({', '.join([*sizes[:first], joined, *sizes[last + 1 :]])})", [name], Rounding.NONE)
    else:
        axis = draft.integer(0, rank - 1)
        factors = [number for number in range(1, min(shape[axis], 40) + 1) if shape[axis] % number == 0]
        if not factors:
            raise NothingFits
        factor = draft.choose(factors)
        shape[axis : axis + 1] = [factor, shape[axis] // factor]
        draft.add(f"{name}.reshape({', '.join(map(str, shape))})", [name], Rounding.NONE)


def of_size_one(draft: Draft) -> None:
    """An axis of size one more, or less."""
    name = draft.operand()
    if draft.sometimes():
        draft.add(f"{name}.squeeze()", [name], Rounding.NONE)
    else:
        draft.add(f"{name}.unsqueeze({draft.integer(0, draft.of(name).dim())})", [name], Rounding.NONE)


def expanded(draft: Draft) -> None:
    """An axis of size one repeated without a copy, or any with one."""
    name = draft.operand(lambda tensor: tensor.dim() > 0)
    shape = list(draft.of(name).shape)
    if draft.sometimes():
        sizes = [draft.choose((2, 3, 8, 17)) if size == 1 else -1 for size in shape]
        draft.add(f"{name}.expand({', '.join(map(str, sizes))})", [name], Rounding.NONE)
    elif draft.sometimes():
        text = f"{name}.repeat_interleave({draft.integer(1, 3)}, {draft.axis(name)})"
        draft.add(text, [name], Rounding.NONE)
    else:
        times = [draft.integer(1, 3) for _ in shape]
        draft.add(f"{name}.repeat({', '.join(map(str, times))})", [name], Rounding.NONE)


def sliced(draft: Draft) -> None:
    """A part of it, by slices and single positions."""
    name = draft.operand(lambda tensor: tensor.dim() > 0)
    parts = []
    for size in draft.of(name).shape:
        kind = draft.choose((":", "slice", "slice", "step", "position", "end"))
        if kind == "slice":
            first = draft.integer(0, max(0, size - 1))
            parts.append(f"{first}:{draft.integer(first, size)}")
        elif kind == "step":
            parts.append(f"{draft.integer(0, max(0, size - 1))}::{draft.integer(2, 3)}")
        elif kind == "position" and size:
            parts.append(str(draft.integer(-size, size - 1)))
        elif kind == "end":
            parts.append(f"-{draft.integer(1, max(1, size))}:")
        else:
            parts.append(":")
    draft.add(f"{name}[{', '.join(parts)}]", [name], Rounding.NONE)


def moved(draft: Draft) -> None:
    """In reversed order, or rotated."""
    name = draft.operand(lambda tensor: tensor.dim() > 0)
    axis = draft.axis(name)
    if draft.sometimes():
        draft.add(f"{name}.flip({axis})", [name], Rounding.NONE)
    else:
        draft.add(f"{name}.roll({draft.integer(-5, 5)}, {axis})", [name], Rounding.NONE)


def joined(draft: Draft) -> None:
    """Several values side by side."""
    name = draft.operand(lambda tensor: tensor.dim() > 0)
    axis = draft.integer(0, draft.of(name).dim() - 1)
    shape = list(draft.of(name).shape)

    def fits(tensor: object) -> bool:
        sizes = list(getattr(tensor, "shape", ()))
        return len(sizes) == len(shape) and sizes[:axis] + sizes[axis + 1 :] == shape[:axis] + shape[axis + 1 :]

    names = [name, *(draft.operand(fits) for _ in range(draft.integer(1, 2)))]
    draft.add(f"torch.cat([{', '.join(names)}], {axis})", names, Rounding.NONE)


def stacked(draft: Draft) -> None:
    """Several values of one shape along a new axis."""
    name = draft.operand()
    shape = draft.of(name).shape
    names = [name, *(draft.operand(lambda tensor: tensor.shape == shape) for _ in range(draft.integer(1, 2)))]
    draft.add(f"torch.stack([{', '.join(names)}], {draft.integer(0, len(shape))})", names, Rounding.NONE)


def split(draft: Draft) -> None:
    """Into two or three values."""
    name = draft.operand(lambda tensor: tensor.dim() > 0)
    draft.add(f"torch.chunk({name}, {draft.integer(2, 3)}, {draft.axis(name)})", [name], Rounding.NONE)


def bordered(draft: Draft) -> None:
    """A border around the last axes: constant, or of its own elements; a negative one cuts."""
    name = draft.operand(lambda tensor: tensor.dim() > 0)
    rank = draft.of(name).dim()
    mode = draft.choose(("constant", "constant", "reflect", "replicate", "circular"))
    if mode == "constant":
        widths = [draft.integer(-1, 4) for _ in range(2 * draft.integer(1, rank))]
        draft.add(f"F.pad({name}, {widths}, value={draft.integer(-1, 1)})", [name], Rounding.NONE)
    else:
        widths = [draft.integer(0, 3) for _ in range(2 * draft.integer(1, min(3, max(1, rank - 1))))]
        draft.add(f"F.pad({name}, {widths}, mode={mode!r})", [name], Rounding.NONE)


def windows(draft: Draft) -> None:
    """Overlapping windows of an axis."""
    name = draft.operand(lambda tensor: tensor.dim() > 0)
    axis = draft.axis(name)
    size = draft.integer(1, max(1, min(4, draft.of(name).shape[axis])))
    draft.add(f"{name}.unfold({axis}, {size}, {draft.integer(1, 3)})", [name], Rounding.NONE)


def triangle(draft: Draft) -> None:
    """The part above or below a diagonal, or a diagonal."""
    name = draft.operand(lambda tensor: tensor.dim() >= 2)
    kind = draft.choose(("tril", "triu", "diagonal"))
    axes = ", dim1=-2, dim2=-1" if kind == "diagonal" else ""
    draft.add(f"torch.{kind}({name}, {draft.integer(-3, 3)}{axes})", [name], Rounding.NONE)


def copied(draft: Draft) -> None:
    """A copy of the same values in an order of its own."""
    name = draft.operand()
    draft.add(f"{name}.{draft.choose(('clone', 'contiguous'))}()", [name], Rounding.NONE)


def upsampled(draft: Draft) -> None:
    """Each element of the last two axes repeated."""
    name = draft.operand(lambda tensor: tensor.dim() == 4 and tensor.is_floating_point())
    draft.add(f"F.interpolate({name}, scale_factor={draft.integer(2, 3)}, mode='nearest')", [name], Rounding.NONE)


def counted(draft: Draft) -> None:
    """Positions along an axis."""
    name = draft.operand(lambda tensor: tensor.dim() > 0)
    dtype = draft.choose(("int64", "float32", "int32"))
    axis = draft.axis(name)
    draft.add(f"torch.arange({name}.shape[{axis}], device={name}.device, dtype={dtype})", [name], Rounding.NONE)


def distances(draft: Draft) -> None:
    """How far apart positions along two axes are, as masks and buckets of positions are made of."""
    name = draft.operand(lambda tensor: tensor.dim() > 0)
    ahead, here = (f"torch.arange({name}.shape[{draft.axis(name)}], device={name}.device)" for _ in range(2))
    form = draft.choose(("{}", "{}.abs()", "torch.minimum({}, {}.new_zeros(()))", "-{}.clamp(-2, 5)", "{} >= 1"))
    draft.add(form.replace("{}", f"({ahead} - {here}[:, None])"), [name], Rounding.NONE)


def filled(draft: Draft) -> None:
    """A new value like another, of one number."""
    name = draft.operand()
    draft.add(f"torch.full_like({name}, {draft.integer(0, 1)})", [name], Rounding.NONE)


def another_input(draft: Draft) -> None:
    """An input of the shape of a value, in floating point."""
    shape = tuple(draft.of(draft.operand()).shape)
    if math.prod(shape) == 0:
        raise NothingFits
    draft.input(Input("float32", shape, values="normal", seed=len(draft.inputs)))


STATEMENTS = (
    copied,
    *(turned,) * 2,
    *(reshaped,) * 3,
    of_size_one,
    *(expanded,) * 2,
    *(sliced,) * 3,
    moved,
    *(joined,) * 2,
    stacked,
    split,
    *(bordered,) * 2,
    windows,
    triangle,
    upsampled,
    counted,
    *(distances,) * 2,
    filled,
    another_input,
)
