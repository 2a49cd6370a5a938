"""What strangers' models have: windows as Swin's, products that share an operand, values swapped through a copy."""

from __future__ import annotations

import torch

from fuzz.case import FLOATS, Input, is_float
from fuzz.draft import Draft, NothingFits, Rounding, is_real


def windowed(draft: Draft) -> None:
    """Rows and columns rolled, cut into windows, attention inside of each with a bias by a table, and back."""
    window, channels = draft.choose((2, 4, 7)), draft.choose((3, 8, 16))
    height, width = (window * draft.integer(1, 3) for _ in range(2))
    shape = (draft.integer(1, 2), height, width, channels)
    x = draft.input(Input(draft.choose(("float32", *FLOATS)), shape, values="normal", seed=len(draft.inputs)))
    shift = draft.integer(0, window - 1)
    split = f"{x}.shape[0], {height // window}, {window}, {width // window}, {window}, {x}.shape[3]"
    rolled = f"torch.roll({x}, ({-shift}, {-shift}), (1, 2))" if shift else x
    windows = f"{rolled}.view({split}).permute(0, 1, 3, 2, 4, 5).reshape(-1, {window**2}, {x}.shape[3])"
    if not (part := _added(draft, windows, [x], Rounding.NONE)):
        return
    if draft.sometimes():
        table = draft.input(Input("float32", (window**2,), values="normal", seed=len(draft.inputs)))
        index = draft.index((window**2, window**2), window**2)
        scores = f"({part} @ {part}.transpose(1, 2)) * 0.25 + {table}[{index}]"
        attended = f"torch.softmax({scores}, -1) @ {part}.to({table}.dtype)"
        part = _added(draft, attended, [part, table], Rounding.ALWAYS) or part
    back = f"{x}.shape[0], {height // window}, {width // window}, {window}, {window}, {x}.shape[3]"
    whole = f"{part}.view({back}).permute(0, 1, 3, 2, 4, 5).reshape({x}.shape)"
    draft.add(f"torch.roll({whole}, ({shift}, {shift}), (1, 2))", [part], Rounding.NONE)


def products(draft: Draft) -> None:
    """Parts of a value, each times the same matrix; what becomes of each product is small, or all of it is kept."""
    try:
        name = draft.operand(lambda tensor: is_float(tensor) and tensor.dim() == 2 and min(tensor.shape) > 1)
    except NothingFits:
        shape = draft.integer(2, 40), draft.choose((3, 16, 33))
        name = draft.input(Input(draft.choose(FLOATS), shape, values="normal", seed=len(draft.inputs)))
    rows, inner = draft.of(name).shape
    dtype = str(draft.of(name).dtype).removeprefix("torch.")
    columns = draft.choose((3, 16, 33, 64))
    matrix = draft.input(Input(dtype, (inner, columns), values="normal", seed=len(draft.inputs)))
    parts = f"for part in torch.chunk({name}, {draft.integer(2, min(8, rows))})"
    form = draft.choose(("torch.cat([{} {}])", "sum(({}).sum() {})", "torch.cat([torch.relu({}).amax(1) {}])"))
    if draft.gradients and "amax" in form:
        form = "torch.cat([torch.tanh({}) {}])"  # without a kink
    draft.add(form.format(f"part @ {matrix}", parts), [name, matrix], Rounding.ALWAYS)


def swapped(draft: Draft) -> None:
    """Two values exchange their elements by way of a copy of one of them."""
    name = draft.operand(lambda tensor: tensor.numel() > 0 and is_real(tensor))
    one = draft.of(name)

    def fits(tensor: torch.Tensor) -> bool:
        is_apart = tensor.untyped_storage().data_ptr() != one.untyped_storage().data_ptr()
        return is_apart and tensor.shape == one.shape and tensor.dtype == one.dtype

    try:
        other = draft.operand(fits)
    except NothingFits:
        dtype = str(one.dtype).removeprefix("torch.")
        other = draft.input(Input(dtype, tuple(one.shape), seed=len(draft.inputs)))
    if not (copy := _added(draft, f"{name}.clone()", [name], Rounding.NONE)):
        return
    draft.change(f"{name}.copy_({other})", name, [other], Rounding.NONE)
    draft.change(f"{other}.copy_({copy})", other, [copy], Rounding.NONE)


def _added(draft: Draft, expression: str, operands: list[str], rounding: Rounding) -> str:
    """The name of the value of `expression`; "" if it was left out."""
    before = len(draft.body)
    draft.add(expression, operands, rounding)
    return draft.body[-1].split(" = ")[0] if len(draft.body) > before else ""


STATEMENTS = (*(windowed,) * 2, *(products,) * 2, *(swapped,) * 2)
