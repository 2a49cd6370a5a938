"""Folds predicates on indices that hold, or fail, throughout a loop: only what they select remains.

In a subdomain of an axis (`subdomains.py`) a predicate such as `x >= 64` is constant, and in any loop one that the
length of the axis decides. Of `where(x >= 64, a, b)` remains `a`. Of a value that is loaded under the predicate remains
a plain load, or the constant that stands elsewhere. Therefore indices, integers and predicates are handed on
unevaluated, and become values of the kernel when another operator needs them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import sympy
import torch
from torch._inductor.codegen.simd_kernel_features import SIMDKernelFeatures
from torch._inductor.dtype_propagation import DtypePropagationOpsHandler
from torch._inductor.ops_handler import DefaultHandler, WrapperHandler
from torch._inductor.virtualized import OpsWrapper, V
from torch.utils._sympy.symbol import SymT, symbol_is_type

from inductor_npu.codegen.analysis.axes import Axes
from inductor_npu.codegen.index.affine import affine
from inductor_npu.codegen.index.bounds import ALL_COMPARISONS, COMPARISONS, CONJUNCTIONS, difference_of
from inductor_npu.codegen.index.solutions import indices_where
from inductor_npu.codegen.index.wide_indices import MAXIMUM, MINIMUM

_OR = ("or_", "logical_or", "bitwise_or")
_NOT = ("logical_not", "bitwise_not")
_INDEX_TYPES = (torch.int32, torch.int64)
_INDICES = ("index_expr", "value_expr")


@dataclass(eq=False)
class Deferred:
    """The result of an operator that is not evaluated yet; `value` once it is.

    `number`: the integer or index that it is, in the axes' symbols; None for a predicate.

    `node`: the node of the graph whose result it is. Inductor takes bounds from the node that is being computed, if
    that node has the same operator. So this node has to be the current one when `value` is computed, whichever node
    asks for it.
    """

    operator: str
    arguments: tuple[Any, ...]
    number: sympy.Expr | None = None
    value: Any = field(default=None, repr=False)
    node: torch.fx.Node = field(default_factory=lambda: V.interpreter.current_node, repr=False)
    shape: ClassVar[tuple[()]] = ()

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of its value. `_Types` meets a Deferred where the body of a mask refers to values around it."""
        return torch.bool if self.number is None else self.arguments[1]


@dataclass(frozen=True)
class _At:
    """Says which node of the graph is being computed, as the interpreter of the graph does."""

    current_node: torch.fx.Node


# Takes a predicate that is needed and not constant: a difference of indices, and whether it is tested for being 0
# rather than for being at least 0.
OnUnknown = Callable[[sympy.Expr, bool], None]


