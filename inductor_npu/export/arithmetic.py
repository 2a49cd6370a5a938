"""Functions of numbers in compiled graphs, and what the runtime calls them.

Numbers are functions of the sizes of a package's inputs: sizes of results, grids of launches. The runtime has the
functions in package_runtime/csrc/package/arithmetic.cpp.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import torch

_FUNCTIONS: dict[Callable[..., Any], str] = {
    operator.add: "add",
    operator.sub: "sub",
    operator.mul: "mul",
    operator.floordiv: "floordiv",
    operator.mod: "mod",
    operator.pow: "pow",
    operator.truediv: "truediv",
    operator.eq: "eq",
    operator.ne: "ne",
    operator.lt: "lt",
    operator.le: "le",
    operator.gt: "gt",
    operator.ge: "ge",
    operator.and_: "and",
    operator.or_: "or",
    operator.neg: "neg",
    operator.abs: "abs",
    min: "min",
    max: "max",
    math.floor: "floor",
    math.ceil: "ceil",
    math.trunc: "trunc",
    math.sqrt: "sqrt",
    torch.sym_min: "min",
    torch.sym_max: "max",
    torch.sym_float: "float",
    torch.sym_int: "trunc",
    torch.sym_not: "not",
    torch.ops.aten.sym_size.int: "size",
    torch.ops.aten.sym_stride.int: "stride",
    torch.ops.aten.sym_storage_offset.default: "storage_offset",
}


def function_name(target: Any) -> str | None:
    """The runtime's name of the function that a node of a graph calls; None if it has none."""
    return _FUNCTIONS.get(target) if callable(target) else None
