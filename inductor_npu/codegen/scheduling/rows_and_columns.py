"""Loops that reduce the rows of tensors, and loops that sum their columns, as one kernel: the backward pass of a layer
norm, which would read its tensors twice.

Inductor has the pair, `FusedMixOrderReductions`, and the way from a sum over columns to what it adds up; it forms the
pair for CUDA and XPU, and sums what the programs have found by another operator. Here each program sums the columns of
its tiles, and writes that where the first of two steps of a split sum would have written the sum of a part: the second
step is a loop of the graph like any other.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from typing import Any
from weakref import WeakSet

import sympy
import torch
from torch._inductor import config as inductor_config
from torch._inductor import ir
from torch._inductor.scheduler import BaseSchedulerNode, FusedMixOrderReductions, MixOrderReduction, SchedulerNode

from inductor_npu import config, providers
from inductor_npu.codegen.emit.column_sums import ColumnSums
from inductor_npu.support.optional_steps import Kind, optional_step

# As Inductor's for GPUs: smaller tensors are read from L2 the second time, and few rows make few tiles.
_FEWEST_ELEMENTS = 5 * 2**20
_FEWEST_ROWS = 4096
_LONGEST_ROW = 16384
_SUMMED = (torch.float32, torch.float16, torch.bfloat16)

# A kernel of pairs has a program for each part. Shorter parts are too much to write, and to sum again.
_PARTS_OF_A_CORE = 2
_SHORTEST_PART = 64

_in_pairs: WeakSet[BaseSchedulerNode] = WeakSet()  # pairs are of two


@optional_step(Kind.PLAN, "pairs of rows and columns")
def can_be_pair(node1: BaseSchedulerNode, node2: BaseSchedulerNode) -> bool:
    """Whether one of both reduces rows and the other sums columns, and one kernel would read a tensor once for both."""
    if not (node1.is_reduction() and node2.is_reduction() and _are_wanted()):
        return False
    if any(node in _in_pairs or isinstance(node, FusedMixOrderReductions) for node in (node1, node2)):
        return False
    if node1.ancestors & node2.get_operation_names() or node2.ancestors & node1.get_operation_names():
        return False
    if not MixOrderReduction.has_mix_reduction_orders(node1, node2):
        return False
    if not MixOrderReduction.is_contiguous_node(node1):
        node1, node2 = node2, node1
    return (
        MixOrderReduction.is_contiguous_node(node1)
        and not MixOrderReduction.is_split_reduction(node1)
        and _is_worth_it(*MixOrderReduction.get_numel_rnumel(node1))
        and sums_of(node2.get_nodes()) is not None
        and bool(MixOrderReduction.get_common_read(node1, node2))
    )


def _are_wanted() -> bool:
    """On this chip, by the user; not where kernels are compared with eager operators, which know no partial sums."""
    is_good = providers.current_target().sums_columns_with_rows
    return is_good and inductor_config.triton.mix_order_reduction and not config.accuracy


def parts_of(rows: int, columns: int) -> int:
    """In how many parts `columns` columns of `rows` rows are summed at least, for the case that they become half of a
    pair; 1 where they will not.
    """
    if not _are_wanted() or not _is_worth_it(rows, columns):
        return 1
    part = 1 << round(math.log2(rows / (_PARTS_OF_A_CORE * providers.current_target().vector_cores)))
    return -(-rows // part) if part >= _SHORTEST_PART else 1


def _is_worth_it(rows: Any, columns: Any) -> bool:
    if not all(isinstance(size, (int, sympy.Integer)) for size in (rows, columns)):
        return False
    is_large = rows * columns >= _FEWEST_ELEMENTS and rows >= max(_FEWEST_ROWS, 2 * columns)
    return is_large and 1 < columns <= _LONGEST_ROW


def shared_by(node: BaseSchedulerNode) -> int:
    """How many elements a node of a pair reads with the other."""
    return MixOrderReduction.get_numel(node)


def pair_of(node1: BaseSchedulerNode, node2: BaseSchedulerNode) -> FusedMixOrderReductions:
    """Both as one node of the schedule."""
    _in_pairs.update((node1, node2))
    return FusedMixOrderReductions(node1, node2)


def sums_of(nodes: Sequence[Any]) -> ColumnSums | None:
    """Where the sums over columns `nodes` are written; None where one is no first step of a split sum, they are split
    in different ways, or have fewer parts than the chip has cores.
    """
    places: dict[str, tuple[int, tuple[int, int]]] = {}
    for node in nodes:
        buffer = node.node
        is_sum = isinstance(node, SchedulerNode) and isinstance(buffer, ir.ComputedBuffer) and node.is_reduction()
        if not is_sum or buffer._split_size is None or not isinstance(buffer.data, ir.Reduction):
            return None
        if buffer.data.reduction_type != "sum" or buffer.data.src_dtype not in _SUMMED:
            return None
        place = _place_of(buffer)
        if place is None:
            return None
        places[buffer.get_name()] = place
    parts = {place[0] for place in places.values()}
    if len(parts) != 1 or min(parts) < providers.current_target().vector_cores:
        return None
    return ColumnSums(parts.pop(), {name: strides for name, (_, strides) in places.items()})


def _place_of(buffer: ir.ComputedBuffer) -> tuple[int, tuple[int, int]] | None:
    """The number of parts, and the distances of columns and of parts in memory, in elements. None where columns are of
    several dimensions: the loops over what is summed may have another order than these.
    """
    *columns, parts = buffer.data.ranges
    *steps, step_of_part = buffer.get_layout().stride
    if not all(isinstance(size, (int, sympy.Integer)) for size in (*columns, parts, *steps, step_of_part)):
        return None
    of_columns = [int(step) for size, step in zip(columns, steps, strict=True) if size != 1]
    return (int(parts), (of_columns[0], int(step_of_part))) if len(of_columns) == 1 else None


@contextlib.contextmanager
def elements_of_sums(nodes: Sequence[Any]) -> Iterator[None]:
    """Context in which the sums over columns `nodes` are loops over what they sum, in the order of the rows: each adds
    its elements up by `partial_accumulate`. Their loops are as before afterwards.
    """
    before = [dict(vars(node)) for node in nodes]
    try:
        for node in nodes:
            node.cancel_reduction_split()
            node.extract_pw_from_reduction()
            node.swap_pw_red_dimension()
        yield
    finally:
        for node, attributes in zip(nodes, before, strict=True):
            vars(node).clear()
            vars(node).update(attributes)
