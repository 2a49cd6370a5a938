"""A kernel whose axes are split into subdomains: one loop over tiles for each subdomain, in one Triton kernel.

    # x from 0 to 64
    for tile in range(tl.program_id(0), x_tiles * y_tiles, tl.num_programs(0)):
        ...
    first = ...
    # x from 64 to 96
    for tile in range(first, x_tiles * y_tiles, tl.num_programs(0)):
        ...

A kernel of its own writes the loop body of each subdomain; all share arguments and names. Where a program finds in a
cache what it has just read (`NpuTarget.caches_loads`), bodies with the same tiles stand in one loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import sympy
from torch._inductor.codegen.common import IndentedBuffer
from torch._inductor.codegen.simd_kernel_features import SIMDKernelFeatures
from torch._inductor.codegen.wrapper import pexpr
from torch._inductor.virtualized import V

from inductor_npu.codegen.analysis.axes import Axes
from inductor_npu.codegen.analysis.kernel_plan import KernelPlan, TileLoop
from inductor_npu.codegen.analysis.subdomains import Subdomain
from inductor_npu.codegen.emit.emitted import Tiled, next_first
from inductor_npu.codegen.emit.npu_kernel import NpuKernel
from inductor_npu.codegen.emit.uncounted import Uncounted
from inductor_npu.tiling.plan import TilePlan


class SubdomainKernel(NpuKernel, Uncounted):
    """One loop over tiles of `kernel`, the `number`th."""

    def __init__(self, kernel: KernelOfSubdomains, number: int, loop: TileLoop) -> None:
        """`number` is in the names of blocks."""
        self.number = number
        self.section, self.follows = loop.section, loop.follows
        self.joined: list[SubdomainKernel] = []  # whose bodies come after this one's, in its loop
        lengths = {axis.prefix: axis.length for axis in loop.section.axes.pointwise}
        super().__init__(lengths, features=kernel.features, plan=loop.plan)
        self.args = kernel.args
        self.cse.iter_buffer_ids = kernel.cse.iter_buffer_ids
        for shared in ("store_buffer_names", "must_keep_buffers", "removed_buffers", "inplaced_to_remove"):
            setattr(self, shared, getattr(kernel, shared))

    def join(self, other: SubdomainKernel) -> None:
        """Puts the body of `other` into the loop of this kernel."""
        other.positions.share_tables(self.positions)
        self.joined.append(other)

    # The first tile of a program; set when the loop's position among the others is known.
    first: str

    @property
    def known(self) -> Axes:
        """The axes whose lengths decide predicates: those of the subdomain."""
        return self.section.known

    def remove_kernel_local_buffers(self) -> None:
        """Nothing: other subdomains may still store to buffers that this one stores to; the kernel removes buffers for
        all.
        """

    def block(self, prefix: str) -> str:
        return f"{super().block(prefix)}{self.number}"

    def write(self, nodes: Sequence[Any]) -> None:
        """Writes the loop bodies of `nodes`."""
        with self:
            for node in nodes:
                node.codegen(self.split_and_set_ranges(node.get_ranges()))
            self.lengths = {axis.prefix: self.index_to_str(axis.length) for axis in self.axes.pointwise}
            self.lengths_in_python = {axis.prefix: self._in_python(axis.length) for axis in self.axes.pointwise}
            self.title = self._title()

    def _in_python(self, length: sympy.Expr) -> str:
        """`length` as Python text, for the host: Triton has functions of its own for some operations."""
        return pexpr(self.rename_indexing(length))

    def _title(self) -> str:
        """The range of the subdomain, and what it writes of the row in excess."""

        def ranges(subdomain: Subdomain) -> dict[str, str]:
            return {
                str(symbol): f"{self._in_python(start)} to {self._in_python(sympy.expand(start + length))}"
                for symbol, (start, length) in subdomain.ranges.items()
            }

        wide = ranges(self.section.axes)
        return ", ".join(
            f"{symbol} from {part}" + (f" (written from {wide[symbol]})" if wide[symbol] != part else "")
            for symbol, part in ranges(self.section.known).items()
        )

    def codegen_static_numels(self, code: IndentedBuffer) -> None:
        for other in self.joined:
            other.triton_meta = self.triton_meta
            with V.set_kernel_handler(other):
                other.codegen_body()
            self.body.writeline(f"# {other.title}")
            self.body.splice(other.body)
        super().codegen_static_numels(code)

    def write_lengths(self, before: IndentedBuffer) -> None:
        for axis in self.axes.pointwise:
            before.writeline(f"{axis.prefix}numel = {self.lengths[axis.prefix]}")
        for prefix, size in self.tile.blocks.items():
            before.writeline(f"{self.block(prefix)}: tl.constexpr = {size}")

    def loop_over_tiles(self, tiles: str) -> str:
        self.tiles = tiles or "1"
        return f"for tile in range({self.first}{self.index_cast}, {self.tiles}, tl.num_programs(0)):"

    def tiled(self) -> list[Tiled]:
        blocks = self.tile.blocks
        return [[(f"({self.lengths_in_python[axis.prefix]})", blocks.get(axis.prefix)) for axis in self.tiled_axes()]]


class KernelOfSubdomains(NpuKernel):
    """A kernel of several `loops` over tiles, one for each subdomain of `axes`."""

    num_load: int
    num_store: int

    def __init__(
        self,
        tiling: dict[str, sympy.Expr],
        *,
        features: SIMDKernelFeatures,
        plan: KernelPlan,
        loops: Sequence[TileLoop],
        **kwargs: Any,
    ) -> None:
        super().__init__(tiling, features=features, plan=replace(plan, tile=TilePlan((), {}, ())), **kwargs)
        self.parts: list[SubdomainKernel] = []  # one for each body
        self.in_loops: list[SubdomainKernel] = []  # those with a loop of their own
        for loop in loops:
            number = len(self.in_loops) - int(loop.is_joined)
            self.parts.append(SubdomainKernel(self, number, loop))
            if loop.is_joined:
                self.in_loops[-1].join(self.parts[-1])
            else:
                self.in_loops.append(self.parts[-1])

    def schedule(self, nodes: Sequence[Any]) -> list[Any]:
        """Wraps `nodes` for Inductor's pass over a schedule: Inductor decides on each node once, and at the last node
        the bodies of all are written for each subdomain.
        """
        return [_NodeOfSubdomains(self, nodes, node) for node in nodes]

    def write(self, nodes: Sequence[Any]) -> None:
        for part in self.parts:
            part.write(nodes)
            self.num_load += part.num_load
            self.num_store += part.num_store
            self.atomic_add_found |= part.atomic_add_found

    def codegen_static_numels(self, code: IndentedBuffer) -> None:
        """Writes the loops, one after the other. Each begins with the program after the one that has the last tile of
        the loop before.
        """
        body = IndentedBuffer()
        first, tiles = "tl.program_id(0)", ""
        for part in self.in_loops:
            if tiles and not part.follows:
                body.writeline(next_first(first, f"({tiles})"))
                first = "first"
            part.first, part.triton_meta = first, self.triton_meta
            with V.set_kernel_handler(part):
                part.codegen_body()
                part.codegen_static_numels(code)
            tiles = part.tiles
            body.writeline(f"# {part.title}")
            body.splice(part.body)
        self.body = body

    def tiled(self) -> list[Tiled]:
        return [loop for part in self.in_loops if not part.follows for loop in part.tiled()]


class _NodeOfSubdomains:
    """A node of a schedule that is written with all others when the last one is."""

    def __init__(self, kernel: KernelOfSubdomains, nodes: Sequence[Any], node: Any) -> None:
        self._kernel, self._nodes, self._node = kernel, nodes, node

    def __getattr__(self, name: str) -> Any:
        return getattr(self._node, name)

    def decide_inplace_update(self) -> None:
        """As Inductor's, except where some memory is written twice: there, memory that is read must not be written too
        early.
        """
        if not any(part.follows for part in self._kernel.parts):
            self._node.decide_inplace_update()

    def codegen(self, index_vars: Any) -> None:
        if self._node is self._nodes[-1]:
            self._kernel.write(self._nodes)
