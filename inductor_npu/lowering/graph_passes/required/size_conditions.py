"""Several conditions on dynamic sizes at once, which operators take as numbers: `torch.full((2,), (n >= 4) & (m < 3))`.

Inductor simplifies what it is given for a number as it does an index. A comparison it can, a combination of several
it cannot ("'And' object has no attribute 'expand'"): such a `condition` becomes `sym_ite(condition, 1, 0) == 1`.
"""

from __future__ import annotations

import operator

import torch
from sympy.logic.boolalg import BooleanFunction


def apply(graph: torch.fx.Graph) -> int:
    """Has operators of `graph` take combined conditions as comparisons; returns how many conditions there were."""
    rewritten = 0
    for node in list(graph.nodes):
        value = node.meta.get("val")
        takers = [user for user in node.users if isinstance(user.target, torch._ops.OpOverload)]
        if not (isinstance(value, torch.SymBool) and isinstance(value.node.expr, BooleanFunction) and takers):
            continue
        with graph.inserting_after(node):
            number = graph.call_function(torch.sym_ite, (node, 1, 0))
        with graph.inserting_after(number):
            comparison = graph.call_function(operator.eq, (number, 1))
        number.meta["val"] = torch.sym_ite(value, 1, 0)
        comparison.meta["val"] = number.meta["val"] == 1
        for user in takers:
            user.replace_input_with(node, comparison)
        rewritten += 1
    return rewritten
