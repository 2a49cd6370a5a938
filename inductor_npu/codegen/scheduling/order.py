"""The order in which the kernels of a graph run: of a few, the one with the least memory that is live at a time.

The orders and how their memory is estimated are Inductor's (torch/_inductor/memory.py), by the buffers that
`analysis/live_buffers.py` describes.
"""

from __future__ import annotations

from torch._inductor import memory
from torch._inductor.scheduler import BaseSchedulerNode, FusedSchedulerNode, SchedulerNode
from torch._inductor.utils import contains_collective
from torch._inductor.virtualized import V
from torch.utils._ordered_set import OrderedSet

from inductor_npu.codegen.analysis.live_buffers import describe_memory
from inductor_npu.support.optional_steps import Kind, optional_step

Nodes = list[BaseSchedulerNode]


@optional_step(Kind.ORDER, "least memory")
def of_least_memory(nodes: Nodes) -> Nodes:
    """`nodes`, fused, in another order that their dependencies allow, or as they are.

    Of orders whose dearest steps are equal, the next dearest decides, and so on: a kernel that writes its result in
    place of what it reads takes less than is estimated, and what it takes too much is the same in each order. With
    collectives in the graph the first of them is kept, in which kernels may run between a collective and its wait.
    """
    names, outputs = V.graph.scheduler.name_to_buf, OrderedSet(V.graph.get_output_names())
    inputs = describe_memory(nodes)
    orders = [
        nodes,
        memory.topological_sort_lpmf(nodes, inputs, names, outputs),
        memory.topological_sort_bfs(nodes),
        memory.topological_sort_dfs(nodes),
    ]

    def dearest_steps(order: Nodes) -> list[int]:
        return sorted(memory.estimate_peak_memory(order, inputs, outputs)[1], reverse=True)

    if any(map(contains_collective, nodes)):
        return min(orders, key=lambda order: dearest_steps(order)[0])
    return min(map(_as_late_as_is_free, orders), key=dearest_steps)


def _as_late_as_is_free(order: Nodes) -> Nodes:
    """`order`, in which each kernel that is the last to read nothing runs directly before the first one that needs it:
    until then its result takes no memory, and what it reads is there for others. Calls of operators keep their places:
    what else they do is not known.
    """
    places: dict[BaseSchedulerNode, tuple[int, ...]] = {}  # from the last one on: (5, 7) is just before (5,)
    for count, node in enumerate(reversed(order)):
        bounds = [places[user] for user in node.mpi_node.succ_nodes]
        for read in node.mpi_node.pred_buffers:
            if read.mpi_buffer.size_free:
                readers = [places[user] for user in read.mpi_buffer.succ_nodes if user in places]
                bounds.append(min(readers, default=(count,)))
        is_kernel = isinstance(node, SchedulerNode | FusedSchedulerNode)
        moves = is_kernel and node.mpi_node.size and bounds
        places[node] = (*max(bounds), count) if moves else (count,)
    return sorted(order, key=lambda node: places[node], reverse=True)
