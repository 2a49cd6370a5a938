"""What stands around the statements of every emitted kernel: imports, metadata, the kind of grid."""

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
from inductor_npu.codegen.annotations import memory_traffic
from inductor_npu.codegen.emit import float_arguments
from inductor_npu.codegen.emit.values import TileValue
from inductor_npu.codegen.fallback import eager_kernel
from inductor_npu.runtime.grid import NpuGrid

# The axes of a loop over tiles: (length, block), each a number or what says it in terms of arguments. A block is None
# where a tile has one index.
Tiled = list[tuple[str | int, str | int | None]]

# Types of which Triton has a name, and no NPU anything.
_ABSENT = (torch.float8_e4m3fnuz, torch.float8_e5m2fnuz)


def next_first(first: str, tiles: str) -> str:
    """The statement with which the tiles of the next loop begin at the program behind the one that had the last tile of
    this loop, whose tiles began at `first`. `tiles`, their number, binds at least as strongly as `%`.
    """
    programs = "tl.num_programs(0)"
    return f"first = ({first} + {programs} - {tiles} % {programs}) % {programs}"


class EmittedKernel(TritonKernel):
    """TritonKernel whose source is launched by `inductor_npu.tiling`."""

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

    @classmethod
    def inductor_meta_common(cls) -> dict[str, Any]:
        """Inductor's metadata, and what a launch needs to know of the chip."""
        return {**super().inductor_meta_common(), "npu_cores": providers.current_target().vector_cores}

    def create_cse_var(self, *args: Any, **kwargs: Any) -> TileValue:
        """A value that carries what is known of it."""
        return TileValue(*args, **kwargs)

    @property
    def arguments_for_blocks(self) -> dict[str, int]:
        """The blocks that are arguments of the kernel, and their sizes."""
        return {}

    # The source, once it is written; of loops like others (kernel_reuse.py) it is theirs.
    source: str | None = None

    @property
    def why_in_eager(self) -> str:
        """Why eager operators run the loops, whatever they are; empty where a kernel does. Inductor itself leaves all
        operators on complex numbers to eager, but for copies of those whose strides it restores.
        """
        arguments = (each for each in self.args.python_argdefs()[2] if isinstance(each, TensorArg))
        dtypes = {*(each.dtype for each in arguments), *_dtypes_in(self.features.scheduler_nodes())}
        if any(dtype.is_complex for dtype in dtypes):
            return "Triton has no complex numbers"
        absent = next((dtype for dtype in _ABSENT if dtype in dtypes), None)
        return f"kernels for npu have no {absent}" if absent else ""

    def tiled(self) -> list[Tiled]:
        """For each loop over tiles its axes; see `NpuGrid`."""
        raise NotImplementedError

    @property
    def index_cast(self) -> str:
        """What makes an int32 of the kernel's type of indices."""
        return "" if self.index_dtype == "tl.int32" else f".to({self.index_dtype})"

    @property
    def add_persistent_rblock(self) -> bool:
        """Never: what a reduction keeps on chip is the plan's choice."""
        return False

    def _get_grid_type(self) -> type[NpuGrid]:
        return NpuGrid

    def codegen_kernel(self, name: str | None = None) -> str:
        """Inductor's source, with this kernel's tiles among the metadata common to all."""
        if self.source is not None:
            return self.source
        if self.why_in_eager:
            self.triton_meta = self.inductor_meta = dict[str, Any]()  # what Inductor's launch hands on
            self.source = eager_kernel.source_of(self, str(Placeholder.KERNEL_NAME))
            return self.source
        # torch 2.11 has no hook per kernel; the call for the common metadata, a class method, is in all versions.
        own = {"npu_blocks": self.arguments_for_blocks, "npu_tiled": self.tiled()}
        self.__dict__["inductor_meta_common"] = lambda: {**type(self).inductor_meta_common(), **own}
        if not self.range_trees and not self.args.python_argdefs()[0]:
            # What asserts a constant has no arguments, and Inductor's launch of such a kernel is no Python.
            self.args.sizevars[sympy.S.One] = "unused"
        with float_arguments.of_generated_kernel():
            self.source = super().codegen_kernel(name)
        return self.source

    def memory_traffic(self) -> str:
        """Which bytes a launch moves, as a comment's text."""
        dropped = (*self.removed_buffers, *self.inplaced_to_remove)
        return memory_traffic.comment_of(self.features.scheduler_nodes(), self.args, dropped)

    def call_kernel(self, name: str, *args: Any, **kwargs: Any) -> None:
        """Inductor's launch, below a comment that says what it moves."""
        wrapper = V.graph.wrapper_code
        wrapper.make_comment(f"{wrapper.comment} {self.memory_traffic()}")
        super().call_kernel(name, *args, **kwargs)


def _dtypes_in(nodes: Iterable[Any]) -> set[torch.dtype]:
    """The types that operators in the loops of scheduler nodes name."""
    bodies = [node._body for node in nodes]
    blocks = [block for body in bodies for block in (body.root_block, *body.subblocks.values())]
    operators = (operator for block in blocks for operator in block.graph.nodes)
    return {argument for operator in operators for argument in operator.args if isinstance(argument, torch.dtype)}
