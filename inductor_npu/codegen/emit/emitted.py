"""What surrounds the statements of every emitted kernel: imports, metadata, the kind of grid."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import sympy
import torch
from torch._inductor.codegen.common import TensorArg
from torch._inductor.codegen.triton import TritonKernel
from torch._inductor.utils import Placeholder
from torch._inductor.virtualized import V

from inductor_npu import providers
from inductor_npu.codegen.annotations import arithmetic, launch_comments, memory_traffic
from inductor_npu.codegen.emit import float_arguments
from inductor_npu.codegen.emit.values import TileValue
from inductor_npu.codegen.fallback import eager_kernel
from inductor_npu.runtime.grid import NpuGrid

# The axes of a loop over tiles: (length, block), each a number or an expression of arguments. A block is None where a
# tile has one index.
Tiled = list[tuple[str | int, str | int | None]]

# Dtypes that Triton can name and no NPU has.
_ABSENT = (torch.float8_e4m3fnuz, torch.float8_e5m2fnuz)


def next_first(first: str, tiles: str) -> str:
    """Returns the statement that moves `first` to the program of the next loop's first tile: the one after the program
    with this loop's last tile.

    This loop's tiles began at `first`. `tiles`, the text of their number, must bind at least as strongly as `%`.
    """
    programs = "tl.num_programs(0)"
    return f"first = ({first} + {programs} - {tiles} % {programs}) % {programs}"


class EmittedKernel(TritonKernel):
    """TritonKernel whose source is launched by `inductor_npu.runtime`."""

    @classmethod
    @functools.lru_cache(None)
    def gen_common_triton_imports(cls) -> str:
        """Inductor's imports, then ours: the name `triton_heuristics` in generated code means our decorators."""
        imports = super().gen_common_triton_imports()
        return (
            imports
            + "from inductor_npu.runtime import device_functions\n"
            + "from inductor_npu.runtime import heuristics as triton_heuristics\n"
        )

    def create_cse_var(self, *args: Any, **kwargs: Any) -> TileValue:
        """A value that carries the facts that are known of it."""
        return TileValue(*args, **kwargs)

    @property
    def cores(self) -> int:
        """Most programs of a launch: on a chip that does not schedule them, the cores that can run them."""
        return providers.current_target().most_programs

    @property
    def arguments_for_blocks(self) -> dict[str, int]:
        """The blocks that are arguments of the kernel, with their lengths in elements."""
        return {}

    # The source, once it is written. Loops that reuse a kernel (kernel_reuse.py) have that kernel's source.
    source: str | None = None

    @property
    def why_in_eager(self) -> str:
        """Why eager operators have to run the loops; empty where a kernel does.

        Inductor itself leaves all operators on complex numbers to eager, except copies whose strides it restores.
        """
        arguments = (each for each in self.args.python_argdefs()[2] if isinstance(each, TensorArg))
        dtypes = {*(each.dtype for each in arguments), *_dtypes_in(self.features.scheduler_nodes())}
        if any(dtype.is_complex for dtype in dtypes):
            return "Triton has no complex numbers"
        absent = next((dtype for dtype in _ABSENT if dtype in dtypes), None)
        return f"kernels for npu have no {absent}" if absent else ""

    def tiled(self) -> list[Tiled]:
        """The axes of each loop over tiles; see `NpuGrid`."""
        raise NotImplementedError

    @property
    def index_cast(self) -> str:
        """The text that converts an int32 to the kernel's index type."""
        return "" if self.index_dtype == "tl.int32" else f".to({self.index_dtype})"

    @property
    def add_persistent_rblock(self) -> bool:
        """Always False: the plan chooses what a reduction keeps on chip."""
        return False

    def _get_grid_type(self) -> type[NpuGrid]:
        return NpuGrid

    def codegen_kernel(self, name: str | None = None) -> str:
        """Inductor's source, with this kernel's tiles in the metadata common to all kernels."""
        if self.source is not None:
            return self.source
        if self.why_in_eager:
            self.triton_meta = self.inductor_meta = dict[str, Any]()  # what Inductor's launch hands on
            self.source = eager_kernel.source_of(self, str(Placeholder.KERNEL_NAME))
            return self.source
        # torch 2.11 has no hook for one kernel. All versions call the class method for the common metadata.
        own = {"npu_blocks": self.arguments_for_blocks, "npu_tiled": self.tiled(), "npu_cores": self.cores}
        self.__dict__["inductor_meta_common"] = lambda: {**type(self).inductor_meta_common(), **own}
        if not self.range_trees and not self.args.python_argdefs()[0]:
            # An assertion of a constant has no arguments, and Inductor's launch of such a kernel is not valid Python.
            self.args.sizevars[sympy.S.One] = "unused"
        with float_arguments.of_generated_kernel():
            self.source = super().codegen_kernel(name)
        return self.source

    # Estimated cycles of a kernel with a matrix product, and those of the library with separate kernels.
    cycles_of_product: tuple[float, float] | None = None

    def memory_traffic(self) -> str:
        """The bytes that a launch moves, as the text of a comment."""
        dropped = (*self.removed_buffers, *self.inplaced_to_remove)
        return memory_traffic.comment_of(self.features.scheduler_nodes(), self.args, dropped)

    def arithmetic(self) -> int:
        """The floating-point operations of products, attention and convolutions in a launch."""
        return arithmetic.of_loops(self.features.scheduler_nodes())

    def call_kernel(self, name: str, *args: Any, **kwargs: Any) -> None:
        """Inductor's launch, below comments that say what it moves and computes."""
        wrapper = V.graph.wrapper_code
        wrapper.make_comment(f"{wrapper.comment} {self.memory_traffic()}")
        if self.cycles_of_product is not None:
            is_part = arithmetic.is_part_of_attention(self.features.scheduler_nodes())
            text = launch_comments.write_product(*self.cycles_of_product, is_part)
            wrapper.make_comment(f"{wrapper.comment} {text}")
        if (operations := self.arithmetic()) > 0:
            wrapper.make_comment(f"{wrapper.comment} {launch_comments.write_arithmetic(operations)}")
        super().call_kernel(name, *args, **kwargs)


def _dtypes_in(nodes: Iterable[Any]) -> set[torch.dtype]:
    """The dtypes that operators in the loops of scheduler nodes name."""
    bodies = [node._body for node in nodes]
    blocks = [block for body in bodies for block in (body.root_block, *body.subblocks.values())]
    operators = (operator for block in blocks for operator in block.graph.nodes)
    return {argument for operator in operators for argument in operator.args if isinstance(argument, torch.dtype)}
