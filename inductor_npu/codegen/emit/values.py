"""A value of a kernel, with what is known of it: facts are attributes of the value, as in Inductor's Halide backend."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch._inductor.codegen.common import CSEVariable
from torch._inductor.codegen.triton import TritonCSEVariable
from torch._inductor.virtualized import V

from inductor_npu.codegen.index.bounds import Bounds


@dataclass(eq=False)
class Load:
    """A load of elements of type `dtype` whose masked-lane value is `masked_value`, or still open."""

    dtype: torch.dtype | None = None
    masked_value: float | None = None


@dataclass(frozen=True)
class Result:
    """The result of an operator, in `dtype`, for masked-lane values of its operands; None stands for an unknown one."""

    operator: str
    dtype: torch.dtype | None
    operands: tuple[MaskedValue, ...]


MaskedValue = Load | Result | float | None


class TileValue(TritonCSEVariable):
    """A value whose `shape` names the blocks of the axes along which it varies. Facts that are unknown are None.

    `index`: the integer expression, in the axes' symbols, that it is. `predicate`: the bounds of axes that the
    predicate equals, or, where these are not exact, implies. `masked_value`: what its lanes beyond the end of a row
    hold; `maximum_of`: the value of whose rows it is the maximum.

    `narrow`: the same integer before it was widened to int64; `wide`: the value before it was narrowed to less than 32
    bits. `view_of`: the value that it is a view of, with dimensions of length one added. `truth`: the predicate of
    which an integer is the 0 or 1, or the arguments of a selection between two such integers.

    `in_memory`: the load that it is, in the buffer's dtype, and its axes in the order of memory.

    `literal`: the text of a constant that Triton takes for the same number in the same dtype, beside a value of that
    dtype.

    `limited_to`: the mask outside of which a load has its masked-lane value. `selected`: what it is where bounds hold;
    elsewhere it is a constant. `operator`, `operands`: what made a predicate that may be a part of an argmax.
    """

    index: sympy.Expr | None = None
    predicate: Bounds | None = None
    masked_value: MaskedValue = None
    maximum_of: CSEVariable | None = None
    narrow: CSEVariable | None = None
    wide: CSEVariable | None = None
    view_of: TileValue | None = None
    in_memory: tuple[TileValue, tuple[str, ...]] | None = None
    truth: CSEVariable | tuple[Any, Any, Any] | None = None
    literal: str | None = None
    limited_to: CSEVariable | None = None
    selected: tuple[Bounds, CSEVariable] | None = None
    operator: str | None = None
    operands: tuple[Any, ...] = ()


def fact(value: Any, name: str) -> Any:
    """The fact `name` of an operand; None for a Python number, which carries none."""
    return getattr(value, name, None)


def copy_of(variable: CSEVariable, text: str, shape: tuple[str, ...]) -> TileValue:
    """A name for another view of `variable`'s value, with this `text` and `shape`."""
    view = V.kernel.create_cse_var(text, variable.bounds, variable.dtype or torch.float32, shape)
    view.mask_vars = getattr(variable, "mask_vars", view.mask_vars)
    return view
