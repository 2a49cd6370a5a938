"""Which loops join a matrix product in its kernel: those that compute from its result, where that takes fewer cycles.

What comes before a product stays a kernel of its own: in the product's it would be computed again for each tile that
reads it. What is computed from its result passes through the vector cores while the cube core has begun the next tile;
that is worth it unless it needs so much of the Unified Buffer that the product's tile becomes too small.
"""

from __future__ import annotations

from torch._inductor.scheduler import BaseSchedulerNode

from inductor_npu import providers
from inductor_npu.codegen.analysis.contraction import Contraction
from inductor_npu.codegen.analysis.kernel_plan import plan_kernel
from inductor_npu.codegen.scheduling.loops import features_of
from inductor_npu.tiling.cube import NoTileError
from inductor_npu.tiling.plan import FILLED


def is_product(node: BaseSchedulerNode) -> bool:
    """Whether a matrix product is among the loops of `node`."""
    return any(part._body is not None and part._body.op_counts.get("dot") for part in node.get_nodes())


def reason_against(first: BaseSchedulerNode, second: BaseSchedulerNode) -> str | None:
    """Returns why the loops of `first` and `second`, of which some are a product, stay separate; None if one kernel is
    better. Inductor asks in either order.
    """
    if is_product(first) and is_product(second):
        return "two matrix products"
    product, other = (first, second) if is_product(first) else (second, first)
    if other.is_reduction():
        return "not computed from the product element by element"
    if product.get_buffer_names().isdisjoint(dependency.name for dependency in other.read_writes.reads):
        return "not computed from the product"
    if any(dependency.mode is not None for part in other.get_nodes() for dependency in _writes(part)):
        return "an atomic store of the product"
    try:
        both = plan_kernel(features_of([*product.get_nodes(), *other.get_nodes()]), FILLED)
    except NoTileError as reason:
        return str(reason)
    alone, rest = (plan_kernel(features_of(node.get_nodes()), FILLED) for node in (product, other))
    if _shape(both.contraction) != _shape(alone.contraction):
        return "the product seen in another shape"
    launch = providers.current_target().launch_cycles
    if both.cycles > alone.cycles + launch + rest.cycles:
        return f"{both.cycles:.0f} cycles instead of {alone.cycles:.0f}, {launch} and {rest.cycles:.0f}"
    return None


def _writes(node: BaseSchedulerNode) -> list[object]:
    return [dependency for dependency in node.read_writes.writes if hasattr(dependency, "mode")]


def _shape(contraction: Contraction | None) -> tuple[int, int]:
    """How many axes are rows, and how many columns: each further one would be in a tile with one index only."""
    assert contraction is not None
    return len(contraction.roles.rows), len(contraction.roles.columns)
