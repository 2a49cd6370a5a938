"""Records what a kernel reads, writes and holds: runs its loops with names instead of values."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import sympy
import torch
from torch._inductor.ops_handler import DefaultHandler
from torch._inductor.utils import sympy_index_symbol
from torch._inductor.virtualized import V

from inductor_npu.codegen.analysis.axes import Axes
from inductor_npu.codegen.analysis.wide_addresses import WideAddresses, may_be_in
from inductor_npu.codegen.index.affine import Affine, affine
from inductor_npu.codegen.index.bounds import COMPARISONS, CONJUNCTIONS, Bounds, difference_of
from inductor_npu.codegen.index.conditions import Condition, implied_bounds
from inductor_npu.codegen.index.index_values import by_operators
from inductor_npu.codegen.index.vector_text import is_vector_text
from inductor_npu.tiling.cost import PASSES, REDUCTION_PASSES

Symbols = frozenset[sympy.Symbol]

# Results of operators that give more than one value.
_SEVERAL = {"welford_reduce": 3, "welford_combine": 3, "online_softmax_reduce": 2}

# Operators that are written without a comparison: arithmetic, logic, and selections by an existing predicate.
_WITHOUT_COMPARISON = frozenset(
    {
        *("add", "sub", "mul", "truediv", "div_rn", "mul_rn", "fma", "neg", "abs", "square", "reciprocal"),
        *("exp", "exp2", "log", "log2", "log10", "sqrt", "rsqrt", "sigmoid", "sin", "cos", "erf", "floor", "ceil"),
        *("maximum", "minimum", "where", "and_", "or_", "xor", "logical_and", "logical_or", "logical_not"),
        *("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "to_dtype_bitcast", "identity"),
    }
)

# Tiles that a scan or sort holds beside arguments and results, as Ascend's compiler lays them out.
_TILES_OF_A_SCAN = 4
_TILES_OF_A_SORT = 6


@dataclass(eq=False)
class Value:
    """A value of the kernel: the axes along which it varies, bytes of an element, and when it is used last; the loads
    that it depends on, and how many reductions must be finished before it.

    `index`: the index or integer that it is, in the axes' symbols. `condition`: the predicate that it is, as far as it
    is one on indices. `held_size`: bytes of an element in its own dtype, if it was loaded.
    """

    axes: Symbols
    item_size: int
    born: int
    last_use: int
    loads: frozenset[int]
    depth: int
    index: sympy.Expr | None = None
    condition: Condition | None = None
    held_size: int = 4


@dataclass(frozen=True)
class Access:
    """One load or store at `index`, in elements, in the symbols of axes and loaded indices.

    `indirect` are the axes on which the address depends through loaded values. `masked` are the axes of the predicates
    under which the access is made, `bounds` what they imply of all axes. `passes`: in how many loops over the
    reduced axes it stands, if they are looped over. `loaded` has the loaded indices in it, each with a limit that it is
    below. `is_conditional`: it is made under a predicate, of which `condition` is what is known; without it the index
    would be `raw_index`. `conditions_before` are the predicates of all values that exist before a store.
    """

    buffer: str
    item_size: int
    address: Affine
    indirect: Symbols
    is_store: bool
    index: sympy.Expr
    masked: Symbols = frozenset()
    passes: int = 1
    bounds: Bounds | None = None
    loaded: Mapping[sympy.Symbol, sympy.Expr] = field(default_factory=dict)
    raw_index: sympy.Expr = sympy.S.Zero
    is_conditional: bool = False
    condition: Condition | None = None
    conditions_before: tuple[Condition, ...] = ()

    @property
    def axes(self) -> Symbols:
        """The axes on which the address depends."""
        return self.indirect.union(self.address.symbols)

    def unit_axis(self) -> sympy.Symbol | None:
        """The axis along which neighbours are neighbours in memory."""
        for symbol, stride in self.address.strides.items():
            if stride == 1 and symbol not in self.indirect:
                return symbol
        return None

    def row(self) -> tuple[sympy.Symbol, int] | None:
        """The axis along which elements lie closest, and their distance in elements."""
        steps = {
            symbol: abs(int(step))
            for symbol, step in self.address.strides.items()
            if isinstance(step, sympy.Integer) and symbol not in self.indirect
        }
        return min(steps.items(), key=lambda entry: entry[1]) if steps else None


@dataclass(frozen=True)
class Product:
    """The product of two values that the kernel sums: the axes along which each varies, the numbers of the loads that
    each is of, and bytes of an element. `converted`: the bytes in memory of an element of `right`, where the vector
    cores convert it; else 0.
    """

    left: Symbols
    right: Symbols
    left_loads: frozenset[int]
    right_loads: frozenset[int]
    item_size: int
    converted: int = 0


@dataclass
class Trace:
    """What a kernel does. `accesses` has its loads and stores; loads that nothing uses are left out.

    - `nonlinear`: the axes of which some index, other than that of a plain load, needs one index at a time.
    - `scans`, `sorts`: whether there are scans and sorts along the reduced axes.
    - `indices`: indices that become values or are checked.
    - `live`: at the moments of most values, their number by (axes, bytes of an element).
    - `operations`: passes of the vector core over such values.
    - `compared`: the axes of values that are compared.
    - `overwritten`: buffers that get several values at one address, and the axes along which these differ: the last
      value stays.
    - `products`: what is multiplied on the cube cores.
    - `calls`: each load and store in the order in which the loops make them, also those that repeat another.
    """

    accesses: list[Access] = field(default_factory=list)
    calls: list[Access] = field(default_factory=list)
    indices: list[Affine] = field(default_factory=list)
    nonlinear: set[sympy.Symbol] = field(default_factory=set)
    live: list[Counter[tuple[Symbols, int]]] = field(default_factory=list)
    operations: Counter[tuple[Symbols, int]] = field(default_factory=Counter)
    compared: set[Symbols] = field(default_factory=set)
    scans: bool = False
    sorts: bool = False
    overwritten: dict[str, Symbols] = field(default_factory=dict)
    products: list[Product] = field(default_factory=list)


def trace(nodes: Sequence[Any], axes: Axes, handler: Callable[[Any], Any] = lambda tracer: tracer) -> Trace:
    """Runs the bodies of `nodes` on `axes` and returns what they do; `handler` may wrap the operator handler that
    records.
    """
    tracer = _Tracer(axes)
    with V.set_ops_handler(handler(WideAddresses(tracer, nodes, axes) if may_be_in(nodes) else tracer)):
        for node in nodes:
            node._body(*axes.index_variables(node.get_ranges()))
    return tracer.finish()


class _Tracer(DefaultHandler):
    def __init__(self, axes: Axes) -> None:
        self.axes = axes
        self.symbols = [axis.symbol for axis in axes.all]
        self.reduced = frozenset(axis.symbol for axis in axes.reduction)
        self.result = Trace()
        self.values: list[Value] = []
        self.stored: dict[str, Value] = {}
        self.loaded: dict[tuple[str, sympy.Expr], Value] = {}
        self.loads: list[tuple[int, Value]] = []  # by the number of the access
        self.indirect: dict[sympy.Symbol, Value] = {}
        self.limits: dict[sympy.Symbol, sympy.Expr] = {}
        self.counted_from_end: set[Symbols] = set()  # axes of loaded indices that may be negative
        self.passes: dict[int, set[int]] = {}
        self.divided: set[sympy.Symbol] = set()  # axes of indices that are divided, which tiles can hold
        self.masked_along: Symbols = frozenset()
        self.implied_bounds = functools.cache(lambda condition: implied_bounds(condition, self.symbols, axes.lengths))
        self.is_masked = False
        self.masked_by: Condition | None = None
        self.conditions: list[Condition] = []
        self.sums: list[Value] = []
        self.time = 0

    def finish(self) -> Trace:
        for total in self.sums:
            total.born, total.last_use = 0, self.time
        for number, passes in self.passes.items():
            access = self.result.accesses[number]
            self.result.accesses[number] = replace(access, passes=len(passes))
        unused = {number for number, value in self.loads if value.last_use == value.born}
        self.result.accesses = [a for number, a in enumerate(self.result.accesses) if number not in unused]
        for access in self.result.accesses:
            if access.is_store or access.indirect:
                self.result.nonlinear |= access.address.nonlinear
        # Divisions of scalars are free, except where elements are stored one by one.
        stored_along = {access.unit_axis() for access in self.result.accesses if access.is_store}
        self.result.nonlinear |= self.divided - stored_along.difference(self.reduced)
        if any(access.is_store and access.loaded for access in self.result.accesses):
            self.result.compared |= self.counted_from_end  # with a comparison: see TileOps.indirect_indexing
        moments: dict[int, Counter[tuple[Symbols, int]]] = {}
        for value in self.values:
            for time in range(value.born, value.last_use + 1):
                moments.setdefault(time, Counter())[value.axes, value.item_size] += 1
        for moment in moments.values():
            if not any(moment <= other for other in self.result.live):
                self.result.live = [other for other in self.result.live if not other <= moment] + [moment]
        return self.result

    def _new(self, axes: Symbols, dtype: torch.dtype | None = None, *, of: Any = ()) -> Value:
        """A value computed from the arguments `of`."""
        self.time += 1
        # Elements narrower than 4 bytes are computed in 4.
        item_size = 4 if dtype is None else max(dtype.itemsize, 4)
        operands = list(_values(of))
        loads = frozenset[int]().union(*(operand.loads for operand in operands))
        depth = max((operand.depth for operand in operands), default=0)
        value = Value(axes, item_size, self.time, self.time, loads, depth)
        self.values.append(value)
        return value

    def _use(self, *arguments: Any) -> Symbols:
        axes: Symbols = frozenset()
        operands = list(_values(arguments))
        for operand in operands:
            operand.last_use = self.time + 1
            axes |= operand.axes
        if axes & self.reduced:
            depth = max(operand.depth for operand in operands)
            for operand in operands:
                for number in operand.loads:
                    self.passes[number].add(depth)
        return axes

    def _affine(self, index: sympy.Expr) -> tuple[Affine, Symbols]:
        address = affine(self.axes.simplify(index), self.symbols)
        return address, self._use(*self._loaded_indices(index))

    def _loaded_indices(self, index: sympy.Expr) -> list[Value]:
        return [self.indirect[symbol] for symbol in index.free_symbols & self.indirect.keys()]

    def _is_linear(self, index: sympy.Expr) -> bool:
        return not affine(self.axes.simplify(index), self.symbols).nonlinear

    def _is_computable(self, index: sympy.Expr) -> bool:
        """Whether tiles can hold `index`, which is not affine in the axes."""
        lengths = self.axes.lengths
        return is_vector_text(
            self.axes.simplify(index),
            {s: int(size) for s, size in lengths.items() if isinstance(size, (int, sympy.Integer))},
        )

    def _access(self, name: str, index: sympy.Expr, is_store: bool) -> Access:
        indirect = frozenset[sympy.Symbol]().union(*(value.axes for value in self._loaded_indices(index)))
        raw_index = index = self.axes.simplify(index)
        within = self.implied_bounds(self.masked_by)
        if within is not None:
            index = within.without_divisions(index, self.axes.lengths)
        address = affine(index, self.symbols)
        item_size = V.graph.get_dtype(name).itemsize
        loaded = {symbol: self.limits[symbol] for symbol in index.free_symbols & self.limits.keys()}
        access = Access(
            name,
            item_size,
            address,
            indirect,
            is_store,
            index,
            self.masked_along,
            bounds=within,
            loaded=loaded,
            raw_index=raw_index,
            is_conditional=self.is_masked,
            condition=self.masked_by,
            conditions_before=tuple(self.conditions) if is_store else (),
        )
        self.result.calls.append(access)
        return access

    def _count(self, access: Access) -> None:
        """Adds `access` to those that the tile has to hold."""
        self._use(*self._loaded_indices(access.raw_index))
        self.result.accesses.append(access)

    def _default(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        axes = self._use(*args, *kwargs.values())
        dtypes = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.dtype)]
        result = self._new(axes, dtypes[0] if dtypes else None, of=(args, tuple(kwargs.values())))
        self.result.operations[axes, result.item_size] += PASSES.get(name, 1)
        if torch.bool in dtypes if name == "to_dtype" else name not in _WITHOUT_COMPARISON:
            self.result.compared.add(axes)
        result.condition = self._condition(name, args)
        if result.condition is not None:
            self.conditions.append(result.condition)
        if name == "to_dtype" and isinstance(args[0], Value) and args[1] in (torch.int32, torch.int64):
            result.index = args[0].index
        return result

    def _condition(self, name: str, args: tuple[Any, ...]) -> Condition | None:
        """The predicate `name` of `args`, as far as it is one on indices."""
        if name in CONJUNCTIONS:
            parts = tuple(arg.condition if isinstance(arg, Value) else None for arg in args)
            return Condition(parts=parts) if any(parts) else None
        left, right = (_index(arg) for arg in args) if name in (*COMPARISONS, "eq") else (None, None)
        if left is None or right is None:
            return None
        return Condition(left - right, True) if name == "eq" else Condition(difference_of(name, left, right))

    def dot(self, left: Value, right: Value) -> Value:
        axes = self._use(left, right)
        converted = right.held_size if right.held_size < left.held_size else 0
        product = Product(left.axes, right.axes, left.loads, right.loads, left.held_size, converted)
        self.result.products.append(product)
        return self._new(axes, of=(left, right))

    def frexp(self, x: Value) -> tuple[Value, Value]:
        axes = self._use(x)
        return self._new(axes, of=(x,)), self._new(axes, of=(x,))

    def constant(self, value: Any, dtype: torch.dtype) -> Value:
        constant = self._new(frozenset())
        constant.index = _index(value)
        return constant

    def index_expr(self, expr: sympy.Expr, dtype: torch.dtype) -> Value:
        lengths = {**self.axes.lengths_in_indices, **self.limits}
        value = by_operators(expr, dtype, lengths, self._is_linear, self._index_value)
        return self._index_value(expr, dtype) if value is None else value

    def _index_value(self, expr: sympy.Expr, dtype: torch.dtype) -> Value:
        address, indirect = self._affine(expr)
        self.result.indices.append(address)
        if address.nonlinear and not indirect and self._is_computable(expr):
            self.divided |= address.nonlinear
        else:
            self.result.nonlinear |= address.nonlinear
        value = self._new(indirect.union(address.symbols))
        value.index = None if indirect else self.axes.simplify(expr)
        return value

    value_expr = index_expr

    def load(self, name: str, index: sympy.Expr) -> Value:
        access = self._access(name, index, is_store=False)
        if name in self.stored:
            return self.stored[name]
        if (name, index) not in self.loaded:
            number = len(self.result.accesses)
            self._count(access)
            loaded = self._new(access.axes, V.graph.get_dtype(name))
            loaded.held_size = access.item_size
            if V.graph.get_dtype(name) == torch.bool:
                self.result.compared.add(access.axes)
            if access.axes & self.reduced:
                loaded.loads = frozenset([number])
                self.passes[number] = set()
            self.loaded[name, index] = loaded
            self.loads.append((number, loaded))
        return self.loaded[name, index]

    def load_seed(self, name: str, offset: Any) -> Value:
        return self._new(frozenset())

    def store(self, name: str, index: sympy.Expr, value: Value, mode: Any = None) -> None:
        axes = self._use(value)
        access = self._access(name, index, is_store=True)
        self._count(access)
        if mode != "atomic_add" and (differing := axes - access.axes):
            self.result.nonlinear |= differing
            self.result.overwritten[name] = differing
        if mode is None:
            self.stored[name] = value

    def store_reduction(self, name: str, index: sympy.Expr, value: Value) -> None:
        self.store(name, self.axes.of_result(index), value)

    def reduction(self, dtype: torch.dtype, src_dtype: torch.dtype, reduction_type: str, value: Any) -> Any:
        of = self._use(value)
        self.result.operations[of, 4] += REDUCTION_PASSES
        axes = of - self.reduced
        if not self.reduced <= of:  # all indices along the row have the same value, and a kernel holds it for each
            self._use(self._new(of | self.reduced, dtype))
        if reduction_type == "any" or src_dtype == torch.bool:  # ends in a comparison
            self.result.compared.add(axes)
        count = 2 if reduction_type.endswith("_with_value") else _SEVERAL.get(reduction_type, 1)
        results = tuple(self._new(axes, dtype, of=(value,)) for _ in range(count))
        for result in results:
            result.loads, result.depth = frozenset(), result.depth + 1
        return results if count > 1 else results[0]

    def partial_accumulate(self, name: str, reduction_type: str, value: Value, extra_meta: Any) -> None:
        """Adds `value` to the sums over columns of a tile (emit/column_sums.py), which last from tile to tile."""
        self._use(value)
        every = frozenset(self.symbols)
        self.result.operations[every, 4] += 1
        self.sums.append(self._new(every, of=(value,)))

    def scan(self, dtypes: Any, combine_fn: Any, values: Any) -> tuple[Value, ...]:
        self.result.scans = True
        carried = tuple(self._new(self._use(value) - self.reduced) for value in values)
        combine_fn(carried, carried)
        return self._along_rows(dtypes, values, _TILES_OF_A_SCAN)

    def sort(self, dtypes: Any, values: Any, stable: bool, descending: bool) -> tuple[Value, ...]:
        self.result.sorts = True
        return self._along_rows(dtypes, values, _TILES_OF_A_SORT)

    def _along_rows(self, dtypes: Sequence[torch.dtype], values: Any, temporaries: int) -> tuple[Value, ...]:
        """Results as long as the reduced axes, whose computation needs this many more tiles."""
        axes = self._use(values) | self.reduced
        held = [self._new(axes) for _ in range(temporaries)]
        self.result.operations[axes, 4] += temporaries
        results = tuple(self._new(axes, dtype, of=values) for dtype in dtypes)
        self._use(values, held)
        return results

    def bucketize(self, values: Value, boundaries: Any, boundary_indices: Any, *args: Any, **kwargs: Any) -> Value:
        return self._new(self._use(values, boundary_indices), of=(values, boundary_indices))

    def masked(self, mask: Value, body: Any, other: Any) -> Value:
        outside = self.masked_along, self.masked_by, self.is_masked
        self.masked_along |= self._use(mask)
        self.masked_by = Condition(parts=(mask.condition, self.masked_by)) if self.is_masked else mask.condition
        self.is_masked = True
        result = body()
        self.masked_along, self.masked_by, self.is_masked = outside
        return self._new(self._use(mask, result), of=(mask, result))

    def indirect_indexing(self, value: Any, size: Any, check: bool = True, wrap_neg: bool = True) -> sympy.Symbol:
        symbol = sympy_index_symbol(f"tmp{len(self.indirect)}")
        self.indirect[symbol] = value if isinstance(value, Value) else self._new(frozenset())
        self.limits[symbol] = sympy.sympify(size)
        if wrap_neg:
            self.counted_from_end.add(self.indirect[symbol].axes)
        return symbol

    def check_bounds(self, expr: sympy.Expr, size: sympy.Expr, lower: bool, upper: bool) -> None:
        address, _ = self._affine(expr)
        self.result.indices.append(address)
        if lower or upper:
            self.result.nonlinear |= address.nonlinear

    def device_assert_async(self, condition: Value, message: str) -> None:
        self._use(condition)


def _index(argument: Any) -> sympy.Expr | None:
    """The index or integer that an operand is, in the axes' symbols; None otherwise."""
    if isinstance(argument, int) and not isinstance(argument, bool):
        return sympy.Integer(argument)
    return argument.index if isinstance(argument, Value) else None


def _values(arguments: Any) -> Iterator[Value]:
    """Yields the values among the arguments of an operator, which may be nested."""
    for argument in arguments:
        if isinstance(argument, Value):
            yield argument
        elif isinstance(argument, (tuple, list)):
            yield from _values(argument)
