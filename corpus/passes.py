"""`python -m corpus.passes`: how many passes of the vector core Ascend's compiler makes of an operator.

The cost model (`inductor_npu/tiling/cost.py`) counts the passes of operators that need several. Here each of them is
applied to a sum, compiled with Ascend's compiler, and its vector cycles are compared with those of one more addition.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import typer
from rich.console import Console
from rich.table import Table

from inductor_npu.tiling.cost import PASSES, REDUCTION_PASSES, TURN_PASSES

_ROWS, _COLUMNS = 320, 4096

Function = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

# What is measured, by the names in the cost model; "lt" stands for all comparisons and contains a "where".
OPERATORS: dict[str, Function] = {
    "add": lambda s, y: s + 3.0,
    **{name: (lambda s, y, name=name: getattr(torch, name)(s)) for name in ("erf", "sin", "cos", "tan", "tanh")},
    "sigmoid": lambda s, y: torch.sigmoid(s),
    "rsqrt": lambda s, y: torch.rsqrt(s),
    "pow": lambda s, y: s**y,
    "truediv": lambda s, y: s / y,
    "lt": lambda s, y: torch.where(s < y, s, 3.0),
    "maximum": lambda s, y: torch.maximum(s, y),
    "minimum": lambda s, y: torch.minimum(s, y),
    "remainder": lambda s, y: torch.remainder(s, y),
    "fmod": lambda s, y: torch.fmod(s, y),
    "sum of a row": lambda s, y: s.sum(-1),
    "transpose": lambda s, y: s.t().contiguous(),
}

# What the cost model has for the programs whose name is not that of one operator.
_OTHERS = {"add": 1, "lt": 1 + PASSES["where"], "sum of a row": REDUCTION_PASSES, "transpose": TURN_PASSES}


def vector_cycles(function: Function) -> int:
    """Cycles of the vector core of one launch of `function(x + y, y)`, on fp32 tensors of 320 x 4096 elements."""
    from inductor_npu.ascend import check

    x, y = (torch.randn(_ROWS, _COLUMNS).npu() for _ in range(2))

    def program() -> None:
        torch._dynamo.reset()
        torch.compile(lambda x, y: function(x + y, y), fullgraph=True)(x, y)

    return sum(row.cycles.vector for row in check(program).rows if row.cycles is not None)


def passes(functions: dict[str, Function]) -> dict[str, float]:
    """For each of `functions`, its vector cycles beyond a sum's, as a multiple of those of one more addition."""
    alone = vector_cycles(lambda s, y: s)
    one = vector_cycles(lambda s, y: s + 3.0) - alone
    return {name: (vector_cycles(function) - alone) / one for name, function in functions.items()}


def main() -> None:
    """Prints the passes of each operator, as the cost model has them and as Ascend's compiler makes them."""
    table = Table("Operator", "cost model", "Ascend's compiler")
    for name, count in passes(OPERATORS).items():
        table.add_row(name, str(_OTHERS.get(name, PASSES.get(name, 1))), f"{count:.1f}")
    Console().print(table)


if __name__ == "__main__":
    typer.run(main)
