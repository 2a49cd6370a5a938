"""Scans, sorts and searches of an NPU kernel.

A scan's axis is the first or the last dimension of the tile; `device_functions.scans` has the loops. A row is read in a
loop if it is longer than the tile, or an address needs one index at a time. It is then scanned tile by tile, and each
tile begins with the result of the tiles before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import sympy
import torch
from torch._inductor.codegen.common import CSE, CSEVariable, IndentedBuffer
from torch._inductor.codegen.triton import triton_compute_type, upcast_compute_type
from torch._inductor.ops_handler import WrapperHandler
from torch._inductor.virtualized import OpsWrapper, V

from inductor_npu.codegen.emit.addresses import Addresses
from inductor_npu.codegen.emit.rows import Rows
from inductor_npu.codegen.emit.tile_kernel import TileKernel
from inductor_npu.providers import current_target
from inductor_npu.tiling.limits import EXACT_IN_FLOAT32

Values = tuple[CSEVariable, ...]
Combine = Callable[[Values, Values], Sequence[Any]]

# Operators whose result is one of their operands, or a predicate: 32-bit operands stay in range.
_SELECTING = frozenset(
    {
        *("eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf", "logical_and", "logical_or", "logical_not"),
        *("bitwise_and", "bitwise_or", "bitwise_not", "where", "maximum", "minimum"),
    }
)

# Ascend's compiler has a vector form of these along the first axis.
_CUMULATIVE: dict[tuple[str, ...], bool] = {("add",): False, ("mul",): True}

_INT32 = torch.iinfo(torch.int32)

# The most boundaries for which comparing each with the whole tile costs less than a binary search that loads elements:
# for 1024, 32 cycles of the vector core an element against ten loads of 64 cycles by the scalar core.
_MOST_BOUNDARIES = 1024

_SCAN = """\
@triton.jit
def {{name}}({parts}, dim: tl.constexpr):
    length: tl.constexpr = part0.shape[dim]
    chunk: tl.constexpr = (
        length if length <= 16 else 8 if length <= 64 else 16 if length <= 256 else 32 if length <= 1024 else 64
    )
    n = device_functions.in_chunks(tl.reshape(device_functions.positions(part0, dim, chunk), part0.shape), dim, chunk)
    {tiles} = {chunks}
    {carries} = {firsts}
    for k in range(1, chunk):
        here = n == k
        {carries} = {combine}({carries}, {picked})
        {tiles} = {placed}
    {tiles} = {rows}
    if length > chunk:
        axis: tl.constexpr = 1 if dim + 1 == len(part0.shape) else 0
        m = device_functions.in_rows(device_functions.positions(part0, dim, length), part0, dim)
        for later in range(1, length // chunk):
            k = length - later * chunk
            before = m == k - 1
            here = m >= k
            {combined} = {combine}({lasts}, {tiles})
            {tiles} = {taken}
    return {results}
"""


class Scanner:
    """Writes the scans, sorts and searches of `kernel`."""

    def __init__(self, kernel: TileKernel, rows: Rows, addresses: Addresses) -> None:
        self.kernel, self.rows, self.addresses = kernel, rows, addresses

    def scan(self, dtypes: tuple[torch.dtype, ...], combine_fn: Combine, values: Values) -> Values:
        """The associative scan of `values`, of these `dtypes`, over the reduced axes."""
        assert not self.kernel._load_mask, "a scan inside ops.masked"
        dtypes = tuple(upcast_compute_type(dtype) for dtype in dtypes)
        axes = self.kernel.in_tile_order({axis for value in values for axis in self.rows.reduced_axes(value)})
        scanned = [axis for axis in axes if self.kernel.axis_of[axis].is_reduction]
        assert len(scanned) <= 1, "the planner leaves one axis of a scan in the tile"
        combine, operators = self._combine(combine_fn, dtypes)
        # Ascend computes 64-bit integers one by one: those that stay in the range of int32 are scanned there.
        narrow = tuple(
            self._narrow(value, operators) if dtype == torch.int64 else dtype
            for value, dtype in zip(values, dtypes, strict=True)
        )
        if narrow != dtypes:
            combine, operators = self._combine(combine_fn, narrow)
        inputs = [
            self.kernel.broadcast(self.kernel.in_type(value, dtype), axes, self.kernel.compute)
            for value, dtype in zip(values, narrow, strict=True)
        ]
        key = f"scan {combine} of {', '.join(map(str, inputs))}"
        if self.kernel.cse.contains(f"{key}, 0"):
            return tuple(self.kernel.cse.get(f"{key}, {place}") for place in range(len(inputs)))
        results = list(inputs)
        if scanned:
            multiplies = _CUMULATIVE.get(tuple(operators)) if torch.bool not in narrow else None
            results = self._scan_tile(inputs, combine, axes.index(scanned[0]), multiplies)
        if self.kernel.tile.loops:
            results = self._carry_on(results, combine, scanned[0] if scanned else None)
        results = [self.kernel.in_type(result, dtype) for result, dtype in zip(results, dtypes, strict=True)]
        for place, result in enumerate(results):
            self.kernel.cse.put(f"{key}, {place}", result)
        return tuple(results)

    def _narrow(self, value: CSEVariable, operators: Sequence[str]) -> torch.dtype:
        """The dtype that holds every scan of an int64 with these operators: positions that are chosen, counts."""
        lowest, highest = value.bounds.lower, value.bounds.upper
        if not (isinstance(lowest, sympy.Integer) and isinstance(highest, sympy.Integer)):
            return torch.int64
        most = max(abs(int(lowest)), abs(int(highest)))
        if list(operators) == ["add"]:
            counts = V.graph.sizevars.statically_known_leq(self.kernel.features.reduction_numel * most, _INT32.max)
            return torch.int32 if counts else torch.int64
        if most > _INT32.max or not _SELECTING.issuperset(operators):
            return torch.int64
        has_bits = any(name.startswith("bitwise") for name in operators)
        return torch.int32 if has_bits or most >= EXACT_IN_FLOAT32 else torch.float32

    def _scan_tile(
        self, values: Sequence[CSEVariable], combine: str, dimension: int, multiplies: bool | None
    ) -> list[CSEVariable]:
        """The scan of what is in the tile. Masked lanes beyond the end of a row come after all valid elements."""
        if multiplies is not None:
            text = f"device_functions.cumulative({values[0]}, {dimension}, {multiplies})"
            return [self.kernel.generate(text, values[0].dtype, values[0].shape)]
        results = [self.kernel.cse.newvar(dtype=value.dtype, shape=value.shape) for value in values]
        function = self._scan_function(combine, len(values))
        arguments = ", ".join(map(str, values))
        self.kernel.compute.writeline(f"{_listed(results)} = {function}({arguments}, {dimension})")
        return results

    def _scan_function(self, combine: str, count: int) -> str:
        """The name of a function of the kernel that scans `count` tiles at once.

        It splits rows into chunks, steps through all chunks at once, then adds to each chunk what comes before it:
        twice the square root of the row's length in steps.
        """
        each = range(count)

        def with_header(pattern: str) -> str:
            return ", ".join(pattern.replace("#", str(place)) for place in each)

        text = _SCAN.format(
            combine=combine,
            parts=with_header("part#"),
            tiles=with_header("tile#"),
            carries=with_header("carry#"),
            combined=with_header("combined#"),
            chunks=with_header("device_functions.in_chunks(part#, dim, chunk)"),
            firsts=with_header("device_functions.pick(tile#, n == 0.0, 1)"),
            picked=with_header("device_functions.pick(tile#, here, 1)"),
            placed=with_header("tl.where(here, tl.expand_dims(carry#, 1), tile#)"),
            rows=with_header("device_functions.in_rows(tile#, part#, dim)"),
            lasts=with_header("tl.expand_dims(device_functions.pick(tile#, before, axis), axis)"),
            taken=with_header("tl.where(here, combined#, tile#)"),
            results=with_header("tl.reshape(tile#, part#.shape)"),
        )
        return self.kernel.helper_functions.add(text, base_name="_npu_scan")

    def _carry_on(self, values: Sequence[CSEVariable], combine: str, axis: str | None) -> list[CSEVariable]:
        """`values`, the scan of one tile, combined with the result of all tiles before it."""
        axes = self.kernel.axes_of(values[0].shape)
        kept = tuple(name for name in axes if name != axis)
        carries = [
            self.kernel.accumulator(
                self.kernel.shape_of(kept), value.dtype, _zero(value.dtype), triton_compute_type(value.dtype)
            )
            for value in values
        ]
        before = [self.kernel.expanded(carry, axes) if kept else carry for carry in carries]
        combined = [self.kernel.cse.newvar(dtype=value.dtype, shape=value.shape) for value in values]
        self.kernel.compute.writeline(f"{_listed(combined)} = {combine}({_listed(before)}, {_listed(values)})")
        offsets = [
            f"{loop}offset" if loop in self.kernel.tile.blocks else str(self.kernel.axis_of[loop].symbol)
            for loop in self.kernel.tile.loops
        ]
        is_first = self.kernel.generate(" & ".join(f"({offset} == 0)" for offset in offsets), torch.bool, ())
        results = [
            self.kernel.generate(f"tl.where({is_first}, {value}, {after})", value.dtype, value.shape)
            for value, after in zip(values, combined, strict=True)
        ]
        for carry, result in zip(carries, results, strict=True):
            self.kernel.compute.writeline(f"{carry} = {self._last(result, axis)}")
        return results

    def _last(self, value: CSEVariable, axis: str | None) -> str:
        """The last element of `value` along `axis` that exists."""
        if axis is None:
            return str(value)
        axes = self.kernel.axes_of(value.shape)
        count = f"{axis}numel - {axis}offset" if axis in self.kernel.tile.loops else f"{axis}numel"
        return f"device_functions.last({value}, {count}, {axes.index(axis)})"

    def _combine(self, combine_fn: Combine, dtypes: Sequence[torch.dtype]) -> tuple[str, list[str]]:
        """The name of a function of the kernel that combines two lists of values, and its operators."""
        body = IndentedBuffer()
        recorder = _Recorder(V.get_ops_handler())
        with self._apart(body), V.set_ops_handler(recorder):
            before, after = (
                tuple(
                    self.kernel.cse.namedvar(f"{side}{place}", dtype=dtype, shape=())
                    for place, dtype in enumerate(dtypes)
                )
                for side in ("before", "after")
            )
            results = [OpsWrapper._unwrap(result) for result in combine_fn(before, after)]
        text = IndentedBuffer()
        text.writeline("@triton.jit")
        text.writeline(f"def {{name}}({_listed([*before, *after])}):")
        with text.indent():
            text.splice(body.getvalue().replace("{", "{{").replace("}", "}}"))
            typed = [
                f"({result}).to({triton_compute_type(dtype)})" for result, dtype in zip(results, dtypes, strict=True)
            ]
            text.writeline(f"return {', '.join(typed)}")
        name = self.kernel.helper_functions.add(
            text.getvalue(), base_name="_npu_combine_" + "_".join(recorder.operators)
        )
        return name, recorder.operators

    @contextmanager
    def _apart(self, buffer: IndentedBuffer) -> Iterator[None]:
        """Context in which operators write to `buffer`, and CSE knows no value from before."""
        cse = self.kernel.cse
        self.kernel.cse = CSE(name_prefix="value")
        try:
            with self.kernel.writing_to(buffer):
                yield
        finally:
            self.kernel.cse = cse

    def sort(self, dtypes: tuple[torch.dtype, ...], values: Values, stable: bool, descending: bool) -> Values:
        """(values, positions) in order along the reduced axis; always stable. Where nobody wants the positions they may
        be no more than what the operator got.
        """
        assert not self.kernel._load_mask, "a sort inside ops.masked"
        assert not self.kernel.tile.loops and len(self.kernel.axes.reduction) == 1, (
            "the planner leaves the row of a sort whole"
        )
        axis = self.kernel.axes.reduction[0].prefix
        axes = self.kernel.in_tile_order({name for value in values for name in self.rows.reduced_axes(value)})
        dtypes = tuple(upcast_compute_type(dtype) for dtype in dtypes)
        inputs = [self.kernel.broadcast(value, axes, self.kernel.compute) for value in values]
        key = f"sort of {_listed(inputs)}, {descending}"
        if self.kernel.cse.contains(f"{key}, 0"):
            return tuple(self.kernel.cse.get(f"{key}, {place}") for place in range(2))
        if not stable and current_target().sorts_by_exchange and self._sorts_values_alone():
            text = f"device_functions.sort_values({inputs[0]}, {axis}numel, {axes.index(axis)}, {descending})"
            results = (self.kernel.generate(text, inputs[0].dtype, inputs[0].shape), *inputs[1:])
        else:
            results = tuple(self.kernel.cse.newvar(dtype=value.dtype, shape=value.shape) for value in inputs)
            self.kernel.compute.writeline(
                f"{_listed(results)} = device_functions.sort_with_index("
                f"{_listed(inputs)}, {axis}numel, {axes.index(axis)}, {descending})"
            )
        results = tuple(self.kernel.in_type(result, dtype) for result, dtype in zip(results, dtypes, strict=True))
        for place, result in enumerate(results):
            self.kernel.cse.put(f"{key}, {place}", result)
        return results

    def _sorts_values_alone(self) -> bool:
        """Whether nothing in the kernel uses the positions that the sort gives which is being written."""
        sorts = [node for node in self.kernel.features.scheduler_nodes() if node._body.has_op("sort")]
        used = {part.args[1] for part in V.interpreter.current_node.users if part.users}
        return len(sorts) == 1 and used == {0}

    def bucketize(
        self,
        values: CSEVariable,
        boundaries: tuple[str, sympy.Expr, sympy.Expr, sympy.Expr],
        boundary_indices: CSEVariable | int,
        indexing_dtype: torch.dtype,
        right: bool,
        sorter: tuple[str, sympy.Expr] | None = None,
        sorter_indices: CSEVariable | None = None,
    ) -> CSEVariable:
        """The position of each of `values` among ascending boundaries; for the arguments see TritonKernel.bucketize."""
        name, length, _, stride = boundaries
        operands = (values, boundary_indices, sorter_indices)
        axes = self.kernel.union_of_axes([value.shape for value in operands if isinstance(value, CSEVariable)])
        values, first, sorter_indices = (
            self.kernel.expanded(value, axes) if isinstance(value, CSEVariable) else value for value in operands
        )
        if sorter is not None or not V.graph.sizevars.statically_known_leq(length, _MOST_BOUNDARIES):
            values = self.kernel.broadcast(values, axes, self.kernel.compute)
            place = self.kernel.bucketize_in_memory(
                values, boundaries, first, indexing_dtype, right, sorter, sorter_indices
            )
            text = f"device_functions.nan_beyond({place}, {values}, {self.kernel.index_to_str(length)})"
            return self.kernel.generate(text, indexing_dtype, place.shape)
        mask = "None"
        if isinstance(first, CSEVariable) and (own := self.kernel.axes_of(first.shape)):
            around = axes[axes.index(own[0]) :]
            mask = (
                " & ".join(self.addresses.mask_text_of(axis, around) for axis in own if self.kernel.needs_mask(axis))
                or "None"
            )
        numbers = f"{self.kernel.index_to_str(length)}, {self.kernel.index_to_str(stride)}"
        text = (
            f"device_functions.bucketize({values}, {self.kernel.args.input(name)}, {first}, {mask}, {numbers}, "
            f"{triton_compute_type(indexing_dtype)}, {right})"
        )
        return self.kernel.generate(text, indexing_dtype, self.kernel.shape_of(axes))


class _Recorder(WrapperHandler):
    """Records which operators are used."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.operators: list[str] = []

    def _default(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self.operators.append(name)
        return super()._default(name, args, kwargs)


def _listed(values: Sequence[Any]) -> str:
    return ", ".join(map(str, values))


def _zero(dtype: torch.dtype) -> float:
    return False if dtype == torch.bool else 0.0 if dtype.is_floating_point else 0
