"""The order in which the kernels of a graph run: of a few, the one with the least memory that is live at a time.

The orders and how their memory is estimated are Inductor's (torch/_inductor/memory.py), which counts memory that is not
there: results that are stored nowhere, since only their own kernel reads them, such as attention's scores. And it
takes the gradients that a backward pass is given for freed after their last use; autograd keeps them to the end. What
is counted too much in one step hides by what the orders differ.
"""

from __future__ import annotations

from torch._inductor import memory
from torch._inductor.scheduler import BaseSchedulerNode
from torch._inductor.virtualized import V
from torch.utils._ordered_set import OrderedSet

from inductor_npu.support.optional_steps import Kind, optional_step

Nodes = list[BaseSchedulerNode]

_GIVEN_GRADIENTS = "tangents_"  # AOTAutograd's name for them


@optional_step(Kind.ORDER, "least memory")
def of_least_memory(nodes: Nodes) -> Nodes:
    """`nodes`, fused, in another order that their dependencies allow, or as they are."""
    scheduler, outputs = V.graph.scheduler, OrderedSet(V.graph.get_output_names())
    names, fused = scheduler.name_to_buf, scheduler.name_to_fused_node
    _, inputs = memory.prepare_planning_info(nodes, names, fused, OrderedSet(V.graph.graph_inputs), outputs)
    for node in nodes:
        _count_what_is_stored(node)
    for name, given in inputs.items():
        if name.startswith(_GIVEN_GRADIENTS):
            given.mpi_buffer.size_free = 0
    orders = [
        nodes,
        memory.topological_sort_lpmf(nodes, inputs, names, outputs),
        memory.topological_sort_bfs(nodes),
        memory.topological_sort_dfs(nodes),
    ]
    return min(orders, key=lambda order: memory.estimate_peak_memory(order, inputs, outputs)[0])


def _count_what_is_stored(node: BaseSchedulerNode) -> None:
    """Gives no size to results that nobody reads but the loops of their own kernel."""
    loops = OrderedSet(part.get_name() for part in node.get_nodes())
    for buffer in node.get_outputs():
        if V.graph.scheduler.can_buffer_be_removed_through_fusion(buffer.get_name(), loops):
            buffer.mpi_buffer.size_alloc = buffer.mpi_buffer.size_free = 0
    node.mpi_node.size = sum(buffer.mpi_buffer.size_alloc for buffer in node.get_outputs())
