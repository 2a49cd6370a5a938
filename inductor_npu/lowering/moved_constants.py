"""Tensors without input memory that move to another device: `torch.empty(3).to("npu")`, views of `torch.arange(6)`.

Inductor's `.to(device)` of a value that reads no memory repeats its loops on that device (`DeviceCopy.create`). This is
wrong for two kinds of tensors on every device, at least with torch 2.11 to 2.13:

- An uninitialised tensor consists of loops over no elements, so that no kernel is made for it, in a buffer with the
  tensor's sizes. The loops on the other device gave its shape as (0, 0, 0). Here they know the sizes.
- A view of a tensor in memory counts as reading the inputs of that tensor, not its memory. Without such inputs, a
  kernel of one device read memory of the other. Here a copy of the view moves.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch._inductor import ir, lowering

_DEVICE = "npu"
_aten = torch.ops.aten


@ir.ir_dataclass
class _Uninitialised(ir.Pointwise):
    """Loops over no elements of a buffer with this layout."""

    layout: ir.Layout

    def constant_to_device(self, device: torch.device) -> ir.IRNode:
        if _DEVICE not in (device.type, self.device.type):
            return super().constant_to_device(device)
        layout = self.layout
        return lowering.empty_strided(layout.size, layout.stride, dtype=layout.dtype, device=device).data.data


def register() -> None:
    """Takes the place of Inductor's lowerings of operators that make uninitialised tensors, and that move tensors."""
    _replace(torch.ops.prims.device_put, _moving_copies_of_views(lowering._device_put), type_promotion_kind=None)
    for operator, original in (
        (_aten.empty, lowering.empty),
        (_aten.empty_like, lowering.empty_like),
        (_aten.empty_strided, lowering.empty_strided),
        (_aten.new_empty, lowering.new_empty),
        (_aten.new_empty_strided, lowering.new_empty_strided),
    ):
        _replace(operator, _knowing_its_sizes(original))


def _replace(operator: Any, implementation: Callable[..., Any], **options: Any) -> None:
    overloads = [getattr(operator, name) for name in operator.overloads()]
    lowering.register_lowering([operator, *overloads], **options)(implementation)


def _knowing_its_sizes(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def make(*args: Any, **options: Any) -> Any:
        tensor = original(*args, **options)
        buffer = tensor.data.data
        loops = buffer.data
        buffer.data = _Uninitialised(
            device=loops.device,
            dtype=loops.dtype,
            inner_fn=loops.inner_fn,
            ranges=loops.ranges,
            layout=buffer.layout,
        )
        return tensor

    return make


def _moving_copies_of_views(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def move(x: Any, device: torch.device, non_blocking: bool = False) -> Any:
        is_ours = _DEVICE in (torch.device(device).type, x.get_device().type)
        if is_ours and _is_view_of_memory(x) and not x.get_read_names():
            x = ir.ExternKernel.copy_input(x)
        return original(x, device, non_blocking)

    return move


def _is_view_of_memory(x: ir.TensorBox) -> bool:
    return isinstance(x.data, ir.BaseView) and isinstance(x.data.unwrap_view().data, ir.Buffer)
