"""Before torch 2.13, a view of a tensor whose rows Inductor pads takes the strides for decided that it has when the
view is made (`View.create` in torch/_inductor/ir.py). They are decided later, by the order in which the tensor is
computed, and padded by whoever asks for them first: the view then reads other elements, and beyond the end. So no
tensor of a graph for `npu` is padded there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._inductor import config
from torch.fx import GraphModule

from inductor_npu.lowering.graph_passes.nodes import graph_is_on_npu
from inductor_npu.support import upstream

Compile = Callable[..., Any]


def without_wrong_padding(compile_graph: Compile) -> Compile:
    """`_InProcessFxCompile.codegen_and_compile`, without padding where views of padded tensors are wrong."""
    if not upstream.views_take_flexible_strides():
        return compile_graph

    def codegen_and_compile(self: Any, gm: GraphModule, *arguments: Any, **options: Any) -> Any:
        if not graph_is_on_npu(gm):
            return compile_graph(self, gm, *arguments, **options)
        with config.patch(comprehensive_padding=False):
            return compile_graph(self, gm, *arguments, **options)

    return codegen_and_compile
