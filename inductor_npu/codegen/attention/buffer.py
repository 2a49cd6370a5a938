"""A kernel of attention in Inductor's IR: a template without text, which the scheduling of `npu` makes a kernel of.

Inductor has no loops for it. A `TemplateBuffer` reaches a backend's `codegen_template` whatever its class.
"""

from __future__ import annotations

from collections.abc import Sequence

import sympy
import torch
from torch._inductor import ir
from torch._inductor.virtualized import V
from torch.utils._ordered_set import OrderedSet

from inductor_npu.codegen.attention.problem import Attention
from inductor_npu.codegen.templates.tensor import Tensor
from inductor_npu.tiling.attention import Pass


class AttentionBuffer(ir.TemplateBuffer):
    """The first result of a kernel of attention; `others` are further results, which it writes to memory that is there
    already. `inputs` are all that it reads, also what only modifies scores; `sizes` all expressions of sizes that it
    contains beside its inputs.
    """

    def __init__(
        self,
        layout: ir.Layout,
        which: Pass,
        attention: Attention,
        inputs: Sequence[ir.IRNode],
        operands: Sequence[Tensor],
        others: Sequence[ir.IRNode | None],
        sizes: Sequence[sympy.Expr] = (),
    ) -> None:
        written = [other for other in others if other is not None]
        super().__init__(layout, [*inputs, *written], make_kernel_render=None)
        # As torch 2.13 does for those that it is given; before, it has them for FlexAttention's own templates only.
        self.mutated_inputs = written
        nowhere = ir.NoneLayout(device=layout.device)
        self.mutation_outputs = [ir.MutationOutput(nowhere, other, self) for other in written]
        self.which, self.attention = which, attention
        self.operands = tuple(operands)
        self.results = (Tensor.of(self), *(None if other is None else Tensor.of(other) for other in others))
        self._sizes = tuple(sizes)

    def get_outputs(self) -> list[ir.Buffer]:
        return [self, *self.mutation_outputs]

    def get_free_symbol_uses(self, unbacked_only: bool = False) -> OrderedSet[sympy.Symbol]:
        """The symbols of sizes that the kernel needs."""
        found = OrderedSet(super().get_free_symbol_uses(unbacked_only))
        for size in self._sizes:
            found.update(ir.get_free_symbols(size, unbacked_only))
        return found


def written_to(
    sizes: Sequence[sympy.Expr],
    strides: Sequence[sympy.Expr] | None,
    dtype: torch.dtype,
    device: torch.device | None,
    has_zeros: bool = False,
) -> ir.IRNode:
    """Memory without contents, or with zeros, that a kernel writes a further result to."""
    from torch._inductor import lowering

    if has_zeros:
        made = lowering.full(list(sizes), 0, dtype=dtype, device=device)
    else:
        made = lowering.empty_strided(list(sizes), strides and list(strides), dtype=dtype, device=device)
    made.realize()
    buffer = V.graph.get_buffer(made.get_name())
    if has_zeros and strides is not None:
        buffer.freeze_layout_with_exact_strides(list(strides))
    return buffer
