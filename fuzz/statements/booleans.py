"""Sums and products of booleans, few and many: what Inductor unrolls, and what it makes a loop of."""

from __future__ import annotations

from fuzz.case import DTYPES, Input, is_float
from fuzz.draft import Draft, Rounding, is_real

FEW = (2, 1, 3, 4, 5, 7, 8)


def reduced(draft: Draft) -> None:
    """To truth values along some axes, whatever is added up: an addition of them is an `or`."""
    name = _operand(draft)
    kind = draft.choose(("sum", "sum", "prod"))
    axis = draft.axis(name)
    keep = ", keepdim=True" if draft.sometimes() else ""
    if kind == "sum" and draft.sometimes():
        axes = tuple(range(draft.integer(0, draft.of(name).dim() - 1) + 1))
        draft.add(f"{name}.sum({axes}{keep}, dtype=torch.bool)", [name], Rounding.NONE)
    elif draft.sometimes():
        draft.add(f"{name}.{kind}(dtype=torch.bool)", [name], Rounding.NONE)
    else:
        draft.add(f"{name}.{kind}({axis}{keep}, dtype=torch.bool)", [name], Rounding.NONE)


def running(draft: Draft) -> None:
    """Sums and products up to each element: of truth values, and to them, which other devices than the CPU have."""
    name = _operand(draft)
    kind, axis = draft.choose(("cumsum", "cumprod")), draft.axis(name)
    if draft.sometimes():
        text = f"wider(torch.{kind}, {name}.detach(), {axis}, dtype=torch.bool, within=int64)"  # no gradient anywhere
    else:
        text = f"({name} > 0).{kind}({axis})"
    draft.add(text, [name], Rounding.NONE)


def counted(draft: Draft) -> None:
    """How many are true, in a dtype of choice, of a condition that is computed on the way."""
    name = _operand(draft)
    condition = draft.choose(("({} > 0)", "({} == 1)", "({} != {}.flip(0))", "({} <= 0).logical_not()"))
    dtype = draft.choose(("int64", "int8", "int32", "float32", "float16"))
    kind = draft.choose(("sum", "prod", "sum"))
    text = f"{condition.replace('{}', name)}.{kind}({draft.axis(name)}, dtype={dtype})"
    draft.add(text, [name], Rounding.NONE)


def asked(draft: Draft) -> None:
    """Whether any or all of a condition hold, along one axis or everywhere, and the largest of truth values."""
    name = _operand(draft)
    kind = draft.choose(("any", "all", "amax", "amin"))
    axis = str(draft.axis(name)) if draft.sometimes() else ""
    draft.add(f"({name} {draft.choose(('>', '<=', '!='))} 0).{kind}({axis})", [name], Rounding.NONE)


def _operand(draft: Draft) -> str:
    """An exact value, or an input made for it that has few rows or few columns."""
    if draft.sometimes():
        return draft.operand(lambda tensor: is_real(tensor) and tensor.dim() > 0, exact=True)
    shape = [draft.choose((3, 1, 2, 17, 33)) for _ in range(draft.integer(0, 2))]
    shape.insert(draft.integer(0, len(shape)), draft.choose(FEW))
    dtype = draft.choose(("bool", "bool", *DTYPES))
    part = Input(dtype, tuple(shape), draft.choose(("contiguous", "transposed")), seed=len(draft.inputs))
    special = is_float(part.make()) and not draft.gradients and draft.sometimes()
    return draft.input(Input(dtype, part.shape, part.layout, "special", seed=part.seed) if special else part)


STATEMENTS = (*(reduced,) * 2, *(running,) * 2, counted, asked)
