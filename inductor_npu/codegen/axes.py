"""The axes of a kernel: its loop variables, split and merged until every address is affine in them.

Loops that become one kernel run over the same number of elements, but each sees them in its own shape: one as
(64, 128), the next as 8192. Written as offsets of the flattened loop, their dimensions start and end at *cuts*, such as
1, 128 and 8192. Where the cuts divide each other there is one shape that refines all of them; a `//` or `%` in an
address asks for a cut of its own. Neighbouring axes that every address crosses without a gap become one again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import sympy
from torch._inductor.utils import sympy_subs
from torch._inductor.virtualized import V
from torch.utils._sympy.functions import FloorDiv, Identity, ModularIndexing

# Names of axes from the innermost outwards; none begins like one of Inductor's kinds of symbols.
_POINTWISE_NAMES = ("x", "y", "z", "w", "v", "q", "p", "n", "m", "k", "g", "f", "e", "d", "c", "b")

# What a size that only the data say is expected to be.
_UNKNOWN_LENGTH = 8192

# Rounds of looking for `//` and `%` in addresses: one split may bring another to light.
_ROUNDS = 3


class CannotSplit(Exception):
    """Two loops of one kernel see its elements in shapes that no common shape refines."""


@dataclass(frozen=True)
class Axis:
    """One loop variable of a kernel.

    `prefix` begins the names of its block, offset, mask and length in the kernel's source ("x": XBLOCK, xnumel);
    `symbol` stands for its index in addresses; `stride` is how many elements of the kernel's loop lie between two
    neighbours along it.
    """

    prefix: str
    symbol: sympy.Symbol
    length: sympy.Expr
    stride: sympy.Expr
    is_reduction: bool


@dataclass(frozen=True)
class Affine:
    """An address: `offset + sum(strides[symbol] * symbol)`, and the symbols that it depends on in any other way."""

    strides: dict[sympy.Symbol, sympy.Expr]
    nonlinear: frozenset[sympy.Symbol]
    offset: sympy.Expr

    @property
    def symbols(self) -> set[sympy.Symbol]:
        return {*self.strides, *self.nonlinear}


def hint(expr: Any) -> int:
    """The length that a dynamic size is expected to have; a known one is itself."""
    sizes = V.graph.sizevars
    if hasattr(sizes, "optimization_hint"):
        return int(sizes.optimization_hint(expr))
    return int(sizes.size_hint(expr, fallback=_UNKNOWN_LENGTH))  # torch 2.11


def affine(expr: sympy.Expr, symbols: Iterable[sympy.Symbol]) -> Affine:
    """Takes `expr` apart with respect to `symbols`; other symbols are constants."""
    symbols = frozenset(symbols)
    strides: dict[sympy.Symbol, sympy.Expr] = {}
    nonlinear: set[sympy.Symbol] = set()
    offset: list[sympy.Expr] = []
    for term in sympy.Add.make_args(sympy.expand(expr)):
        among = term.free_symbols & symbols
        if not among:
            offset.append(term)
            continue
        symbol = next(iter(among))
        stride = term / symbol
        if len(among) == 1 and not stride.free_symbols & symbols:
            strides[symbol] = strides.get(symbol, sympy.S.Zero) + stride
        else:
            nonlinear |= among
    for symbol in nonlinear:
        strides.pop(symbol, None)
    return Affine(strides, frozenset(nonlinear), sympy.Add(*offset))


def _is_multiple(number: sympy.Expr, divisor: sympy.Expr) -> bool:
    return V.graph.sizevars.statically_known_multiple_of(number, divisor)


def _equal(a: sympy.Expr, b: sympy.Expr) -> bool:
    return V.graph.sizevars.statically_known_equals(a, b)


def _quotient(number: sympy.Expr, divisor: sympy.Expr) -> sympy.Expr:
    """`number / divisor` for a known multiple."""
    exact = V.graph.sizevars.simplify(sympy.cancel(number / divisor))
    denominator = sympy.fraction(exact)[1]
    return exact if denominator == 1 else FloorDiv(number, divisor)


def _product(lengths: Iterable[sympy.Expr]) -> sympy.Expr:
    return V.graph.sizevars.simplify(sympy.Mul(*lengths))


class Axes:
    """The axes of a kernel whose pointwise loops have `numel` elements and whose reductions have `reduction_numel`.

    `pointwise` and `reduction` list the axes from the outermost inwards; with `whole_rows` there is at most one for
    reductions. Raises CannotSplit if no axes fit all loops.
    """

    pointwise: list[Axis]
    reduction: list[Axis]

    def __init__(
        self, nodes: Sequence[Any], numel: sympy.Expr, reduction_numel: sympy.Expr, whole_rows: bool = False
    ) -> None:
        sizes = V.graph.sizevars
        self.numel = sizes.simplify(numel)
        self.reduction_numel = sizes.simplify(reduction_numel)
        self._cuts: list[sympy.Expr] = [sympy.S.One]
        for cut in (self.reduction_numel, _product([self.numel, self.reduction_numel])):
            if not _equal(cut, self._cuts[-1]):
                self._cuts.append(cut)
        for node in nodes:
            for divisor, length in self._loops(node.get_ranges()):
                for cut in (divisor, _product([divisor, length])):
                    if not self._add_cut(cut):
                        raise CannotSplit(
                            f"{node.get_name()} has the shape {node.get_ranges()}, which no cut at {cut} fits"
                        )
        self._set_parts()
        for _ in range(_ROUNDS):
            addresses = self._addresses(nodes)
            if not self._cut_at_divisions(addresses, self.reduction_numel if whole_rows else sympy.S.One):
                break
            self._set_parts()
        self._merge([affine(self._in_parts(address), self._parts) for address in addresses])
        if whole_rows and len(self.reduction) > 1:
            raise CannotSplit(f"rows of {self.reduction_numel} elements that loops see in several dimensions")

    # -- cuts ---------------------------------------------------------------------------------------------------------

    def _loops(self, lengths: Sequence[Sequence[sympy.Expr]]) -> list[tuple[sympy.Expr, sympy.Expr]]:
        """(stride in the kernel's flattened loop, length) of each dimension of a loop nest, in order."""
        outer, inner = lengths
        strides: list[tuple[sympy.Expr, sympy.Expr]] = []
        stride = sympy.S.One
        for length in reversed(inner):
            strides.append((stride, length))
            stride = _product([stride, length])
        if _equal(_product(outer), self.numel):
            stride = self.reduction_numel
        elif inner or not _equal(_product(outer), _product([self.numel, self.reduction_numel])):
            raise CannotSplit(f"a loop of {outer} x {inner} in a kernel of {self.numel} x {self.reduction_numel}")
        for length in reversed(outer):
            strides.append((stride, length))
            stride = _product([stride, length])
        return strides[::-1]

    def _add_cut(self, cut: sympy.Expr) -> bool:
        """Whether there is a cut at `cut` now."""
        for position, (below, above) in enumerate(zip(self._cuts, self._cuts[1:], strict=False)):
            if _equal(cut, below) or _equal(cut, above):
                return True
            if _is_multiple(cut, below) and _is_multiple(above, cut):
                self._cuts.insert(position + 1, cut)
                return True
        return _equal(cut, self._cuts[-1])

    def _set_parts(self) -> None:
        """One symbol for what lies between two neighbouring cuts, from the innermost outwards."""
        spans = zip(self._cuts, self._cuts[1:], strict=False)
        self._parts = {
            sympy.Symbol(f"a{position}", integer=True, nonnegative=True): _quotient(above, below)
            for position, (below, above) in enumerate(spans)
        }

    def _cut_at_divisions(self, addresses: Iterable[sympy.Expr], least: sympy.Expr) -> bool:
        """Adds the cuts at multiples of `least` that make a `//` or `%` vanish; whether there were any."""
        count = len(self._cuts)
        strides = dict(zip(self._parts, self._cuts, strict=False))
        for address in addresses:
            for division in address.atoms(FloorDiv, ModularIndexing):
                divisor = division.args[1]
                bounds = [divisor, *([_product([divisor, division.args[2]])] if len(division.args) == 3 else [])]
                for part, step in affine(division.args[0], self._parts).strides.items():
                    for bound in bounds:
                        if not bound.is_positive or not step.is_positive or not _is_multiple(bound, step):
                            continue
                        length = _quotient(bound, step)
                        cut = _product([strides[part], length])
                        is_split = not _equal(length, sympy.S.One) and _is_multiple(self._parts[part], length)
                        if is_split and _is_multiple(cut, least):
                            self._add_cut(cut)
        return len(self._cuts) > count

    def _merge(self, addresses: Sequence[Affine]) -> None:
        """Joins neighbouring parts that every address crosses without a gap, and names the axes."""
        groups: list[list[sympy.Symbol]] = []
        parts = list(self._parts)
        for position, part in enumerate(parts):
            at_boundary = _equal(self._cuts[position], self.reduction_numel)
            if groups and not at_boundary and self._seamless(groups[-1], part, addresses):
                groups[-1].append(part)
            else:
                groups.append([part])
        self.pointwise, self.reduction = [], []
        self._substitution: dict[sympy.Symbol, sympy.Expr] = {}
        self._joined: list[tuple[list[sympy.Symbol], Axis]] = []
        strides = dict(zip(self._parts, self._cuts, strict=False))
        for group in groups:
            stride = strides[group[0]]
            is_reduction = not _is_multiple(stride, self.reduction_numel)
            among = self.reduction if is_reduction else self.pointwise
            prefix = f"r{len(among)}_" if is_reduction else _POINTWISE_NAMES[len(among)]
            symbol = sympy.Symbol(prefix.rstrip("_"), integer=True, nonnegative=True)
            axis = Axis(prefix, symbol, _product(self._parts[part] for part in group), stride, is_reduction)
            among.append(axis)
            self._joined.append((group, axis))
        self.pointwise.reverse()
        self.reduction.reverse()

    def _seamless(self, group: list[sympy.Symbol], part: sympy.Symbol, addresses: Sequence[Affine]) -> bool:
        length = _product(self._parts[inner] for inner in group)
        for address in addresses:
            if part in address.nonlinear or any(inner in address.nonlinear for inner in group):
                return False
            step = address.strides.get(group[0], sympy.S.Zero)
            if not _equal(address.strides.get(part, sympy.S.Zero), _product([step, length])):
                return False
        return True

    # -- addresses ----------------------------------------------------------------------------------------------------

    def _addresses(self, nodes: Sequence[Any]) -> list[sympy.Expr]:
        found: dict[sympy.Expr, None] = {}
        for node in nodes:
            variables = self.index_variables(node.get_ranges())
            found.update(dict.fromkeys(node._body.indexing_from_args(variables).values()))
        return [self._in_parts(address) for address in found]

    def _in_parts(self, address: sympy.Expr) -> sympy.Expr:
        address = sympy.sympify(address).replace(Identity, lambda inner: inner)
        return V.graph.sizevars.simplify_with_ranges(address, self._parts)

    def index_variables(self, lengths: Sequence[Sequence[sympy.Expr]]) -> list[list[sympy.Expr]]:
        """What the loop variables of a nest with these (pointwise, reduction) lengths are in this kernel."""
        variables = []
        for stride, length in self._loops(lengths):
            end = _product([stride, length])
            spans = zip(self._parts, self._cuts, self._cuts[1:], strict=False)
            inside = [
                part * _quotient(below, stride)
                for part, below, above in spans
                if _is_multiple(below, stride) and _is_multiple(end, above) and not _equal(length, sympy.S.One)
            ]
            variables.append(sympy.Add(*inside))
        count = len(lengths[0])
        return [variables[:count], variables[count:]]

    def is_simplified(self, address: sympy.Expr) -> bool:
        """Whether `address` is in terms of the axes' symbols already."""
        return self._parts.keys().isdisjoint(address.free_symbols)

    def simplify(self, address: sympy.Expr) -> sympy.Expr:
        """`address`, in terms of `index_variables`, in terms of the axes' symbols."""
        address = self._in_parts(address)
        taken = affine(address, self._parts)
        replaced: dict[sympy.Symbol, sympy.Expr] = {}
        for group, axis in self._joined:
            if len(group) == 1 or (
                not taken.nonlinear.intersection(group)
                and all(self._seamless(group[:place], group[place], [taken]) for place in range(1, len(group)))
            ):
                replaced |= dict.fromkeys(group[1:], sympy.S.Zero) | {group[0]: axis.symbol}
                continue
            inner = sympy.S.One
            for part in group:
                replaced[part] = ModularIndexing(axis.symbol, inner, self._parts[part])
                inner = _product([inner, self._parts[part]])
        return sympy_subs(address, replaced)
