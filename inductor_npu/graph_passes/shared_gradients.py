"""A value that a sum over outer axes takes, and other loops, too: stored once where fewer bytes move then.

Inductor computes such a value anew in each loop that takes it. One is the gradient that reaches a batch norm: a loop
adds it up for each channel, a second one needs it together with the sums, and past a residual branch the layer before
takes it, for a gradient with which the same is done. So a layer's loops compute what the layers after it have computed
already, until one loop reads too many tensors for Inductor (`realize_reads_threshold`), and each layer has loops of its
own, which no other layer has.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

import sympy
import torch

from inductor_npu.graph_passes.nodes import before_writes, called, in_place_of, is_on_npu, is_pointwise, is_view
from inductor_npu.graph_passes.stored import stored

_aten = torch.ops.aten

_SUMS = "sums over outer axes"


def apply(graph: torch.fx.Graph) -> int:
    """Stores values of `graph` that sums over outer axes take, where that moves fewer bytes. Returns how many."""
    count = 0
    for node in list(before_writes(graph)):
        if is_pointwise(node) and is_on_npu(node.meta["val"]) and _should_be_stored(node):
            _store(graph, node)
            count += 1
    return count


def _store(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    users = list(node.users)
    with in_place_of(node.next):
        value = called(graph, stored, node)
    for user in users:
        user.replace_input_with(node, value)


def _should_be_stored(node: torch.fx.Node) -> bool:
    """Whether the loops that take `node` would read more bytes to compute it than to store it once and read it."""
    loops = _loops(node)
    if _SUMS not in loops:
        return False
    read = sum(_size_against(each, node.meta["val"]) for each in _read_by(node))
    return len(loops) * read > len(loops) + read


def _loops(node: torch.fx.Node) -> set[Hashable]:
    """The loops that take `node`, each told by what it ends with: all sums over outer axes are one. None where Inductor
    stores `node` in any case, and where it is added up along rows, too: that kernel keeps what it computes.
    """
    loops: set[Hashable] = set()
    waiting = [(user, False) for user in node.users]
    while waiting:
        user, is_computed = waiting.pop()
        if any(map(_is_sum_of_rows, (user, *user.users))):
            return set()
        if user.target is _aten.sum.dim_IntList:
            loops.add(_SUMS)
        elif len(user.users) == 1 and (is_pointwise(user) or is_view(user)):
            waiting.append((next(iter(user.users)), is_computed or is_pointwise(user)))
        elif is_computed or is_pointwise(user):
            loops.add(user)
        else:
            return set()
    return loops


def _is_sum_of_rows(node: torch.fx.Node) -> bool:
    """Whether `node` is a sum over the last axes of its operand."""
    if node.target is not _aten.sum.dim_IntList:
        return False
    rank = node.args[0].meta["val"].ndim
    axes = {axis % rank for axis in node.args[1]} if rank and node.args[1] else set(range(rank))
    return axes == set(range(rank - len(axes), rank))


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
