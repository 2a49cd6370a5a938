"""The result of a grouped product in Inductor's IR: a template without text, which scheduling makes a kernel of."""

from __future__ import annotations

from collections.abc import Sequence

from torch._inductor import ir

from inductor_npu.codegen.grouped.problem import GroupedProduct
from inductor_npu.codegen.templates.tensor import Tensor


class GroupedBuffer(ir.TemplateBuffer):
    """The result of `product`: [M, N], with a first axis for the groups where they lie along neither. `inputs` are the
    operands and the offsets.
    """

    def __init__(self, layout: ir.Layout, product: GroupedProduct, inputs: Sequence[ir.IRNode]) -> None:
        super().__init__(layout, inputs, make_kernel_render=None)
        self.product = product
        self.result = Tensor.of(self)
