"""Products of the library whose matrices have rows that its quick kernels do not take, padded with zeros to some that
they take.

A chip's library can want rows to begin at multiples of some bytes (`NpuTarget.product_alignment`), as NVIDIA's does for
its matrix units: a vocabulary of 50257 words costs a multiple of one of 50264. Zeros at the end of an axis change no
element of the product, whose own zeros are cut off again, as a view. Where a kernel computes the matrix, it writes the
zeros as well. Inductor pads for device type `cuda` only, by measuring (torch/_inductor/fx_passes/pad_mm.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from inductor_npu import providers
from inductor_npu.lowering.graph_passes.nodes import (
    before_writes,
    called,
    in_place_of,
    is_backward,
    is_on_npu,
    returned_nodes,
)
from inductor_npu.tiling import cube

_aten = torch.ops.aten
_PRODUCTS = (_aten.mm.default, _aten.addmm.default, _aten.bmm.default)
_HALF = (torch.float16, torch.bfloat16)  # what matrix units multiply by default

# What a product computes, in floating-point operations, for each byte that padding reads or writes: of less, copies
# take longer than they save. A chip's matrix units do about 200 while its memory moves a byte (H100, H200).
_LEAST_WORK = 256
# A product's axes, and the last two of each operand and of the result.
_ROWS, _INNER, _COLUMNS = range(3)
_LEFT, _RIGHT, _RESULT = (_ROWS, _INNER), (_INNER, _COLUMNS), (_ROWS, _COLUMNS)


def apply(graph: torch.fx.Graph) -> int:
    """Pads the products of `graph` for which it pays; returns how many."""
    alignment = providers.current_target().product_alignment
    if not alignment:
        return 0
    returned = returned_nodes(graph)
    # A result by itself may have rows that lie apart, as PyTorch's own padding gives them on CUDA: a copy costs a tenth
    # of a language model. Of results that share memory AOTAutograd makes one from the other by the strides of eager;
    # gradients have the strides of what they are added to.
    most_with_gaps = 0 if is_backward(graph) else 1
    padded = 0
    known: dict[tuple[torch.fx.Node, tuple[int, ...]], torch.fx.Node] = {}
    for node in list(before_writes(graph)):
        if not _is_candidate(node):
            continue
        product = _Product(node, alignment, is_dense=returned[node] > most_with_gaps)
        if any(product.growth) and product.pays():
            product.pad(graph, known)
            padded += 1
    return padded


def _is_candidate(node: torch.fx.Node) -> bool:
    """Whether `node` is a product of the library on `npu`, of matrices of known sizes."""
    if node.target not in _PRODUCTS or node.kwargs:
        return False
    values = [operand.meta.get("val") for operand in node.args]
    if not all(map(is_on_npu, values)):
        return False
    *_, left, right = values
    known = all(isinstance(number, int) for value in values for number in (*value.shape, *value.stride()))
    same = all(value.dtype == left.dtype for value in values) and left.dtype in _HALF
    is_library = cube.why_library((left.dtype, right.dtype), providers.current_target()) is not None
    return known and same and is_library and left.numel() > 0 and right.numel() > 0


class _Product:
    """One product, and by how much its rows, inner elements and columns grow."""

    def __init__(self, node: torch.fx.Node, alignment: int, is_dense: bool) -> None:
        self._node = node
        *self._biases, left, right = node.args
        self._operands = ((left, _LEFT), (right, _RIGHT))
        *self._batch, rows, inner = left.meta["val"].shape
        self._sizes = rows, inner, right.meta["val"].shape[-1]
        multiple = alignment // left.meta["val"].dtype.itemsize
        grown = {_COLUMNS}  # the result is contiguous
        for operand, axes in self._operands:
            if (axis := _axis_between(operand.meta["val"], multiple)) is not None:
                grown.add(axes[axis])
        self.growth = [-size % multiple if axis in grown else 0 for axis, size in enumerate(self._sizes)]
        # A result that has to be dense is a copy where something is cut from between its elements.
        self._is_copied = is_dense and bool(self.growth[_COLUMNS] or (self._batch and self.growth[_ROWS]))

    def pays(self) -> bool:
        """Whether it is much work beside the copies of its operands, and of a result that the user gets."""
        copied = [operand for operand, growths in self._grown_operands() if any(growths)]
        if self._is_copied:
            copied.append(self._node)
        moved = sum(2 * value.numel() * value.element_size() for value in (node.meta["val"] for node in copied))
        return 2 * math.prod([*self._batch, *self._sizes]) >= _LEAST_WORK * moved

    def pad(self, graph: torch.fx.Graph, known: dict[tuple[torch.fx.Node, tuple[int, ...]], torch.fx.Node]) -> None:
        """Puts a product of padded operands in its place. `known` has what is padded already, and gets the new."""
        with in_place_of(self._node):
            operands = [_padded(graph, operand, growths, known) for operand, growths in self._grown_operands()]
            result = called(graph, self._node.target, *operands)
            for dim, axis in enumerate(_RESULT, len(self._batch)):
                if self.growth[axis]:
                    result = called(graph, _aten.slice.Tensor, result, dim, 0, self._sizes[axis])
            if self._is_copied:
                result = called(graph, _aten.clone.default, result, memory_format=torch.contiguous_format)
        self._node.replace_all_uses_with(result)
        graph.erase_node(self._node)

    def _grown_operands(self) -> list[tuple[torch.fx.Node, list[int]]]:
        """The operands in their order, and by how much the axes of each grow, the last two at most."""
        biases = [(bias, self._growth_of_bias(bias.meta["val"].shape)) for bias in self._biases]
        return biases + [(operand, [self.growth[axis] for axis in axes]) for operand, axes in self._operands]

    def _growth_of_bias(self, shape: Sequence[int]) -> list[int]:
        """What a bias has one of is for all rows, or columns, and stays."""
        pairs = list(zip(reversed(shape), reversed(_RESULT)))
        return [self.growth[axis] if size == self._sizes[axis] else 0 for size, axis in reversed(pairs)]


def _axis_between(matrix: torch.Tensor, multiple: int) -> int | None:
    """Along which of its last two axes a matrix lies in rows that do not begin at multiples of so many elements; None
    if they do, or if it does not lie in rows.
    """
    *_, outer, inner = matrix.stride()
    if inner == 1 and outer != 1:
        return 1 if outer % multiple else None
    return 0 if outer == 1 and inner % multiple else None


def _padded(
    graph: torch.fx.Graph,
    node: torch.fx.Node,
    growths: Sequence[int],
    known: dict[tuple[torch.fx.Node, tuple[int, ...]], torch.fx.Node],
) -> torch.fx.Node:
    """`node` with so many zeros after its last axes, in the order in which its elements lie now."""
    if not any(growths):
        return node
    *outer, last = range(rank := node.meta["val"].ndim)
    if rank > 1 and node.meta["val"].stride(-2) == 1 != node.meta["val"].stride(-1):
        turn = [*outer[:-1], last, outer[-1]]
        is_turned = node.target is _aten.permute.default and list(node.args[1]) == turn
        source = node.args[0] if is_turned else called(graph, _aten.permute.default, node, turn)
        return called(graph, _aten.permute.default, _padded(graph, source, growths[::-1], known), turn)
    ends = tuple(more for growth in reversed(growths) for more in (0, growth))  # of the last axis first
    if (node, ends) not in known:
        known[node, ends] = called(graph, _aten.constant_pad_nd.default, node, list(ends), 0.0)
    return known[node, ends]
