"""Operands of the library's operators that become kernels of ours: where they are, and in which memory."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch._inductor import ir
from torch._inductor.virtualized import V

from inductor_npu import config
from inductor_npu.support.optional_steps import Kind, optional_step

_DEVICE = "npu"


def is_on_npu(node: Any) -> bool:
    """Whether `node` is a tensor on `npu`."""
    return isinstance(node, ir.IRNode) and ir.get_device_type(node) == _DEVICE


def in_memory(node: ir.IRNode, is_good: Callable[[ir.IRNode], bool]) -> ir.IRNode:
    """`node` in memory that holds its own dtype and `is_good`: a contiguous copy, where its own memory is not."""
    stored = ir.ExternKernel.realize_input(node)
    ir.as_storage_and_layout(stored, freeze=True)
    if stored.get_dtype() == V.graph.get_dtype(stored.get_name()) and is_good(stored):
        return stored
    copy = copied(stored)
    assert is_good(copy), f"a kernel that cannot read contiguous memory of {copy.get_size()}"
    return copy


def copied(node: ir.IRNode) -> ir.TensorBox:
    """A contiguous copy of `node`. Inductor would lay it out in the order in which it reads."""
    copy = ir.ExternKernel.copy_input(node)
    ir.as_storage_and_layout(copy, exact_strides=ir.FlexibleLayout.contiguous_strides(copy.get_size()))
    return copy


def base_of(node: ir.IRNode) -> ir.IRNode:
    """The buffer, or the view of one, that the stored `node` is."""
    while isinstance(node, (ir.TensorBox, ir.StorageBox)):
        node = node.data
    return node


def dense_layout(promised: torch.Tensor) -> ir.FixedLayout:
    """The layout that the fake tensor `promised` has, or a contiguous one where its last axis is not."""
    layout = ir.FallbackKernel.tensor_to_layout(promised)
    if layout.size and layout.stride[-1] != 1:
        strides = ir.FlexibleLayout.contiguous_strides(layout.size)
        return ir.FixedLayout(layout.device, layout.dtype, layout.size, strides)
    return layout


def unless_taken(constraint: Callable[..., Any], is_taken: Callable[..., bool]) -> Callable[..., Any]:
    """`constraint`, which stores each operand as the library wants it, where the library is called."""

    @functools.wraps(constraint)
    def constrained(node: torch.fx.Node, *args: Any, **options: Any) -> Any:
        is_template = config.templates != "none" and is_taken(*args, **options)
        return (args, options) if is_template else constraint(node, *args, **options)

    return constrained


def or_else(
    original: Callable[..., Any],
    lower: Callable[..., Any],
    name: str,
    is_taken: Callable[..., bool] = lambda *args, **options: True,
) -> Callable[..., Any]:
    """The lowering `original`, but for tensors on `npu` that `is_taken` takes `lower`, unless that returns None.

    `lower` is the optional step `name`: without templates it is not asked.
    """

    @optional_step(Kind.TEMPLATE, name)
    def as_template(*args: Any, **options: Any) -> Any:
        return lower(*args, **options) if is_taken(*args, **options) else None

    @functools.wraps(original)
    def chosen(*args: Any, **options: Any) -> Any:
        result = None
        if config.templates != "none" and any(map(is_on_npu, args)):
            result = as_template(*args, **options)
        return original(*args, **options) if result is None else result

    return chosen