class PredicateFolding(WrapperHandler):
    """Hands `inner` the operators of loops over `axes`, without what a constant predicate leaves out."""

    def __init__(self, inner: Any, axes: Axes, on_unknown: OnUnknown | None = None) -> None:
        super().__init__(inner)
        self._axes = axes
        self._on_unknown = on_unknown

    def _default(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if name in _INDICES and (index := self._index(args[0])) is not None:
            settled = self._settled(args[0])
            return Deferred(name, (settled, *args[1:]), self._index(settled))
        if name == "constant" and isinstance(args[0], int) and not isinstance(args[0], bool):
            return Deferred(name, args, sympy.Integer(args[0]))
        if name == "to_dtype" and args[1] in _INDEX_TYPES and (index := _number(args[0])) is not None:
            return Deferred(name, args, index)
        if name in ALL_COMPARISONS:
            return self._comparison(name, args)
        if name in (*CONJUNCTIONS, *_OR, *_NOT) and any(is_condition(arg) for arg in args):
            return _joined(name, args)
        if name == "where" and (holds := _truth(args[0])) is not None:
            return args[1] if holds else args[2]
        if name == "masked" and (holds := _truth(args[0])) is not None:
            return args[1]() if holds else self._filling(*args[1:])
        if name == "masked":
            mask, body, other = args
            args = (mask, lambda: self._wanted(OpsWrapper._unwrap(body())), other)
        return super()._default(
            name, tuple(map(self._wanted, args)), {key: self._wanted(arg) for key, arg in kwargs.items()}
        )

    def _index(self, expr: sympy.Expr) -> sympy.Expr | None:
        """`expr` in the axes' symbols; None if it depends on loaded values."""
        if any(symbol_is_type(symbol, (SymT.TMP, SymT.INDIRECT)) for symbol in expr.free_symbols):
            return None
        return self._axes.simplify(expr)

    def _settled(self, index: sympy.Expr) -> sympy.Expr:
        """`index` without the arguments of minima and maxima that are known never to be the result."""
        return index.replace(lambda part: isinstance(part, (*MINIMUM, *MAXIMUM)), self._chosen)

    def _chosen(self, choice: sympy.Expr) -> sympy.Expr:
        """`choice`, a minimum or maximum, of the arguments that may be its result."""
        left = list(choice.args)
        for number in choice.args:
            others = (other for other in left if other is not number)
            if any(self._surpasses(other, number, isinstance(choice, MAXIMUM)) for other in others):
                left.remove(number)
        return choice.func(*left)

    def _surpasses(self, number: sympy.Expr, other: sympy.Expr, upwards: bool) -> bool:
        difference = self._axes.simplify(number - other if upwards else other - number)
        return _holds("ge", difference, self._axes) is True

    def _comparison(self, name: str, args: tuple[Any, ...]) -> Any:
        left, right = map(_number, args)
        if left is None or right is None:
            return super()._default(name, tuple(map(self._wanted, args)), {})
        holds = _holds(name, left - right, self._axes)
        return Deferred(name, args) if holds is None else _known(holds)

    def _wanted(self, argument: Any) -> Any:
        """`argument` as `inner` knows it: evaluated."""
        if isinstance(argument, (tuple, list)):
            return type(argument)(self._wanted(part) for part in argument)
        if not isinstance(argument, Deferred):
            return argument
        if argument.value is None:
            if argument.operator in ALL_COMPARISONS and self._on_unknown is not None:
                left, right = map(_number, argument.arguments)
                assert left is not None and right is not None
                self._on_unknown(*_as_difference(argument.operator, left - right))
            if argument.operator in _INDICES and self._on_unknown is not None:
                for choice in argument.arguments[0].atoms(*MINIMUM, *MAXIMUM):
                    for first, second in itertools.pairwise(choice.args):
                        self._on_unknown(sympy.expand(self._axes.simplify(first - second)), False)
            given = tuple(self._wanted(part) for part in argument.arguments)
            with V.set_interpreter_handler(_At(argument.node)):
                argument.value = super()._default(argument.operator, given, {})
        return argument.value

    def _filling(self, body: Callable[[], Any], other: Any) -> Any:
        """`other` in the dtype of the result of `body`."""
        with V.set_ops_handler(_Types()):
            dtype = body().dtype
        return self.constant(bool(other) if dtype == torch.bool else other, dtype)


def are_in(features: SIMDKernelFeatures) -> bool:
    """Returns whether the loops of `features` may have predicates on indices that are folded.

    The combining function of a scan stays as it is: its result is text that other loops call.
    """
    nodes = features.scheduler_nodes()
    return not features.contains_op("scan") and any(node._body.has_op(name) for node in nodes for name in _INDICES)


def is_condition(argument: Any) -> bool:
    """Whether `argument` is a predicate on indices, constant or not."""
    return isinstance(argument, Deferred) and argument.number is None


def _known(holds: bool) -> Deferred:
    return Deferred("constant", (holds, torch.bool))


def _truth(argument: Any) -> bool | None:
    """Whether the predicate `argument` holds; None if that is unknown, or `argument` is not a predicate."""
    return argument.arguments[0] if is_condition(argument) and argument.operator == "constant" else None


def _joined(name: str, args: tuple[Any, ...]) -> Deferred:
    """and, or and not, of which at least one argument is a predicate."""
    truths = [_truth(arg) for arg in args]
    if name in _NOT:
        return Deferred(name, args) if truths[0] is None else _known(not truths[0])
    decisive = name in _OR
    if decisive in truths:
        return _known(decisive)
    uncertain = [arg for arg, truth in zip(args, truths, strict=True) if truth is None]
    if not uncertain:
        return _known(not decisive)
    return uncertain[0] if len(uncertain) == 1 else Deferred(name, args)


def _number(argument: Any) -> sympy.Expr | None:
    if isinstance(argument, int) and not isinstance(argument, bool):
        return sympy.Integer(argument)
    return argument.number if isinstance(argument, Deferred) else None


def _as_difference(name: str, difference: sympy.Expr) -> tuple[sympy.Expr, bool]:
    """`left name right` with the given left - right, over integers: (d, False) stands for d >= 0, (d, True) for d == 0
    or its negation.
    """
    if name in COMPARISONS:
        return sympy.expand(difference_of(name, difference, sympy.S.Zero)), False
    return sympy.expand(difference), True


def _holds(name: str, difference: sympy.Expr, axes: Axes) -> bool | None:
    """Whether a comparison holds for all indices, or for none; None if neither is known."""
    difference, equality = _as_difference(name, difference)
    ends = _ends(difference, axes)
    if ends is None:
        holding = indices_where(difference, equality, axes.lengths)
        if holding is None or (holding.indices and not holding.is_everywhere):
            return None
        return holding.is_everywhere == (name != "ne")
    least, most = ends
    sizes = V.graph.sizevars
    if not equality:
        if sizes.statically_known_leq(0, least):
            return True
        return False if sizes.statically_known_lt(most, 0) else None
    if sizes.statically_known_lt(0, least) or sizes.statically_known_lt(most, 0):
        return name == "ne"
    if sizes.statically_known_equals(least, 0) and sizes.statically_known_equals(most, 0):
        return name == "eq"
    return None


def _ends(difference: sympy.Expr, axes: Axes) -> tuple[sympy.Expr, sympy.Expr] | None:
    """The least and the largest value of `difference`; None if they are unknown."""
    lengths = axes.lengths
    taken = affine(difference, lengths)
    if taken.nonlinear:
        return None
    least = most = taken.offset
    for symbol, stride in taken.strides.items():
        reach = stride * (lengths[symbol] - 1)
        if stride.is_nonnegative:
            most += reach
        elif stride.is_nonpositive:
            least += reach
        else:
            return None
    return sympy.expand(least), sympy.expand(most)


@dataclass(frozen=True)
class _Typed:
    dtype: torch.dtype
    shape: tuple[()] = ()


class _Types(DefaultHandler):
    """Evaluates operators for the dtypes of their results only."""

    def _default(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        dtype = getattr(DtypePropagationOpsHandler(), name)(*args, **kwargs)
        return tuple(map(_Typed, dtype)) if isinstance(dtype, tuple) else _Typed(dtype)

    def masked(self, mask: Any, body: Callable[[], Any], other: Any) -> Any:
        return body()

    def indirect_indexing(self, x: Any, size: Any, check: bool = True, wrap_neg: bool = True) -> sympy.Symbol:
        return sympy.Symbol("position", integer=True)

    def check_bounds(self, expr: sympy.Expr, size: sympy.Expr, lower: bool, upper: bool) -> None:
        return None
