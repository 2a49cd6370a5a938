"""A kernel in terms of axes and tiles: which axis is a dimension of the tile, which dimensions a value has, where an
address lies and under which predicates. Reductions, scans and the kernel as a whole build on this.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import sympy
import torch
from torch._inductor.codegen.common import CSEVariable, IndentedBuffer
from torch._inductor.codegen.simd import IterationRangesEntry, IterationRangesRoot, constant_repr
from torch._inductor.codegen.simd_kernel_features import SIMDKernelFeatures
from torch._inductor.codegen.triton import TritonKernel, triton_compute_type
from torch.utils._sympy.value_ranges import ValueRanges

from inductor_npu.codegen.analysis.access_forms import Form, renamed
from inductor_npu.codegen.analysis.axes import Axes, Axis
from inductor_npu.codegen.analysis.kernel_plan import KernelPlan
from inductor_npu.codegen.analysis.tiled_axes import AxisNames
from inductor_npu.codegen.emit.emitted import EmittedKernel
from inductor_npu.codegen.emit.masked_lanes import MaskedLanes, take_masked_value
from inductor_npu.codegen.emit.statements import Statements
from inductor_npu.codegen.emit.tile_overrides import TileOverrides
from inductor_npu.codegen.emit.values import copy_of
from inductor_npu.codegen.index.affine import affine
from inductor_npu.codegen.index.bounds import Bounds
from inductor_npu.codegen.index.conditions import Condition
from inductor_npu.codegen.index.wide_indices import index_fits_int32

# Where Inductor collects statements until it moves them to the body.
_BUFFERS = ("body", "indexing_code", "loads", "compute", "stores", "post_loop_combine", "post_loop_store")


class TileKernel(EmittedKernel):
    """A kernel with one axis for each loop variable, tiled by `plan`.

    A value's `shape` names its axes' blocks in the order of the tile, and only those along which it varies.
    """

    overrides = TileOverrides

    # Attributes of Inductor's class that are assigned here.
    body: IndentedBuffer
    compute: IndentedBuffer
    cse: Any
    tiling: dict[str, sympy.Expr]
    _index_dtype: torch.dtype

    def __init__(
        self,
        tiling: dict[str, sympy.Expr],
        *,
        features: SIMDKernelFeatures,
        plan: KernelPlan,
        **kwargs: Any,
    ) -> None:
        self.plan = plan
        self.axes, self.tile = plan.axes, plan.tile
        self.axis_of = plan.tiled.axis_of
        self.is_whole = plan.tiled.is_whole
        self.limit_of_loaded: dict[sympy.Symbol, sympy.Expr] = {}
        self.masked_lanes = MaskedLanes()
        self._accesses = itertools.count()
        # The kernel's names for loaded indices, by the plan's.
        self.loaded_indices: dict[sympy.Symbol, sympy.Symbol] = {}
        kwargs["override_persistent_reduction"] = bool(plan.axes.reduction) and plan.tile.is_persistent
        kwargs["override_cooperative_reduction"] = False
        super().__init__(tiling, features=features, **kwargs)
        self._index_dtype = torch.int32 if plan.is_int32 else torch.int64
        # Inductor would read it again, to choose between a persistent block and a loop, which the plan has done. That
        # fails where two axes are reduced.
        self.tiling: dict[str, sympy.Expr] = {}
        self.simplify_indexing = functools.cache(plan.axes.simplify)
        for buffer in _BUFFERS:
            setattr(self, buffer, Statements())

    @property
    def cores(self) -> int:
        return self.plan.cores

    @property
    def known(self) -> Axes:
        """The axes whose lengths decide predicates on indices."""
        return self.axes

    def begin_access(self, buffer: str) -> None:
        """Selects the form of the next load or store of the loops, which is of `buffer`; raises AssertionError if the
        plan has another one.
        """
        number = next(self._accesses)
        assert self.plan.calls[number].buffer == buffer, (
            "the loops make accesses in the order in which they are planned"
        )
        self.form: Form = renamed(self.plan.forms[number], self.loaded_indices)

    def construct_range_trees(self, *args: Any, **kwargs: Any) -> list[IterationRangesRoot]:
        """One tree for each axis, with the axis as its only entry. Looped axes are last: Inductor asks the last tree
        whether statements after a reduction have to wait for the end of a loop.
        """
        trees = []
        for position, axis in enumerate(sorted(self.axis_of.values(), key=lambda axis: axis.prefix in self.tile.loops)):
            is_argument = axis.prefix in self.tile.blocks and not self.is_whole(axis.prefix)
            tree = IterationRangesRoot(
                f"{axis.prefix}index",
                axis.length,
                axis.prefix,
                position,
                self,
                is_loop=axis.prefix in self.tile.loops,
                tensor_dim=self.tile.order.index(axis.prefix) if is_argument else None,
                grid_dim=None,
                has_zdim=False,
            )
            entry = IterationRangesEntry(str(axis.symbol), sympy.S.One, axis.length, axis.symbol, tree)
            entry.set_name(str(axis.symbol))
            tree.var_list.append(axis.symbol)
            tree.var_ranges[axis.symbol] = axis.length
            self.range_tree_nodes[axis.symbol] = entry
            trees.append(tree)
        return trees

    def disable_reduction(self) -> contextlib.AbstractContextManager[None]:
        """As Inductor's, also for a reduction over a size that is known to be 1, and so has no axis."""
        return super().disable_reduction() if self.range_trees else contextlib.nullcontext()

    def codegen_range_tree(self) -> None:
        """Nothing: the axes are written around the finished body, see codegen_static_numels."""

    def codegen_reduction_numels(self, buffer: IndentedBuffer) -> None:
        """Nothing: reduced axes stay separate."""

    def split_and_set_ranges(self, lengths: Sequence[Sequence[sympy.Expr]]) -> list[list[sympy.Expr]]:
        return self.axes.index_variables(lengths)

    def max_block(self, prefix: str) -> int:
        """Indices of the axis in one tile; 1 for a scalar-loop axis."""
        return self.plan.tiled.block(prefix)

    def _has_constant_mask(self, tree: IterationRangesRoot) -> bool:
        return tree.prefix not in self.tile.blocks or not self.needs_mask(tree.prefix)

    def block(self, prefix: str) -> str:
        """The name of the block of an axis, as text of its length in a tile."""
        return f"{prefix.upper()}BLOCK"

    def shape_of(self, axes: Sequence[str]) -> AxisNames:
        """The names of the blocks of `axes`: the shape of a value with these dimensions."""
        return tuple(self.block(axis) for axis in axes)

    def in_tile_order(self, axes: Any) -> AxisNames:
        """Those of `axes` that are dimensions of the tile, in its order."""
        return self.plan.tiled.in_order(axes)

    def axes_of(self, shape: Any) -> AxisNames:
        """The axes of a value, by its shape."""
        names = {str(size) for size in shape or ()}
        return tuple(axis for axis in self.tile.order if self.block(axis) in names)

    def union_of_axes(self, shapes: Sequence[Any]) -> AxisNames:
        """The axes of values with these shapes, in the order of the tile."""
        return self.in_tile_order({axis for shape in shapes for axis in self.axes_of(shape)})

    def expanded(self, value: CSEVariable, axes: Sequence[str]) -> CSEVariable:
        """`value` with dimensions of length one where it lacks one of `axes`; those before its first dimension need
        none.
        """
        value = self.without_added(value)
        own = self.axes_of(value.shape)
        if not own or own == tuple(axes[len(axes) - len(own) :]):
            return value
        needed = axes[axes.index(own[0]) :]
        shape = tuple(self.block(axis) if axis in own else "1" for axis in needed)
        view = copy_of(value, f"{value}{subscript(own, needed)}", shape)
        view.view_of = value
        return view

    def without_added(self, value: CSEVariable) -> CSEVariable:
        """`value` without dimensions that `expanded` added. An operator that consists of others passes such operands on
        to them, which bring them to common axes again.
        """
        return value.view_of or value

    def broadcast(self, value: CSEVariable, axes: Sequence[str], buffer: IndentedBuffer) -> CSEVariable:
        """`value` with all of `axes` as dimensions."""
        value = self.without_added(value)
        if self.axes_of(value.shape) == tuple(axes):
            return value
        shape = self.shape_of(axes)
        whole = f"{value}{subscript(self.axes_of(value.shape), axes)}"
        text = f"tl.broadcast_to({whole}, [{', '.join(shape)}])"
        return self.cse.generate(buffer, text, dtype=value.dtype, shape=shape)

    def needs_mask(self, prefix: str) -> bool:
        """Whether accesses have a mask along the axis: some tile extends beyond its end, or vector cores share it."""
        product = self.plan.contraction
        return self.plan.tiled.needs_mask(prefix) or (product is not None and prefix in product.shared)

    def tile_symbols(self) -> list[sympy.Symbol]:
        """The symbols of the tile's dimensions."""
        return list(self.plan.tiled.lengths)

    def axis_with(self, symbol: sympy.Symbol) -> Axis:
        """The axis of `symbol`."""
        return self.plan.tiled.axis_with[symbol]

    def is_linear(self, index: sympy.Expr) -> bool:
        """Whether `index` is affine in the axes."""
        return not affine(self.prepare_indexing(index), [axis.symbol for axis in self.axis_of.values()]).nonlinear

    def bounds_where(self, difference: sympy.Expr, equality: bool) -> Bounds | None:
        """The bounds of the tile's axes where `difference`, in the axes' symbols, is at least 0 (with `equality`: is
        0); None if there are none.
        """
        return self.plan.access_forms.bounds(Condition(difference, equality))

    @property
    def load_predicate(self) -> Bounds | None:
        """The bounds of indices within which loads are made at present; None if their predicate has none."""
        return self._load_mask.predicate if self._load_mask is not None else None

    def is_limited_to(self, value: CSEVariable, mask: CSEVariable) -> bool:
        """Whether `value` is a load that has its masked-lane value wherever `mask` does not hold."""
        if value.limited_to != mask:
            return False
        if not self.axes_of(mask.shape):
            return True
        bounds = mask.predicate
        axes = self.axes_of(value.shape)
        return bounds is not None and bounds.exact and all(self.axis_with(s).prefix in axes for s in bounds.symbols)

    @functools.cached_property
    def stores_by_index(self) -> bool:
        """Whether something is stored at loaded indices."""
        return any(write.is_indirect() for node in self.features.scheduler_nodes() for write in node.read_writes.writes)

    def holds(self, index: sympy.Expr) -> bool:
        """Whether int32 holds `index`, an expression of sizes and loaded indices."""
        return index_fits_int32(index, self.limit_of_loaded)

    @contextlib.contextmanager
    def writing_to(self, buffer: IndentedBuffer) -> Iterator[None]:
        """Context in which operators write to `buffer`."""
        compute, self.compute = self.compute, buffer
        try:
            yield
        finally:
            self.compute = compute

    def after_loops(self) -> contextlib.AbstractContextManager[None]:
        """Context in which operators write behind the loops over reduced axes, if there are any."""
        return self.writing_to(self.post_loop_combine) if self.tile.loops else contextlib.nullcontext()

    def in_type(self, value: CSEVariable, dtype: torch.dtype) -> CSEVariable:
        """`value` as `dtype`, from the value before widening if it was widened."""
        source = value.narrow or value
        if value.dtype == dtype or source.dtype == dtype:
            return value if value.dtype == dtype else source
        result = self.generate(f"{source}.to({triton_compute_type(dtype)})", dtype, value.shape)
        take_masked_value(result, value)
        return result

    def generate(self, text: str, dtype: Any, shape: Any) -> CSEVariable:
        """A value of the expression `text`, with this dtype and shape, by CSE."""
        return self.cse.generate(self.compute, text, dtype=dtype, shape=shape)

    def accumulator(self, shape: Any, dtype: torch.dtype, initial: float, triton_dtype: str) -> CSEVariable:
        """A variable that is set to `initial` before the loops over reduced axes."""
        name = f"_{self.cse.newvar(dtype=dtype, shape=shape)}"
        self.body.writeline(
            f"{name} = tl.full([{', '.join(map(str, shape))}], {constant_repr(initial)}, {triton_dtype})"
        )
        return self.create_cse_var(name, ValueRanges.unknown(), dtype, shape)

    def bucketize_in_memory(self, *args: Any, **kwargs: Any) -> CSEVariable:
        """Inductor's binary search, which loads a boundary for each step."""
        return TritonKernel.bucketize(self, *args, **kwargs)


def subscript(own: Sequence[str], axes: Sequence[str]) -> str:
    """Returns the subscript that expands a value with the dimensions `own` to `axes`: "[:, None]"; empty if they are
    equal.
    """
    if not own or len(axes) <= len(own):
        return ""
    return f"[{', '.join(':' if axis in own else 'None' for axis in axes)}]"
