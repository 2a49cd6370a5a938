"""An operator that stores its operand: what a pass puts where loops should read a value rather than compute it again,
and when that moves fewer bytes.

Inductor decides for itself which values are stored, one by one as it makes loops, and has no operator to tell it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import sympy
import torch
from torch._inductor import ir, lowering
from torch._inductor.virtualized import V

from inductor_npu.lowering.graph_passes.nodes import (
    before_writes,
    called,
    in_place_of,
    is_on_npu,
    is_pointwise,
    is_view,
)

_aten = torch.ops.aten

_LIBRARY = torch.library.Library("inductor_npu", "DEF")
_LIBRARY.define("stored(Tensor value) -> Tensor", tags=torch.Tag.pt2_compliant_tag)
_LIBRARY.impl("stored", torch.clone, "CompositeExplicitAutograd")

stored = torch.ops.inductor_npu.stored.default


def register() -> None:
    """Teaches Inductor to lower `stored`."""
    lowering.register_lowering(stored, type_promotion_kind=None)(_lower)


def _lower(value: Any) -> Any:
    value.realize()
    # As for values that Inductor stores of itself (GraphLowering.run_node).
    if V.graph.current_node in V.graph.nodes_prefer_channels_last:
        return ir.ExternKernel.require_channels_last(value)
    return value


def store_those(graph: torch.fx.Graph, should_be_stored: Callable[[torch.fx.Node], bool]) -> int:
    """Has those values of `graph` stored that are computed element by element on `npu`, before anything is changed in
    place, and of which `should_be_stored` says so, in their order. Returns how many.
    """
    count = 0
    for node in list(before_writes(graph)):
        if is_pointwise(node) and is_on_npu(node.meta["val"]) and should_be_stored(node):
            _store(graph, node)
            count += 1
    return count


def _store(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    users = list(node.users)
    with in_place_of(node.next):
        value = called(graph, stored, node)
    for user in users:
        user.replace_input_with(node, value)


def moves_fewer_bytes(node: torch.fx.Node, loops: int) -> bool:
    """Whether so many loops that take `node` would read more bytes to compute it than to store it once and read it."""
    read = sum(_size_against(each, node.meta["val"]) for each in _read_by(node))
    return loops * read > loops + read


def _read_by(node: torch.fx.Node) -> Iterator[torch.Tensor]:
    """The tensors that a loop which computes `node` reads, each once."""
    seen: set[torch.fx.Node] = set()
    waiting = [node]
    while waiting:
        for operand in waiting.pop().all_input_nodes:
            if operand in seen:
                continue
            seen.add(operand)
            if is_pointwise(operand) or is_view(operand):
                waiting.append(operand)
            elif operand.target is not _aten.full.default and isinstance(operand.meta["val"], torch.Tensor):
                yield operand.meta["val"]


def _size_against(read: torch.Tensor, computed: torch.Tensor) -> float:
    """How many bytes of `read` a loop over `computed` reads, as a multiple of the bytes of `computed`; 0 for tensors
    with fewer axes of a size that varies, which are small beside it, and where there are no elements.
    """
    elements = sympy.sympify(read.numel()) / sympy.sympify(computed.numel())
    if not (elements.is_number and elements.is_finite):
        return 0.0
    return min(float(elements), 1.0) * read.itemsize / computed.itemsize
