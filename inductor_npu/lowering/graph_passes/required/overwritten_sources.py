"""Arguments that a graph overwrites and then copies to another one: `t = a.clone(); a.copy_(b); b.copy_(t)`.

AOTAutograd writes to arguments at the end of a graph, by `copy_`. Until then nothing is written, so that Inductor takes
`t` for `a` itself; the second `copy_` would read what the first one has written. Here such a source is copied before.
"""

from __future__ import annotations

import torch

from inductor_npu.lowering.graph_passes.nodes import called, in_place_of, is_on_npu, is_view, memory_of

_aten = torch.ops.aten


def apply(graph: torch.fx.Graph) -> int:
    """Copies the sources of `copy_` in `graph` on `npu` before they are overwritten; returns how many."""
    first_write: dict[torch.fx.Node, torch.fx.Node] = {}
    written: list[torch.fx.Node] = []
    copied = 0
    for write in graph.find_nodes(op="call_function", target=_aten.copy_.default):
        target, source = write.args[:2]
        overwritten = [each for each in written if each in memory_of(source)]
        if overwritten and is_on_npu(source.meta["val"]):
            with in_place_of(first_write[overwritten[0]]):
                write.update_arg(1, called(graph, _aten.clone.default, _once_more(graph, source)))
            copied += 1
        if target.op == "placeholder" and target not in first_write:
            first_write[target] = write
            written.append(target)
    return copied


def _once_more(graph: torch.fx.Graph, node: torch.fx.Node) -> torch.fx.Node:
    """`node`, a view of an argument or the argument, as nodes that come before what follows."""
    return graph.node_copy(node, lambda operand: _once_more(graph, operand)) if is_view(node) else node
