"""Zeros of either sign through functions that keep it or not: a sign bit says so, or a quotient by zero."""

from __future__ import annotations

from fuzz.case import FLOATS, Input, is_float
from fuzz.draft import Draft, NothingFits, Rounding

# Zeros of both signs, of the numbers near them and of those that are none.
SOURCES = ("torch.trunc({} * 0.25)", "{} * -0.0", "torch.copysign({} * 0.0, {})", "-{}", "{}")
# What all of them give for a zero says the standard, or PyTorch's operators by any of their paths. Of maximum, minimum
# and sums of zeros neither does.
FUNCTIONS = (
    "torch.relu({})",
    "torch.clamp({}, min=0)",
    "torch.clamp({}, 0, 2)",
    "torch.clamp({}, max=0)",
    "F.relu6({})",
    "F.hardtanh({}, 0, 3)",
    "F.leaky_relu({}, 0.5)",
    "{}.abs()",
    "-{}",
    "{} / 3",
    "torch.ceil({} * 0.5)",
    "torch.round({} * 0.25)",
    "torch.log1p({}.clamp(-0.5, 4))",
    "torch.expm1({})",
    "torch.tanh({})",
    "torch.sin({}.clamp(-1, 1))",
    "torch.asinh({})",
    "torch.atan({})",
    "torch.erf({})",
    "torch.sqrt({}.clamp(min=0))",
    "torch.where({} < 1, {}, -{})",
    "F.silu({})",
)


def signs(draft: Draft) -> None:
    """The sign of each element of a function of zeros; of NaN, whose sign says nothing, that of 0."""
    try:
        name = draft.operand(is_float, exact=True)
    except NothingFits:
        name = draft.input(Input(draft.choose(FLOATS), draft.shape(), seed=len(draft.inputs)))
    text = draft.choose(FUNCTIONS).replace("{}", "(" + draft.choose(SOURCES).replace("{}", f"{name}.detach()") + ")")
    if draft.sometimes():
        draft.add(f"torch.signbit(torch.nan_to_num({text}))", [name], Rounding.NONE)
    else:  # infinities of either sign
        draft.add(f"torch.sign(torch.reciprocal(torch.nan_to_num({text})))", [name], Rounding.NONE)


STATEMENTS = (*(signs,) * 2,)
