"""The number of parts in which rows are reduced on `npu`.

The results of a row's parts are contiguous in memory, row by row, and an NPU moves rows of less than a block of 32
bytes one by one. Inductor takes choices from an object that backends may exchange (`V.set_choices_handler`): one for
all devices, which others may have exchanged, too. The object here corrects a single answer of the one before it, for
`npu` only.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._inductor.virtualized import V

from inductor_npu.providers import current_target

_DEVICE = "npu"


class _ChoicesInBlocks:
    """Answers as `others` do, except that rows on `npu` are reduced in a number of parts that fills blocks."""

    def __init__(self, others: Any) -> None:
        self._others = others

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "_others"), name)

    def reduction_split_factor(
        self, device: torch.device, reduction_numel_hint: int, numel_hint: int, inner_reduction: bool
    ) -> int:
        """Returns in how many parts each of `numel_hint` rows of `reduction_numel_hint` elements is reduced."""
        parts = self._others.reduction_split_factor(
            device, reduction_numel_hint, numel_hint, inner_reduction=inner_reduction
        )
        if device.type != _DEVICE or not inner_reduction or numel_hint == 1 or parts == 1:
            return parts
        in_a_block = current_target().shortest_row  # numbers of 4 bytes
        return -(-parts // in_a_block) * in_a_block


def reduce_in_blocks() -> None:
    """Has this thread's choices corrected, including a user's. Call it before the loops of a graph are made; further
    calls do nothing.
    """
    if not isinstance(V.choices, _ChoicesInBlocks):
        V.set_choices_handler(_ChoicesInBlocks(V.choices))
