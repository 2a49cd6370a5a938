"""Copies of complex tensors, by the eager operator: Triton has no complex numbers.

Inductor leaves operators on complex tensors to eager, by the operator that a graph's node names. Its own rewriting of
`diagonal_scatter` and `as_strided_scatter` adds copies whose nodes name no overload, which it overlooks.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._inductor import lowering

_DEVICE = "npu"


def register() -> None:
    """Takes the place of Inductor's lowering of `aten.clone`, for complex tensors on `npu` only."""
    original = lowering.clone
    in_eager = lowering.fallback_handler(torch.ops.aten.clone.default, add_to_fallback_set=False)

    def clone(x: Any, *, memory_format: torch.memory_format | None = None) -> Any:
        if x.get_dtype().is_complex and x.get_device().type == _DEVICE:
            return in_eager(x, memory_format=memory_format)
        return original(x, memory_format=memory_format)

    lowering.register_lowering(torch.ops.aten.clone)(clone)
