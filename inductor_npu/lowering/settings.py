"""Inductor's settings for graphs on `npu`, where it has one value for all devices.

**Padding.** Before torch 2.13, a view of a tensor whose rows Inductor pads takes the strides for decided that it has
when the view is made (`View.create` in torch/_inductor/ir.py). They are decided later, by the order in which the tensor
is computed, and padded by whoever asks for them first: the view then reads other elements, and beyond the end. So no
tensor is padded there.

**Indices.** Before loops are fused, `codegen/scheduling/row_parts.py` and `masked_indices.py` simplify their indices.

**Order.** Kernels run in the order that `codegen/scheduling/order.py` chooses, and not Inductor.

Neither is done where it, or anything else, has failed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._inductor import config
from torch.fx import GraphModule

from inductor_npu.codegen import attempt
from inductor_npu.codegen.scheduling.masked_indices import without_needless_remainders
from inductor_npu.codegen.scheduling.order import Nodes, of_least_memory
from inductor_npu.codegen.scheduling.row_parts import with_parts_of_whole_rows
from inductor_npu.lowering.graph_passes.nodes import graph_is_on_npu
from inductor_npu.support import upstream

Compile = Callable[..., Any]


def with_settings_of_npu(compile_graph: Compile) -> Compile:
    """`_InProcessFxCompile.codegen_and_compile`, by these settings where the graph is on `npu`."""

    def codegen_and_compile(self: Any, gm: GraphModule, *arguments: Any, **options: Any) -> Any:
        if not graph_is_on_npu(gm):
            return compile_graph(self, gm, *arguments, **options)
        with config.patch(_settings()):
            return compile_graph(self, gm, *arguments, **options)

    return codegen_and_compile


def _settings() -> dict[str, Any]:
    settings: dict[str, Any] = {}
    if upstream.views_take_flexible_strides():
        settings["comprehensive_padding"] = False
    if attempt.current().leaves_out:
        return settings
    for indices in (with_parts_of_whole_rows, without_needless_remainders):
        users = settings.get("_pre_fusion_custom_pass", config._pre_fusion_custom_pass)
        settings["_pre_fusion_custom_pass"] = _after(users, indices)
    if config.reorder_for_peak_memory:
        settings["reorder_for_peak_memory"] = False
        settings["_post_fusion_custom_pass"] = _after(config._post_fusion_custom_pass, of_least_memory)
    return settings


def _after(users: Callable[[Nodes], Nodes] | None, ours: Callable[[Nodes], Nodes]) -> Callable[[Nodes], Nodes]:
    """What the user does to the nodes of the scheduler, and then `ours`."""
    return ours if users is None else lambda nodes: ours(users(nodes))
