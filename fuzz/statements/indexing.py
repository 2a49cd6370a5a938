"""Elements at positions that are data: read, replaced, added to."""

from __future__ import annotations

import math

from fuzz.draft import Draft, NothingFits, Rounding, a_new_input


def selected(draft: Draft) -> None:
    """Rows of an axis, by an index of any shape."""
    name = draft.operand(lambda tensor: tensor.dim() > 0)
    shape = draft.of(name).shape
    kind = draft.choose(("select", "brackets", "last", "embedding"))
    if kind == "select":
        axis = draft.axis(name)
        index = draft.index((draft.choose((1, 3, 8, 17)),), shape[axis])
        draft.add(f"torch.index_select({name}, {axis}, {index})", [name], Rounding.NONE)
    elif kind == "embedding" and len(shape) == 2:
        index = draft.index(draft.shape(1, 2), shape[0])
        draft.add(f"F.embedding({index}, {name})", [name], Rounding.NONE)
    else:
        index = draft.index(draft.shape(0, 2), shape[-1] if kind == "last" else shape[0], _index_dtype(draft))
        place = f"..., {index}" if kind == "last" else index
        draft.add(f"{name}[{place}]", [name], Rounding.NONE)


def gathered(draft: Draft) -> None:
    """An element for each position of an index of the same rank."""
    name = draft.operand(lambda tensor: tensor.dim() > 0)
    shape = list(draft.of(name).shape)
    axis = draft.integer(0, len(shape) - 1)
    bound = shape[axis]
    shape[axis] = draft.choose((1, 2, 5, 16))
    index = draft.index(tuple(shape), bound)
    draft.add(f"torch.gather({name}, {axis}, {index})", [name], Rounding.NONE)


def pairs(draft: Draft) -> None:
    """By two indices that broadcast."""
    name = draft.operand(lambda tensor: tensor.dim() >= 2)
    shape = draft.of(name).shape
    size = draft.choose((1, 3, 8))
    one, other = draft.index((size, 1), shape[0]), draft.index((draft.choose((1, 4, 5)),), shape[1])
    draft.add(f"{name}[{one}, {other}]", [name], Rounding.NONE)


def scattered(draft: Draft) -> None:
    """Elements of one value into another, which is copied."""
    name = draft.operand(lambda tensor: tensor.dim() > 0)
    shape = list(draft.of(name).shape)
    axis = draft.integer(0, len(shape) - 1)
    if math.prod(shape) == 0:
        raise NothingFits
    bound = shape[axis]
    shape[axis] = draft.choose((1, 2, 5))
    kind = draft.choose(("scatter_add", "index_add", "index_put", "amax", "sum", "fill"))
    dtype = draft.of(name).dtype
    if kind == "fill":
        index = draft.index((shape[axis],), bound)
        draft.add(f"torch.index_fill({name}, {axis}, {index}, 1)", [name], Rounding.NONE)
        return
    source = draft.operand(lambda tensor: list(tensor.shape) == shape and tensor.dtype == dtype)
    operands = [name, source]
    if kind == "index_add":
        index = draft.index((shape[axis],), bound)
        draft.add(f"torch.index_add({name}, {axis}, {index}, {source})", operands, Rounding.SUMS)
    elif kind == "index_put" and axis == 0:
        index = draft.index((shape[0],), bound)
        draft.add(f"{name}.index_put(({index},), {source}, accumulate=True)", operands, Rounding.SUMS)
    elif kind == "amax":
        if not all(draft.is_exact(operand) for operand in operands):
            raise NothingFits
        index = draft.index(tuple(shape), bound)
        text = f"torch.scatter_reduce({name}, {axis}, {index}, {source}, 'amax', include_self={draft.sometimes()})"
        draft.add(text, operands, Rounding.NONE)
    else:
        index = draft.index(tuple(shape), bound)
        draft.add(f"torch.scatter_add({name}, {axis}, {index}, {source})", operands, Rounding.SUMS)


def masked(draft: Draft) -> None:
    """One number where a condition holds."""
    name = draft.operand()
    shape = draft.of(name).shape
    condition = draft.operand(lambda tensor: str(tensor.dtype) == "torch.bool" and tensor.shape == shape)
    draft.add(f"{name}.masked_fill({condition}, {draft.integer(-1, 1)})", [name, condition], Rounding.NONE)


def one_hot(draft: Draft) -> None:
    """A one in each row."""
    index = draft.index(draft.shape(1, 2), 7)
    draft.add(f"F.one_hot({index}, 7)", [index], Rounding.NONE)


def fresh(draft: Draft) -> None:
    """An input of a shape of its own."""
    a_new_input(draft)


def _index_dtype(draft: Draft) -> str:
    return draft.choose(("int64", "int32", "int64"))


STATEMENTS = (*(selected,) * 2, gathered, pairs, *(scattered,) * 2, masked, one_hot, fresh)
