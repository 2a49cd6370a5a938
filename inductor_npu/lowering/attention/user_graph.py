"""Graphs of the user in FlexAttention, `score_mod`, `mask_mod`, their derivatives, as operators on a tile of scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sympy
import torch
from torch._inductor import ir
from torch._inductor.kernel.flex.common import build_subgraph_buffer, create_placeholder
from torch._inductor.ops_handler import WrapperHandler
from torch._inductor.virtualized import OpsWrapper, V, ops

from inductor_npu.codegen.attention.problem import AXES

INDICES = ("b", "h", "m", "n")
# What a graph takes before captured tensors: of a mask; of a score; of a score's gradient.
OF_MASK = INDICES
OF_SCORE = ("score", *INDICES)
OF_GRADIENT = (*OF_SCORE, "grad_score_mod")


class _Given(WrapperHandler):
    """Operators in which some names of buffers stand for values that are there already, and those of `indices` for the
    index of a score.
    """

    def __init__(self, inner: Any, values: Mapping[str, Any], indices: Sequence[sympy.Expr]) -> None:
        super().__init__(inner)
        self._values = values
        self._indices = dict(zip(INDICES, indices, strict=True))

    def load(self, name: str, index: sympy.Expr) -> Any:
        """The value that `name` stands for, or a load."""
        if name in self._values:
            return self._values[name]
        if name in self._indices:
            return OpsWrapper._unwrap(ops.index_expr(self._indices[name], torch.int32))
        return self._inner.load(name, index)


def compiled(graph: Any, names: Sequence[str], captured: Sequence[Any], query: ir.TensorBox) -> Any:
    """What Inductor makes of a `graph` of the user, which takes tensors of no dimension called `names`, then what it
    captured.
    """
    for each in captured:
        if isinstance(each, ir.IRNode):
            each.realize()
            each.freeze_layout()
    indices = dict.fromkeys(INDICES, torch.int32)
    device = query.get_device()
    given = [create_placeholder(name, indices.get(name, query.get_dtype()), device) for name in names]
    return build_subgraph_buffer([*given, *captured], graph)


def function(computed: Any) -> Callable[..., Any]:
    """The operators of a ComputedBuffer, as a function of the values of names, and of the index of the score: AXES, if
    no other is given.
    """

    def of(values: Mapping[str, Any], indices: Sequence[sympy.Expr] = AXES) -> Any:
        with V.set_ops_handler(_Given(V.get_ops_handler(), values, indices)):
            data = computed.data
            return data.make_loader()(()) if isinstance(data, ir.InputBuffer) else data.inner_fn(())

    return of
