"""In how many parts rows are reduced on `npu`.

What the parts of a row come to lies side by side in memory, row by row, and an NPU moves it one by one in rows of less
than a block of 32 bytes. Inductor takes choices from an object that backends may exchange
(`V.set_choices_handler`), one for all devices and for whoever else has exchanged it: here is one that corrects a single
answer of the object before it, for `npu` only.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._inductor.virtualized import V

_DEVICE = "npu"
# Numbers of 4 bytes in a block, the least that an NPU moves at a time.
_PARTS_IN_A_BLOCK = 8


class _ChoicesInBlocks:
    """Answers as `others` do, but has rows on `npu` reduced in parts that fill blocks."""

    def __init__(self, others: Any) -> None:
        self._others = others

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "_others"), name)

    def reduction_split_factor(
        self, device: torch.device, reduction_numel_hint: int, numel_hint: int, inner_reduction: bool
    ) -> int:
        """In how many parts each of `numel_hint` rows of `reduction_numel_hint` elements is reduced."""
        parts = self._others.reduction_split_factor(
            device, reduction_numel_hint, numel_hint, inner_reduction=inner_reduction
        )
        if device.type != _DEVICE or not inner_reduction or numel_hint == 1 or parts == 1:
            return parts
        return -(-parts // _PARTS_IN_A_BLOCK) * _PARTS_IN_A_BLOCK


def reduce_in_blocks() -> None:
    """Has this thread's choices corrected, those of a user included; again is nothing. To be called before the loops of
    a graph are made.
    """
    if not isinstance(V.choices, _ChoicesInBlocks):
        V.set_choices_handler(_ChoicesInBlocks(V.choices))
