"""Which loops join a matrix product in its kernel, where that takes fewer cycles: those that compute from its result,
and products that share an operand.

What comes before a product stays a kernel of its own: in the product's it would be computed again for each tile that
reads it. What is computed from its result passes through the vector cores while the cube core has begun the next tile;
that is worth it unless it needs so much of the Unified Buffer that the product's tile becomes too small.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch._inductor.dependencies import MemoryDep
from torch._inductor.scheduler import BaseSchedulerNode, SchedulerNode

from inductor_npu import providers
from inductor_npu.codegen.analysis.kernel_plan import plan_kernel
from inductor_npu.codegen.scheduling.loops import features_of
from inductor_npu.tiling.conversions import cycles_apart as cycles_apart_from_conversion
from inductor_npu.tiling.cube import NoTileError
from inductor_npu.tiling.plan import FILLED


def is_product(node: BaseSchedulerNode) -> bool:
    """Whether a matrix product is among the loops of `node`."""
    return any(part._body is not None and part._body.op_counts.get("dot") for part in node.get_nodes())


def reason_against(first: BaseSchedulerNode, second: BaseSchedulerNode) -> str | None:
    """Returns why the loops of `first` and `second`, of which some are a product, stay separate; None if one kernel is
    better. Inductor asks in either order.
    """
    product, other = (first, second) if is_product(first) else (second, first)
    reason = _against_two_products(product, other) if is_product(other) else _against_rest(product, other)
    return reason or _against_cycles(product, other)


def _against_two_products(product: BaseSchedulerNode, other: BaseSchedulerNode) -> str | None:
    """Products side by side read the operand that they share once."""
    if _reads_from(product, other) or _reads_from(other, product):
        return "a product of another's result"
    if product.read_writes.reads.isdisjoint(other.read_writes.reads):
        return "products without a common operand"
    return None


def _against_rest(product: BaseSchedulerNode, rest: BaseSchedulerNode) -> str | None:
    if rest.is_reduction():
        return "not computed from the product element by element"
    if not _reads_from(rest, product):
        return "not computed from the product"
    return "an atomic store of the product" if _is_scattered(rest) else None


def _against_cycles(product: BaseSchedulerNode, other: BaseSchedulerNode) -> str | None:
    try:
        both = plan_kernel(features_of([*product.get_nodes(), *other.get_nodes()]), FILLED)
    except NoTileError as reason:
        return str(reason)
    alone = plan_kernel(features_of(product.get_nodes()), FILLED)
    separate = alone.cycles + _cycles_of_rest(other.get_nodes())
    return f"{both.cycles:.0f} cycles, separate {separate:.0f}" if both.cycles > separate else None


def _reads_from(node: BaseSchedulerNode, before: BaseSchedulerNode) -> bool:
    return not before.get_buffer_names().isdisjoint(dependency.name for dependency in node.read_writes.reads)


def cycles_apart(nodes: Sequence[SchedulerNode]) -> float:
    """Returns the estimated cycles of the products among `nodes` as calls of the library, which are taken to be as good
    as a kernel of the product alone, and of one kernel for the other nodes.
    """
    products = (_cycles_of_library(node) for node in nodes if is_product(node))
    launch = providers.current_target().launch_cycles
    rest = [node for node in nodes if not is_product(node)]
    return sum(cycles + launch for cycles in products) - launch + (_cycles_of_rest(rest) if rest else 0)


def _cycles_of_library(product: SchedulerNode) -> float:
    """Cycles of one product, and of the kernel that converts its operand before."""
    plan = plan_kernel(features_of([product]), FILLED)
    assert plan.contraction is not None
    work = plan.contraction.work
    return cycles_apart_from_conversion(work, providers.current_target(), FILLED) if work.converted else plan.cycles


def _cycles_of_rest(nodes: Sequence[SchedulerNode]) -> float:
    """Cycles of a kernel of `nodes`, with its launch."""
    return plan_kernel(features_of(nodes), FILLED).cycles + providers.current_target().launch_cycles


def _is_scattered(node: BaseSchedulerNode) -> bool:
    """Whether some element that the loops store is added to what another one stores."""
    stores = (store for part in node.get_nodes() for store in part.read_writes.writes)
    return any(isinstance(store, MemoryDep) and store.mode is not None for store in stores)
