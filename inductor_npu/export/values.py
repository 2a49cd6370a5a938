"""Constants of compiled graphs as JSON; the runtime reads them in package_runtime/csrc/package/operand.cpp."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import sympy
import torch

from inductor_npu.errors import UnpackableError

DEVICE = "npu"


def type_name(dtype: torch.dtype) -> str:
    """A type's name without "torch."."""
    return str(dtype).removeprefix("torch.")


def device_name(device: torch.device | str) -> str:
    """ "npu", which is the device that a package is loaded onto, or "cpu". Raises UnpackableError for others, as a
    package is for one device.
    """
    kind = torch.device(device).type
    if kind not in (DEVICE, "cpu"):
        raise UnpackableError(reason=f"it uses device {device}, and a package is for npu", where="")
    return kind


def encode(value: Any, of_symbolic: Callable[[Any], Any]) -> Any:
    """`value`, an argument of a node, as JSON; `of_symbolic` gives that of another node, or of an expression of sizes
    (sympy.Expr). Raises UnpackableError.
    """
    if isinstance(value, (torch.fx.Node, sympy.Expr)):
        return of_symbolic(value)
    if isinstance(value, torch.SymInt):
        return of_symbolic(value.node.expr)
    if isinstance(value, (list, tuple)):
        return [encode(element, of_symbolic) for element in value]
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"real": str(value)}
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    if isinstance(value, torch.dtype):
        return {"dtype": type_name(value)}
    if isinstance(value, torch.device):
        return {"device": device_name(value)}
    if isinstance(value, torch.layout):
        return {"layout": str(value).removeprefix("torch.")}
    if isinstance(value, torch.memory_format):
        return {"memory_format": str(value).removeprefix("torch.")}
    raise UnpackableError(reason=f"an operator gets a {type(value).__name__}, {value!r:.80}", where="")
