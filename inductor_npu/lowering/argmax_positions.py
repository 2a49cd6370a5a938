"""Positions of `argmax` and `argmin` in the order of the tensor instead of memory.

Inductor orders the loops of a reduction by memory, including those of argmax and argmin, whose result is a position in
loop order. Before torch 2.15, `(x.t() + 1).argmax()` is therefore wrong on other devices. From 2.15 on, Inductor counts
positions independently of loops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._inductor import ir, lowering

from inductor_npu.support import upstream

_DEVICE = "npu"


class _InOrderOfPositions(ir.ComputedBuffer):
    """A buffer of positions: the loops that it reduces stay as they are."""

    @staticmethod
    def _apply_loop_reordering(
        index_vars: Sequence[Any], support_vars: Sequence[Any], sizes: Sequence[Any], *more: Any, **named: Any
    ) -> Any:
        outer = len(support_vars) - len(index_vars)
        if list(index_vars) != list(support_vars[outer:]):  # the loops over results, which stand before those reduced
            return ir.ComputedBuffer._apply_loop_reordering(index_vars, support_vars, sizes, *more, **named)
        order = range(len(sizes))
        return list(sizes), ir.same_reorder(order), ir.inverse_reorder(order)


def register() -> None:
    """Takes the place of Inductor's lowerings of argmax and argmin, for a torch that does not see to it."""
    if not upstream.positions_follow_the_order_of_loops():
        return
    for operator in (torch.ops.aten.argmax, torch.ops.aten.argmin):
        original = lowering.lowerings[operator.default]
        lowering.register_lowering([operator, operator.default], type_promotion_kind=None)(_in_order(original))


def _in_order(original: Callable[..., Any]) -> Callable[..., Any]:
    def lower(x: ir.TensorBox, *args: Any, **options: Any) -> Any:
        result = original(x, *args, **options)
        buffer = result.data.data
        if x.get_device().type == _DEVICE and isinstance(buffer, ir.ComputedBuffer):  # else it has no loops
            buffer.__class__ = _InOrderOfPositions
        return result

    return lower
