"""Which loops join a matrix product in its kernel, where that takes fewer cycles: those that compute from its result,
and products that share an operand.

What comes before a product stays a kernel of its own: in the product's it would be computed again for each tile that
reads it. What is computed from its result passes through the vector cores while the cube core has begun the next tile;
that is worth it unless it needs so much of the Unified Buffer that the product's tile becomes too small.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from torch._inductor.dependencies import MemoryDep
from torch._inductor.scheduler import BaseSchedulerNode, SchedulerNode
from torch._inductor.virtualized import V

from inductor_npu import providers
from inductor_npu.codegen.analysis.kernel_plan import KernelPlan, plan_kernel
from inductor_npu.codegen.index.split_points import equal
from inductor_npu.codegen.scheduling.kernel_reuse import key_of_plan
from inductor_npu.codegen.scheduling.loops import features_of
from inductor_npu.tiling.conversions import cycles_apart as cycles_apart_from_conversion
from inductor_npu.tiling.cube import NoTileError
from inductor_npu.tiling.plan import FILLED


class Estimates:
    """Plans of kernels of one graph, for what they are estimated to take. Layers repeat each other: loops that are
    alike are planned once.
    """

    def __init__(self) -> None:
        self._plans: dict[Hashable, KernelPlan | NoTileError] = {}

    def plan(self, nodes: Sequence[SchedulerNode]) -> KernelPlan:
        """Returns the plan of a kernel of `nodes`, or of loops like them. Raises NoTileError if there is none."""
        with V.graph.set_current_device(nodes[0].get_device()):
            key = key_of_plan(nodes)
            plan = self._plans.get(key)
            if plan is None:
                plan = _planned(nodes)
                if key is not None:
                    self._plans[key] = plan
        if isinstance(plan, NoTileError):
            raise NoTileError(str(plan))
        return plan

    def cycles(self, nodes: Sequence[SchedulerNode]) -> float:
        """Returns the cycles of one kernel of `nodes`, without its launch. Raises NoTileError if there is none."""
        return self.plan(nodes).cycles

    def with_launch(self, nodes: Sequence[SchedulerNode]) -> float:
        """Returns the cycles of one kernel of `nodes`, and of its launch."""
        return self.cycles(nodes) + providers.current_target().launch_cycles


def _planned(nodes: Sequence[SchedulerNode]) -> KernelPlan | NoTileError:
    try:
        return plan_kernel(features_of(nodes), FILLED)
    except NoTileError as reason:
        return reason


def is_product(node: BaseSchedulerNode) -> bool:
    """Whether a matrix product is among the loops of `node`."""
    return any(part._body is not None and part._body.op_counts.get("dot") for part in node.get_nodes())


def reason_against(first: BaseSchedulerNode, second: BaseSchedulerNode, estimates: Estimates) -> str | None:
    """Returns why the loops of `first` and `second`, of which some are a product, stay separate; None if one kernel is
    better. Inductor asks in either order.
    """
    product, other = (first, second) if is_product(first) else (second, first)
    reason = _against_two_products(product, other) if is_product(other) else _against_rest(product, other)
    return reason or _against_cycles(product, other, estimates)


def _against_two_products(product: BaseSchedulerNode, other: BaseSchedulerNode) -> str | None:
    """Products side by side read the operand that they share once."""
    if _reads_from(product, other) or _reads_from(other, product):
        return "a product of another's result"
    if product.read_writes.reads.isdisjoint(other.read_writes.reads):
        return "products without a common operand"
    return None


def _against_rest(product: BaseSchedulerNode, rest: BaseSchedulerNode) -> str | None:
    # Inductor also fuses a loop over all that a reduction reads, which computes with its results once more.
    if rest.is_reduction() or not equal(rest.group[1][0], product.group[1][0]):
        return "not computed from the product element by element"
    if not _reads_from(rest, product):
        return "not computed from the product"
    return "an atomic store of the product" if _is_scattered(rest) else None


def _against_cycles(product: BaseSchedulerNode, other: BaseSchedulerNode, estimates: Estimates) -> str | None:
    try:
        both = estimates.cycles([*product.get_nodes(), *other.get_nodes()])
    except NoTileError as reason:
        return str(reason)
    separate = estimates.cycles(product.get_nodes()) + estimates.with_launch(other.get_nodes())
    return f"{both:.0f} cycles, separate {separate:.0f}" if both > separate else None


def _reads_from(node: BaseSchedulerNode, before: BaseSchedulerNode) -> bool:
    return not before.get_buffer_names().isdisjoint(dependency.name for dependency in node.read_writes.reads)


def cycles_apart(nodes: Sequence[SchedulerNode], estimates: Estimates) -> float:
    """Returns the estimated cycles of the products among `nodes` as calls of the library, which are taken to be as good
    as a kernel of the product alone, and of one kernel for the other nodes.
    """
    products = (_cycles_of_library(node, estimates) for node in nodes if is_product(node))
    launch = providers.current_target().launch_cycles
    rest = [node for node in nodes if not is_product(node)]
    return sum(cycles + launch for cycles in products) - launch + (estimates.with_launch(rest) if rest else 0)


def _cycles_of_library(product: SchedulerNode, estimates: Estimates) -> float:
    """Cycles of one product, and of the kernel that converts its operand before."""
    plan = estimates.plan([product])
    assert plan.contraction is not None
    work = plan.contraction.work
    return cycles_apart_from_conversion(work, providers.current_target(), FILLED) if work.converted else plan.cycles


def _is_scattered(node: BaseSchedulerNode) -> bool:
    """Whether some element that the loops store is added to what another one stores."""
    stores = (store for part in node.get_nodes() for store in part.read_writes.writes)
    return any(isinstance(store, MemoryDep) and store.mode is not None for store in stores)
