"""Search boundaries in their own memory, for versions of torch whose lowering overlooks where a slice begins.

`torch.bucketize` and `torch.searchsorted` look up their boundaries by name. In torch 2.11 a slice has the name of the
tensor that contains it, so that the search starts at that tensor's first element; a view of a computed tensor is an
error (https://github.com/pytorch/pytorch/issues/182343).
"""

from __future__ import annotations

from typing import Any

import torch
from torch._inductor import ir, lowering

_DEVICE = "npu"


def register() -> None:
    """Has views of boundaries copied before a search, for a torch that does not see to it."""
    if hasattr(lowering, "_realize_bucketize_lookup_tensor"):
        return
    lowering.add_layout_constraint(torch.ops.aten.bucketize.Tensor, _copy_boundaries_of_bucketize)
    lowering.add_layout_constraint(torch.ops.aten.searchsorted.Tensor, _copy_boundaries_of_searchsorted)


def _copy_boundaries_of_bucketize(_: torch.fx.Node, values: Any, boundaries: Any, **options: Any) -> tuple[Any, Any]:
    return (values, _in_own_memory(boundaries)), options


def _copy_boundaries_of_searchsorted(_: torch.fx.Node, boundaries: Any, values: Any, **options: Any) -> tuple[Any, Any]:
    if options.get("sorter") is not None:
        options["sorter"] = _in_own_memory(options["sorter"])
    return (_in_own_memory(boundaries), values), options


def _in_own_memory(tensor: ir.TensorBox) -> ir.TensorBox:
    """`tensor`, or a copy of it if it is a view that does not begin at the first element of a tensor in memory."""
    view = tensor.data
    begins_there = isinstance(view, ir.ReinterpretView) and view.get_layout().offset == 0
    if tensor.get_device().type != _DEVICE or not isinstance(view, ir.BaseView) or begins_there:
        return tensor
    return lowering.clone(tensor)
