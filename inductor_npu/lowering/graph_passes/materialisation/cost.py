"""What it costs in bytes to store a value once and read it, against computing it again in each kernel that takes it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from torch.fx import Node

from inductor_npu.lowering.graph_passes.materialisation.kernels import Kernel, Kernels
from inductor_npu.lowering.graph_passes.materialisation.reads import Reads
from inductor_npu.lowering.graph_passes.materialisation.sizes import bytes_against, elements_of


def bytes_saved(node: Node, kernels: Kernels, reads: Reads, is_written: bool) -> float:
    """How many bytes fewer move if `node` is stored once instead of computed by each kernel that takes it, as a
    multiple of its own bytes: less than 0 if more move.

    A kernel saves what it would read for `node` alone, and reads `node`. One of them, if it goes over all of `node`,
    computes it as before and stores it. `is_written`: whether `node` is stored in any case, so that this costs nothing.
    """
    cone, operands = reads.computed_of(node)
    at_most = most_bytes_saved(node, kernels, operands, is_written)
    later = _later(node, kernels)
    if not later or at_most < 0:
        return at_most
    read_anyway = {kernel: _read_anyway(kernel, node, cone, operands, kernels, reads) for kernel in later}
    return at_most - sum(share * _bytes(read_anyway[kernel], node) for kernel, share in later.items())


def most_bytes_saved(node: Node, kernels: Kernels, operands: frozenset[Node], is_written: bool) -> float:
    """As `bytes_saved`, if no kernel reads for anything else the `operands` of which `node` is computed."""
    later = _later(node, kernels)
    cost = 0.0 if is_written else 1.0
    if len(later) == len(kernels.computing(node)):  # none stores it: a kernel of its own reads the operands once more
        cost += _bytes(operands, node)
    return sum(later.values()) * (_bytes(operands, node) - 1) - cost


def _later(node: Node, kernels: Kernels) -> Mapping[Kernel, float]:
    """The kernels that read `node` if it is stored, and what share of it each of them."""
    computing = kernels.computing(node)
    first = _first(node, computing)
    return {kernel: share for kernel, share in computing.items() if kernel != first}


def _first(node: Node, computing: Mapping[Kernel, float]) -> Kernel | None:
    """The kernel that stores `node` while it computes it, where one of them goes over all of its elements."""
    over_all = [kernel for kernel in computing if kernel.goes_over(elements_of(node.meta["val"]))]
    return min(over_all, key=lambda kernel: kernel.stage, default=None)


def _bytes(operands: Iterable[Node], node: Node) -> float:
    return sum(bytes_against(each.meta["val"], node.meta["val"]) for each in operands)


def _read_anyway(
    kernel: Kernel, node: Node, cone: frozenset[Node], operands: frozenset[Node], kernels: Kernels, reads: Reads
) -> frozenset[Node]:
    """Which of `operands`, of which `node` and all in `cone` are computed, `kernel` reads for something else, too."""
    read: frozenset[Node] = frozenset()
    for each in (operands | cone) - {node}:
        if any(user not in cone and kernels.takes(kernel, each, user) for user in each.users):
            read |= reads.of(each)
    return read & operands
