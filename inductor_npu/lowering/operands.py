"""Operands of the library's operators that become kernels of ours: where they are, and in which memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._inductor import ir
from torch._inductor.virtualized import V

_DEVICE = "npu"


def is_on_npu(node: Any) -> bool:
    """Whether `node` is a tensor on `npu`."""
    return isinstance(node, ir.IRNode) and ir.get_device_type(node) == _DEVICE


def in_memory(node: ir.IRNode, is_good: Callable[[ir.IRNode], bool]) -> ir.IRNode:
    """`node` in memory that holds its own dtype and `is_good`, which is a copy where its own memory is not."""
    stored = ir.ExternKernel.realize_input(node)
    ir.as_storage_and_layout(stored, freeze=True)
    if stored.get_dtype() == V.graph.get_dtype(stored.get_name()) and is_good(stored):
        return stored
    copied = ir.ExternKernel.copy_input(stored)
    ir.as_storage_and_layout(copied, freeze=True)
    return copied
