"""Run-time support for kernels of grouped products that are written as eager operators (codegen/grouped)."""

from __future__ import annotations

import torch


def multiply(left: torch.Tensor, right: torch.Tensor, offsets: torch.Tensor, result: torch.Tensor, along: str) -> None:
    """Stores the product of each group in `result`, summed in float32. Groups lie along the `along` of all: "rows" of
    left [M, K], "columns" of right [K, N], or "inner" of both; what has not this axis has a first one for the groups.
    """
    low = 0
    for group, high in enumerate(offsets.tolist()):
        part = slice(low, high)
        if along == "rows":
            operands, stored = (left[part], right[group]), result[part]
        elif along == "columns":
            operands, stored = (left[group], right[:, part]), result[:, part]
        else:
            operands, stored = (left[:, part], right[part]), result[group]
        stored.copy_(operands[0].float() @ operands[1].float())
        low = high
