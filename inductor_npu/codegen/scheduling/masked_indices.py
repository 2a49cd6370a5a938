"""Drops the remainders in indices that a predicate around them makes needless.

Inductor reduces a tensor in parts of equal length, the last of which ends behind the tensor, and names the elements of
a part by `i % n`, for those with `i < n`. The remainder is `i`. With it, no vector goes along the row.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sympy
import torch
from torch._inductor.loop_body import LoopBody
from torch._inductor.scheduler import BaseSchedulerNode
from torch._inductor.virtualized import V
from torch.utils._sympy.functions import FloorDiv, ModularIndexing
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

from inductor_npu.support.optional_steps import Kind, optional_step

Nodes = list[BaseSchedulerNode]

_INDEX = "get_index"


@optional_step(Kind.INDICES, "masked indices")
def without_needless_remainders(nodes: Nodes) -> Nodes:
    """`nodes`, not fused yet, with simpler indices in the bodies of those on `npu`."""
    for node in nodes:
        device = node.get_device()
        body = getattr(node, "_body", None)  # None of a template
        if body is not None and device is not None and device.type == "npu":
            simplify(body)
    return nodes


def simplify(body: LoopBody) -> None:
    """Simplifies the indices that nothing but one block under a predicate `index < limit` uses."""
    users = _users(body)
    for block in (body.root_block, *body.subblocks.values()):
        for call in block.graph.nodes:
            if call.op != "call_module" or call.target not in body.subblocks:
                continue
            sides = _sides(call.args[0], body)
            if sides is None:
                continue
            for name in (name for name, blocks in users.items() if blocks == {call.target}):
                body.indexing_exprs[name] = _below(*sides, body.indexing_exprs[name], body)


def _users(body: LoopBody) -> dict[str, set[str]]:
    """The blocks that use each index of `body`, by name; "" is the outermost."""
    users: dict[str, set[str]] = {}
    for name, block in (("", body.root_block), *body.subblocks.items()):
        for node in block.graph.nodes:
            if node.op == "call_module" and node.target == _INDEX:
                users.setdefault(node.args[0], set()).add(name)
    return users


def _sides(predicate: Any, body: LoopBody) -> tuple[sympy.Expr, sympy.Expr] | None:
    """`index` and `limit` of the predicate `index < limit`; None for any other."""
    if not isinstance(predicate, torch.fx.Node) or predicate.target != "lt":
        return None
    sides = list(_indices(predicate.args[1:], body))
    return (sides[0], sides[1]) if len(sides) == 2 else None


def _indices(operands: Any, body: LoopBody) -> Iterator[sympy.Expr]:
    for operand in operands:
        if not isinstance(operand, torch.fx.Node):
            continue
        if operand.target == "constant" and isinstance(operand.args[1], int):
            yield sympy.Integer(operand.args[1])
        elif operand.target == "index_expr" and operand.args[1].target == _INDEX:
            yield body.indexing_exprs[operand.args[1].args[0]]


def _below(index: sympy.Expr, limit: sympy.Expr, address: sympy.Expr, body: LoopBody) -> sympy.Expr:
    """`address` where `index` < `limit`. Inductor's remainders are those of C, of numbers that are not negative
    (`ModularIndexing` in torch/utils/_sympy/functions.py).
    """

    def quotient(base: sympy.Expr, divisor: sympy.Expr, modulus: sympy.Expr) -> sympy.Expr:
        end = divisor * modulus
        if base == index and V.graph.sizevars.statically_known_equals(end, limit):
            return FloorDiv(base, divisor)
        if (_largest(base - index, body) + limit - end).is_nonpositive:
            return FloorDiv(base, divisor)
        return ModularIndexing(base, divisor, modulus)

    return address.replace(ModularIndexing, quotient)


def _largest(index: sympy.Expr, body: LoopBody) -> sympy.Expr:
    """The upper bound of `index` in the loops of `body`: infinity where nothing is known."""
    lengths = {symbol: body.var_ranges.get(symbol) for symbol in index.free_symbols}
    if not all(isinstance(length, int | sympy.Integer) for length in lengths.values()):
        return int_oo
    return bound_sympy(index, {symbol: ValueRanges(0, int(lengths[symbol]) - 1) for symbol in lengths}).upper
