"""Inductor's settings for graphs on `npu`, where it has one value for all devices.

**Padding.** Before torch 2.13, a view of a tensor whose rows Inductor pads takes the strides for decided that it has
when the view is made (`View.create` in torch/_inductor/ir.py). They are decided later, by the order in which the tensor
is computed, and padded by whoever asks for them first: the view then reads other elements, and beyond the end. So no
tensor is padded there.

**Order.** Kernels run in the order that `codegen/scheduling/order.py` chooses, and not Inductor; not where that, or
anything else, has failed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._inductor import config
from torch.fx import GraphModule

from inductor_npu.codegen import attempt
from inductor_npu.codegen.scheduling.order import Nodes, of_least_memory
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
    if config.reorder_for_peak_memory and not attempt.current().leaves_out:
        settings["reorder_for_peak_memory"] = False
        settings["_post_fusion_custom_pass"] = _ordered_after(config._post_fusion_custom_pass)
    return settings


def _ordered_after(users: Callable[[Nodes], Nodes] | None) -> Callable[[Nodes], Nodes]:
    """What the user does to the nodes after fusion, and then their order."""
    return of_least_memory if users is None else lambda nodes: of_least_memory(users(nodes))
