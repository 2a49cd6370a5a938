"""A kernel that is written by hand, not from loops of Inductor's: it stands for a `TemplateBuffer` of the IR."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy
import torch
from torch._inductor.codegen.common import IndentedBuffer
from torch._inductor.codegen.simd_kernel_features import SIMDKernelFeatures
from torch._inductor.codegen.triton import triton_type
from torch._inductor.virtualized import V

from inductor_npu import providers
from inductor_npu.codegen.annotations.launch_comments import write_traffic
from inductor_npu.codegen.emit.emitted import EmittedKernel
from inductor_npu.codegen.fallback.eager_kernel import EagerWriter
from inductor_npu.codegen.index.size_terms import hint
from inductor_npu.codegen.templates.tensor import Tensor

_LONGEST_INT32 = torch.iinfo(torch.int32).max


class TemplateKernel(EmittedKernel):
    """A kernel of the cube cores that reads `read` and stores `written`, among other tensors."""

    # The scheduler's nodes of which it is made; it has no loops of theirs.
    nodes: Sequence[Any] = ()

    def __init__(self, read: Sequence[Tensor], written: Sequence[Tensor]) -> None:
        features = SIMDKernelFeatures([], sympy.S.One)
        super().__init__(
            {}, features=features, override_persistent_reduction=False, override_cooperative_reduction=False
        )
        self.read, self.written = tuple(read), tuple(written)
        self.body = IndentedBuffer()
        self._index_dtype = torch.int32 if _fit_int32([*read, *written]) else torch.int64

    # -- what Inductor's kernel asks ----------------------------------------------------------------------------------

    def construct_range_trees(self, *args: Any, **kwargs: Any) -> list[Any]:
        """None: the axes are written by hand."""
        return []

    @property
    def cores(self) -> int:
        return providers.current_target().cube_cores

    def codegen_body(self) -> None:
        """Nothing: the body is written before the arguments are asked for."""

    def codegen_kernel(self, name: str | None = None) -> str:
        if self.source is None:
            with V.set_kernel_handler(self):
                for line in self.header():
                    self.line(f"# {line}")
                self.write_body()
        return super().codegen_kernel(name)

    def memory_traffic(self) -> str:
        """Each tensor is counted once, however often its blocks are loaded."""
        return write_traffic(_bytes_of(self.read), _bytes_of(self.written))

    # -- what each kernel says ----------------------------------------------------------------------------------------

    def header(self) -> list[str]:
        """The lines of the header, without `#`."""
        raise NotImplementedError

    def write_body(self) -> None:
        """Writes the statements of the kernel."""
        raise NotImplementedError

    def write_eager(self, writer: EagerWriter) -> str:
        """The source of the kernel's eager stand-in, which `writer` writes."""
        raise NotImplementedError

    @property
    def filled(self) -> int:
        """Bytes of the Unified Buffer that a tile is estimated to fill."""
        return 0

    # -- text ---------------------------------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        """Writes a statement."""
        self.body.writeline(text)

    def text(self, size: Any) -> str:
        """An expression of sizes as text."""
        return self.index_to_str(sympy.sympify(size))

    def factor(self, size: Any) -> str:
        """`size` as text of a factor."""
        text = self.text(size)
        return text if text.isidentifier() or text.isdigit() else f"({text})"

    def narrowed(self, value: str, dtype: torch.dtype) -> str:
        """`value`, which is float32, in `dtype`."""
        return value if dtype == torch.float32 else f"{value}.to({triton_type(dtype)})"


def _fit_int32(tensors: Sequence[Tensor]) -> bool:
    """Whether addresses of all elements are int32, which a guard holds where sizes are dynamic."""
    ends = [tensor.end for tensor in tensors]
    if not all(hint(end) <= _LONGEST_INT32 for end in ends):
        return False
    for end in ends:
        V.graph.sizevars.check_leq(end, _LONGEST_INT32)
    return True


def _bytes_of(tensors: Sequence[Tensor]) -> int:
    return sum(hint(sympy.prod(tensor.sizes)) * tensor.dtype.itemsize for tensor in tensors)


def eager_view(writer: EagerWriter, tensor: Tensor) -> str:
    """The text of `tensor` as a view of its argument, in the stand-in that `writer` writes."""
    args = writer.kernel.args
    argument = args.arg_name(tensor.buffer) or args.input(tensor.buffer)
    sizes, strides = (f"({', '.join(map(writer.index_text, part))},)" for part in (tensor.sizes, tensor.strides))
    start = f"{argument}.storage_offset() + {writer.index_text(tensor.offset)}"
    return f"torch.as_strided({argument}, {sizes}, {strides}, {start})"
