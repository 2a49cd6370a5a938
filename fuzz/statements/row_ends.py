"""Gathers that read the last elements of short rows, where a vector is cut off: rows of every length around a vector's,
and enough values at once to make the compiler run out of registers.
"""

from __future__ import annotations

from fuzz.case import DTYPES, Input, is_float
from fuzz.draft import Draft, Rounding, is_real

MOST_COLUMNS = 17  # one more than the widest vectors hold numbers of 32 bits


def gathered(draft: Draft) -> None:
    """Elements of each row by an index, half of which is the last."""
    name = _rows(draft)
    tensor = draft.of(name)
    columns = draft.integer(1, MOST_COLUMNS)
    dtype = draft.choose(("int64", "int32"))
    kind = draft.choose(("gather", "brackets", "along", "select"))
    if kind in ("gather", "along"):
        index = draft.index((*tensor.shape[:-1], columns), tensor.shape[-1], values="ends")
        function = "torch.gather({0}, -1, {1})" if kind == "gather" else "torch.take_along_dim({0}, {1}, -1)"
        draft.add(function.format(name, index), [name], Rounding.NONE)
    else:
        index = draft.index((columns,), tensor.shape[-1], dtype, values="ends")
        text = f"{name}[..., {index}]" if kind == "brackets" else f"torch.index_select({name}, -1, {index})"
        draft.add(text, [name], Rounding.NONE)


def several(draft: Draft) -> None:
    """Several gathers of the same rows, joined element by element."""
    name = _rows(draft)
    bound, columns = draft.of(name).shape[-1], draft.integer(1, MOST_COLUMNS)
    indices = [draft.index((columns,), bound, values="ends") for _ in range(draft.integer(2, 4))]
    sign = draft.choose((" + ", " - "))
    draft.add(sign.join(f"{name}[..., {index}]" for index in indices), [name], Rounding.SUMS)


def backwards(draft: Draft) -> None:
    """The end of each row, counted from it."""
    name = _rows(draft)
    bound = draft.of(name).shape[-1]
    index = draft.index((draft.integer(1, MOST_COLUMNS),), bound, values="ends")
    draft.add(f"{name}[..., -1 - {index}]", [name], Rounding.NONE)


def enlarged(draft: Draft) -> None:
    """The nearest element of an image of an odd size, for each of another odd size."""
    rank = draft.choose((2, 1))
    rows = draft.choose((2, 1, 3))
    shape = (rows, draft.choose((1, 2, 4)), *(draft.integer(1, 19) for _ in range(rank)))
    dtype = draft.choose(("float32", "float64", "bfloat16", "float16"))
    name = draft.input(Input(dtype, shape, values="normal", seed=len(draft.inputs)))
    sizes = [draft.integer(1, 37) for _ in range(rank)]
    text = draft.choose(
        (
            f"F.interpolate({name}, size={tuple(sizes)}, mode='nearest')",
            f"F.interpolate({name}, scale_factor={draft.choose((3, 5, 2, 1.5, 0.6))}, mode='nearest')",
            f"F.interpolate({name}, size={tuple(sizes)}, mode='nearest-exact')",
        )
    )
    draft.add(text, [name], Rounding.NONE)


def _rows(draft: Draft) -> str:
    """A value with short rows, or an input of them."""
    if draft.sometimes():
        return draft.operand(
            lambda tensor: is_real(tensor) and tensor.dim() > 0 and 0 < tensor.shape[-1] <= MOST_COLUMNS
        )
    shape = (*(draft.choose((3, 1, 5, 11)) for _ in range(draft.integer(0, 2))), draft.integer(2, MOST_COLUMNS))
    part = Input(draft.choose(("float32", *DTYPES)), shape, draft.choose(("contiguous", "inside")), "integers")
    values = "normal" if is_float(part.make()) else "integers"
    return draft.input(Input(part.dtype, shape, part.layout, values, seed=len(draft.inputs)))


STATEMENTS = (*(gathered,) * 2, several, backwards, *(enlarged,) * 2)
