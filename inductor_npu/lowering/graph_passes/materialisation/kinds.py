"""What Inductor makes of an operator: loops that it inlines, loops whose result it stores, or a call of a library."""

from __future__ import annotations

import functools
import operator
from enum import Enum, auto
from typing import Any

import torch
from torch._inductor import lowering
from torch.fx import Node

from inductor_npu.lowering.graph_passes.materialisation.stored import stored
from inductor_npu.lowering.graph_passes.nodes import REDUCTIONS, is_pointwise_operator, is_view, is_view_operator

_aten = torch.ops.aten
_REDUCTIONS = (*REDUCTIONS, _aten.var_mean.correction)
_CONSTANTS = (_aten.full.default, torch.ops.prims.iota.default)


class Kind(Enum):
    """What Inductor makes of an operator."""

    VIEW = auto()  # other addresses of its operand
    POINTWISE = auto()  # computed where it is taken
    CONSTANT = auto()  # computed where it is taken, of no tensor
    REDUCTION = auto()  # a loop whose result is stored
    MEMORY = auto()  # an input, one of several results, or what the pass has stored
    LIBRARY = auto()  # an operator that takes what is stored
    OUTPUT = auto()
    SIZE = auto()  # no tensor
    OTHER = auto()  # loops of which the graph does not tell how they read their operands

    @property
    def is_inlined(self) -> bool:
        """Whether its result is computed where it is taken, as far as nothing needs it in memory."""
        return self in (Kind.VIEW, Kind.POINTWISE, Kind.CONSTANT)


def kind_of(node: Node) -> Kind:
    """What Inductor makes of `node`."""
    target = node.target
    if node.op == "output":
        return Kind.OUTPUT
    if not isinstance(node.meta.get("val"), torch.Tensor | tuple | list):
        return Kind.SIZE
    if node.op != "call_function":
        return Kind.MEMORY
    if target is operator.getitem:
        return Kind.VIEW if is_view(node.args[0]) else Kind.MEMORY
    return _kind_of_call(target)


@functools.cache
def _kind_of_call(target: Any) -> Kind:
    if target is stored:
        return Kind.MEMORY
    if target in _CONSTANTS:
        return Kind.CONSTANT
    if is_view_operator(target):
        return Kind.VIEW
    if target in _REDUCTIONS:
        return Kind.REDUCTION
    if _is_call(target):
        return Kind.LIBRARY
    return Kind.POINTWISE if is_pointwise_operator(target) else Kind.OTHER


def _is_call(target: Any) -> bool:
    """Whether Inductor calls a library's operator for `target`, or a template's kernel: products and convolutions."""
    if target not in lowering.lowerings or target in lowering.fallbacks or target in lowering.needs_realized_inputs:
        return True
    return lowering.lowerings[target].__module__.startswith("torch._inductor.kernel.")
