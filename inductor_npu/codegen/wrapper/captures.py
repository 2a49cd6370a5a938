"""mode="reduce-overhead" with torch 2.11: the generated module captures its own parts. Later releases ask a backend's
policy (runtime/graph_capture/policy.py) instead, and capture what it answers.
"""

from __future__ import annotations

from torch._inductor import config as inductor_config
from torch._inductor.virtualized import V

from inductor_npu import providers
from inductor_npu.runtime.graph_capture.parts import written_by_parts
from inductor_npu.support import upstream


def module_lines() -> list[str]:
    """The lines for the graph that is generated now; none where it is not to be captured."""
    graph = V.graph
    wanted = inductor_config.triton.cudagraphs and not graph.disable_cudagraphs_reason
    # Without parts (`graph_partition`) it would be for us to look for operators that cannot be captured.
    if upstream.has_policies_of_capture() or not wanted or not graph.partition_maps or graph.aot_mode:
        return []
    if providers.current_provider().captured_calls is None:
        return []
    writes = [tuple(sorted(each)) for each in written_by_parts(graph.partition_maps, graph.mutated_input_idxs)]
    name = f"name_of_graph(is_backward={graph.is_backward}, is_inference={graph.is_inference})"
    return [
        "from inductor_npu.runtime.graph_capture.parts import capture_parts, name_of_graph",
        f"capture_parts(runner, {name}, {writes})",
    ]
