"""Split points: where the dimensions of a kernel's loops start and end.

Loops that become one kernel run over the same number of elements, but each views them in its own shape: one as (64,
128), the next as 8192. In the flattened loop their dimensions start and end at *split points*, such as 1, 128 and 8192.
Where the split points divide each other there is one shape that refines all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import sympy
from torch._inductor.virtualized import V
from torch.utils._sympy.functions import FloorDiv

# (stride in the kernel's flattened loop, length) of a dimension
Dimension = tuple[sympy.Expr, sympy.Expr]


def is_multiple(number: sympy.Expr, divisor: sympy.Expr) -> bool:
    """Whether `number` is known to be a multiple of `divisor`. Both are expressions of sizes."""
    if _are_numbers(number, divisor) and divisor != 0:
        return number % divisor == 0
    # PyTorch does not see factors of sums: (n // 2)**2 + 2 * (n // 2) + 1 is a multiple of n // 2 + 1.
    return V.graph.sizevars.statically_known_multiple_of(number, divisor) or _exact(number, divisor) is not None


def equal(a: sympy.Expr, b: sympy.Expr) -> bool:
    """Whether `a` and `b` are known to be equal."""
    if _are_numbers(a, b):
        return a == b
    return V.graph.sizevars.statically_known_equals(a, b)


def quotient(number: sympy.Expr, divisor: sympy.Expr) -> sympy.Expr:
    """Returns `number / divisor`, for a `number` that is known to be a multiple."""
    if _are_numbers(number, divisor):
        return number // divisor
    exact = _exact(number, divisor)
    return FloorDiv(number, divisor) if exact is None else exact


def _exact(number: sympy.Expr, divisor: sympy.Expr) -> sympy.Expr | None:
    """`number / divisor` without a denominator; None if there is no such form."""
    if divisor == 0:
        return None
    exact = V.graph.sizevars.simplify(sympy.cancel(number / divisor))
    denominator = sympy.denom(sympy.together(exact))  # of all terms of a sum: `n + n * k / 2` has one, too
    return exact if denominator == 1 else None


def product(factors: Iterable[sympy.Expr]) -> sympy.Expr:
    """Returns the simplified product of `factors`."""
    result = sympy.Mul(*factors)
    return result if _are_numbers(result) else V.graph.sizevars.simplify(result)


def _are_numbers(*sizes: sympy.Expr) -> bool:
    """Whether nothing has to be proven. Without dynamic sizes that saves most of the time that axes take."""
    return all(isinstance(size, sympy.Integer) for size in sizes)


class SplitPoints:
    """The split points of a kernel whose pointwise loops have `numel` elements and whose reductions have
    `reduction_numel`.

    They are in ascending order, in elements of the flattened loop; each is a multiple of the one before. With
    `whole_rows` there is none inside a reduced row.
    """

    def __init__(self, numel: sympy.Expr, reduction_numel: sympy.Expr, whole_rows: bool = False) -> None:
        sizes = V.graph.sizevars
        self.numel = sizes.simplify(numel)
        self.reduction_numel = sizes.simplify(reduction_numel)
        self._whole_rows = whole_rows
        self.all: list[sympy.Expr] = [sympy.S.One]
        for point in (self.reduction_numel, product([self.numel, self.reduction_numel])):
            if not equal(point, self.all[-1]):
                self.all.append(point)

    def dimensions(self, lengths: Sequence[Sequence[sympy.Expr]]) -> list[Dimension]:
        """Returns the dimensions of a loop nest with these (pointwise, reduction) lengths, from the outermost inwards.

        Raises AssertionError if the nest does not have the kernel's number of elements.
        """
        outer, inner = lengths
        found: list[Dimension] = []
        stride = sympy.S.One
        for length in reversed(inner):
            found.append((stride, length))
            stride = product([stride, length])
        if equal(product(outer), self.numel):
            stride = self.reduction_numel
        elif inner or not equal(product(outer), product([self.numel, self.reduction_numel])):
            raise AssertionError(f"a loop of {outer} x {inner} in a kernel of {self.numel} x {self.reduction_numel}")
        for length in reversed(outer):
            found.append((stride, length))
            stride = product([stride, length])
        return found[::-1]

    def add(self, point: sympy.Expr) -> bool:
        """Adds the split point `point` if it fits the others; returns whether it is one now."""
        if self.position_of(point) is not None:
            return True
        if self._whole_rows and not is_multiple(point, self.reduction_numel):
            return False
        for position, (below, above) in enumerate(zip(self.all, self.all[1:], strict=False)):
            if is_multiple(point, below) and is_multiple(above, point):
                self.all.insert(position + 1, point)
                return True
        return False

    def add_all_of(self, nodes: Iterable[Any]) -> bool:
        """Adds those split points of the loops of `nodes` that fit; returns whether all of them did."""
        every = [
            self.add(point)
            for node in nodes
            for stride, length in self.dimensions(node.get_ranges())
            for point in (stride, product([stride, length]))
        ]
        return all(every)

    def position_of(self, point: sympy.Expr) -> int | None:
        """Returns the position of `point` among the split points, from 0; None if it is not one."""
        return next((position for position, other in enumerate(self.all) if equal(point, other)), None)
