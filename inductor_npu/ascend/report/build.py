"""From collected and compiled kernels to the rows of a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from inductor_npu.ascend.compilation import Compilation
from inductor_npu.ascend.hivm import Verdict, analyse
from inductor_npu.ascend.kernel import CollectedKernel, Launch, TensorArgument
from inductor_npu.ascend.lint import lint_ttir
from inductor_npu.ascend.report.model import UNKNOWN, Refusal, Row
from inductor_npu.errors import HivmSyntaxError
from inductor_npu.simulator.triton_backend.ttir.lexer import ParseError
from inductor_npu.target import NpuTarget

# Bytes of an element, by the names of torch's dtypes; all others end in their bits.
_ITEM_BYTES = {
    "bool": 1,
    "bfloat16": 2,
    "complex32": 4,
    "complex64": 8,
    "complex128": 16,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
}


def make_row(kernel: CollectedKernel, compilation: Compilation, target: NpuTarget) -> Row:
    """The row of one kernel: what the compiler said of it, or what its final IR shows."""
    row = Row(
        kernel=kernel.source.name,
        key=kernel.source.key,
        operators=kernel.origin.operators,
        lines=kernel.origin.lines,
        launches=kernel.launches,
        grid=kernel.launch.grid,
        verdict=Verdict.REFUSED.value,
        source=kernel.source.text,
    )
    row = _with_lint(row, compilation)
    if compilation.hivm is None:
        stage = "compiler" if compilation.failed is None else compilation.failed.value
        refusal = Refusal(stage, compilation.message, compilation.crashed, compilation.reproduction)
        return replace(row, refusal=refusal)
    try:
        analysis = analyse(compilation.hivm, target, kernel.launch)
    except HivmSyntaxError as error:
        return replace(row, verdict=UNKNOWN, assumptions=(*row.assumptions, str(error)))
    return replace(
        row,
        verdict=analysis.verdict.value,
        findings=analysis.findings,
        ub_bytes=analysis.ub_bytes,
        ub_share=analysis.ub_share,
        buffers_doubled=analysis.buffers_doubled,
        loops_over_tiles=analysis.loops_over_tiles,
        bytes_read=analysis.bytes_read,
        bytes_written=analysis.bytes_written,
        bytes_least=least_bytes(kernel.launch, analysis.reads, analysis.bytes_read)
        + least_bytes(kernel.launch, analysis.writes, analysis.bytes_written),
        vector_instructions=analysis.vector_instructions,
        cycles=analysis.cycles,
        assumptions=(*row.assumptions, *analysis.assumptions),
    )


def _with_lint(row: Row, compilation: Compilation) -> Row:
    """`row` with what the rules find in the kernel's TTIR, if it came that far."""
    if compilation.ttir is None:
        return row
    try:
        return replace(row, lint=lint_ttir(compilation.ttir))
    except ParseError as error:
        return replace(row, assumptions=(f"the lint does not understand the kernel's TTIR: {error}",))


def least_bytes(launch: Launch, positions: Sequence[int], moved: int | None) -> int:
    """The bytes of the distinct tensors among the arguments at `positions`, each once.

    A kernel that touches only part of a tensor (a row of an embedding) moves less than that: then what it moves.
    """
    arguments = list(launch.arguments.values())
    tensors = {argument for position in positions if isinstance(argument := arguments[position], TensorArgument)}
    storages = {tensor.storage: tensor.storage_bytes for tensor in tensors}
    # Views of one storage may overlap: together they are no more than it.
    least = sum(
        min(size, sum(_bytes(tensor) for tensor in tensors if tensor.storage == storage))
        for storage, size in storages.items()
    )
    return least if moved is None else min(least, moved)


def _bytes(tensor: TensorArgument) -> int:
    """Bytes of the distinct elements of a tensor: an axis of stride 0 has one."""
    count = 1
    for size, stride in zip(tensor.shape, tensor.strides, strict=True):
        count *= size if stride else min(size, 1)
    return count * item_bytes(tensor.dtype)


def item_bytes(dtype: str) -> int:
    """Bytes of one element of torch's dtype of that name."""
    if dtype in _ITEM_BYTES:
        return _ITEM_BYTES[dtype]
    bits = dtype.lstrip("abcdefghijklmnopqrstuvwxyz")
    return int(bits) // 8
