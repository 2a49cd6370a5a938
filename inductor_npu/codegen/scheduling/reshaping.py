"""Whether a pointwise loop could access memory as a reduction does, if it had the reduction's two lengths.

Inductor tries that with pairs of loops that share a buffer and that it would not join otherwise: it traces the loop
anew in `rows * columns`, twice, and keeps that shape if an access of both has become the same. Most tries fail, and
each takes up to a quarter of a second. Where they must fail follows from the addresses as they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sympy
from torch._inductor.dependencies import MemoryDep

from inductor_npu.codegen.index.affine import affine

Steps = list[tuple[int, int]]  # (stride, length) of loops, from the outermost inwards


@dataclass(frozen=True)
class _Access:
    """An address within loops over `symbols` of so many `lengths`, from the outermost inwards."""

    address: sympy.Expr
    symbols: tuple[sympy.Symbol, ...]
    lengths: tuple[int, ...]

    def steps(self) -> Steps | None:
        """The loops, without those of one round, neighbours joined where nothing lies between them. None where the
        address is no sum of multiples of the symbols.
        """
        taken = affine(self.address, self.symbols)
        if taken.nonlinear:
            return None
        strides = [int(taken.strides.get(symbol, 0)) for symbol in self.symbols]
        return _joined(list(zip(strides, self.lengths, strict=True)))


def may_share(node1: Any, node2: Any) -> bool:
    """Whether an access of one scheduler node, a pointwise loop, may become one of the other, a reduction, in the
    latter's shape. False only where that is certain; True for what is no such pair.
    """
    reduction, pointwise = (node1, node2) if node1.is_reduction() else (node2, node1)
    if pointwise.is_reduction() or not reduction.is_reduction():
        return True
    lengths = reduction.group[1]
    if len(lengths) != 2 or not all(map(_is_known, lengths)):
        return True  # the loops of a foreach operator have no lengths in common
    names = reduction.read_writes.buffer_names() & pointwise.read_writes.buffer_names()
    shape = int(lengths[0]), int(lengths[1])
    for theirs in reduction.read_writes.reads_and_writes():
        if theirs.name not in names or not isinstance(theirs, MemoryDep):
            continue
        if len(theirs.normalize().size) > len(shape):
            continue  # neighbouring loops joined, it still has more than the pointwise loop will
        fixed = _access(theirs.index, theirs.var_names, theirs.size)
        accesses = list(_accesses(pointwise, theirs.name))
        if fixed is None or not accesses or any(own is None or _may_agree(own, shape, fixed) for own in accesses):
            return True
    return False


def _is_known(length: Any) -> bool:
    return isinstance(length, (int, sympy.Integer))


def _accesses(node: Any, name: str) -> Iterator[_Access | None]:
    """Where the loops of `node` access buffer `name`; None for an address that depends on data or on dynamic sizes."""
    for loop in node.get_nodes():
        body = loop._body
        for address in (*body.get_all_read_expr(name), *body.get_all_write_expr(name)):
            yield _access(address, body.iter_vars, body.sizes[0])


def _access(address: Any, symbols: Sequence[sympy.Symbol], lengths: Sequence[Any]) -> _Access | None:
    address = sympy.sympify(address)
    if not address.free_symbols <= set(symbols) or not all(map(_is_known, lengths)):
        return None
    return _Access(address, tuple(symbols), tuple(map(int, lengths)))


def _may_agree(own: _Access, shape: tuple[int, int], fixed: _Access) -> bool:
    """Whether `own`, in a loop of that shape, may be the same access as `fixed`, in any order of its loops."""
    steps, theirs = own.steps(), fixed.steps()
    if steps is None or theirs is None or math.prod(own.lengths) != math.prod(shape):
        return True
    reshaped = _reshaped(steps, columns=shape[1])
    return reshaped is not None and _is_same(reshaped, theirs)


def _joined(steps: Steps) -> Steps:
    joined: Steps = []
    for stride, length in steps:
        if length == 1:
            continue
        if joined and joined[-1][0] == stride * length:
            joined[-1] = (stride, joined[-1][1] * length)
        else:
            joined.append((stride, length))
    return joined


def _reshaped(steps: Steps, columns: int) -> Steps | None:
    """The steps along rows and along columns; None where the address has `//` or `%` in terms of them."""
    outer, left = [*steps], columns
    inner: Steps = []
    while left > 1:
        stride, length = outer.pop()
        taken = math.gcd(left, length)
        if taken not in (left, length):
            return None
        inner.append((stride, taken))
        left //= taken
        if taken < length:
            outer.append((stride * taken, length // taken))
    return [*outer, *inner] if len(outer) <= 1 and len(inner) <= 1 else None


def _is_same(one: Steps, other: Steps) -> bool:
    """Whether two nests of loops may access the same addresses, as far as the order of the loops is free. A nest may
    have been stripped of loops that the address does not depend on.
    """
    idle, idle_other = (math.prod(length for stride, length in steps if not stride) for steps in (one, other))
    moving, moving_other = (
        _joined(sorted((step for step in steps if step[0]), key=lambda step: (abs(step[0]), step[1]), reverse=True))
        for steps in (one, other)
    )
    return moving == moving_other and idle_other in (1, idle)
