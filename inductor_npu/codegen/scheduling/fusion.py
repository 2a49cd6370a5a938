"""Which loops must not become one kernel, although Inductor could fuse them: those that have no good tile.

Inductor fuses loops to save memory traffic, and that pays here too. It does not pay where

- the loops view their elements in shapes that have no common axes: each alone has affine addresses, both together have
  not;
- so much is alive at once that no tile fits the Unified Buffer whose transfers are worth their start;
- one is a matrix product, and the other is not computed from its result (contraction_fusion.py).

An access that Ascend's compiler makes element by element is no reason to split. The scalar core works beside the
others, so a separate kernel would only add a launch and the memory traffic of its result (docs/tiling.md has the
numbers).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from torch._inductor.scheduler import BaseSchedulerNode, SchedulerNode

from inductor_npu import providers
from inductor_npu.codegen.analysis.axes import Axes
from inductor_npu.codegen.analysis.kernel_plan import plan_kernel
from inductor_npu.codegen.index.size_terms import hint
from inductor_npu.codegen.index.split_points import SplitPoints
from inductor_npu.codegen.scheduling import contraction_fusion
from inductor_npu.codegen.scheduling.loops import features_of, numels
from inductor_npu.diagnostics.compile_time.phases import Phase, timed
from inductor_npu.support.optional_steps import Kind, optional_step
from inductor_npu.tiling.plan import FILLED

# The least elements of a tile that is worth it: bursts of 1 KiB. With 64 the kernels of the corpus are the same; with
# 1024 there are three more, and one more that Ascend refuses (`python -m corpus.thresholds`).
_FEWEST_ELEMENTS = 256

# For a bound that is fast to compute: bytes of an element, and values alive beside loads and stores.
_ITEM_BYTES = 4
_VALUES = 8


class Fusions:
    """The decisions of one graph. Answers are cached by loops, because Inductor asks for many pairs, and often.
    `estimates`: of matrix products and what may join them.
    """

    def __init__(self) -> None:
        self._reasons: dict[object, str | None] = {}
        self.estimates = contraction_fusion.Estimates()

    @optional_step(Kind.PLAN, "fusion")
    def reason_against(self, first: BaseSchedulerNode, second: BaseSchedulerNode) -> str | None:
        """Returns why the loops of `first` and `second` should stay separate; None if they may be fused."""
        if first.is_foreach() or second.is_foreach():
            return None  # Inductor asks again for each of their loops
        nodes = [*first.get_nodes(), *second.get_nodes()]
        if not all(isinstance(node, SchedulerNode) for node in nodes):
            return None
        key = _key(nodes)
        if key not in self._reasons:
            with timed(Phase.FUSION):
                self._reasons[key] = _no_common_axes(nodes) or self._no_tile(first, second)
        return self._reasons[key]

    def _no_tile(self, first: BaseSchedulerNode, second: BaseSchedulerNode) -> str | None:
        if contraction_fusion.is_product(first) or contraction_fusion.is_product(second):
            return contraction_fusion.reason_against(first, second, self.estimates)
        return _no_room([*first.get_nodes(), *second.get_nodes()])


def _no_common_axes(nodes: Sequence[Any]) -> str | None:
    if len({_ranges(node) for node in nodes}) == 1:
        return None
    others = [node for node in nodes if not node._body.op_counts.get("sort")]
    sorts = len(others) < len(nodes)
    if not SplitPoints(*numels(nodes), whole_rows=sorts).add_all_of(nodes):
        return f"no common axes: {', '.join(str(_ranges(node)) for node in nodes)}"
    if sorts and Axes(nodes, *numels(nodes), whole_rows=True).divides(others):
        return "rows that are sorted whole, and seen in several dimensions"
    return None


def _no_room(nodes: Sequence[Any]) -> str | None:
    room = FILLED * providers.current_target().unified_buffer
    tensors = {dependency for node in nodes for dependency in (*node.read_writes.reads, *node.read_writes.writes)}
    if (2 * len(tensors) + _VALUES) * _ITEM_BYTES * _FEWEST_ELEMENTS <= room:
        return None  # nearly every pair returns here
    numel, reduction_numel = numels(nodes)
    tile = plan_kernel(features_of(nodes), FILLED).tile
    elements = math.prod(tile.blocks.values())
    if elements >= min(_FEWEST_ELEMENTS, hint(numel) * hint(reduction_numel)):
        return None
    return f"{len(tensors)} tensors leave room for tiles of {elements} elements"


def _ranges(node: Any) -> tuple[object, ...]:
    return tuple(tuple(lengths) for lengths in node.get_ranges())


def _key(nodes: Sequence[Any]) -> object:
    """Loops by name and by their ranges, which Inductor may change between two questions."""
    return tuple((node.get_name(), _ranges(node)) for node in nodes)
