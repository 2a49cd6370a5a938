"""Kernels whose behaviour on Ascend's compiler is known, each as the KernelSource that the collector would make of it.

The names of rules and sections are those of the module docstrings of inductor_npu.ascend.hivm: V vectorises, EL moves
single elements by DMA, SL is a loop of single elements.
"""

from __future__ import annotations

import textwrap

from inductor_npu.ascend.kernel import Constant, KernelSource

_HEAD = """\
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
"""


def kernel(
    body: str, signature: dict[str, str], constants: dict[str, Constant] | None = None, divisible: tuple[str, ...] = ()
) -> KernelSource:
    """A kernel from the text of its function, `def name(...): ...`, indented as in the caller."""
    body = textwrap.dedent(body).strip() + "\n"
    name = body.removeprefix("def ").partition("(")[0]
    return KernelSource(name, _HEAD + body, signature, constants or {}, divisible)


# V: y = a + b, contiguous, tile by tile over a grid of one program a core.
ADD = kernel(
    """
    def add(a, b, y, n, TILE: tl.constexpr):
        for tile in range(tl.program_id(0), tl.cdiv(n, TILE), tl.num_programs(0)):
            i = tile * TILE + tl.arange(0, TILE)
            tl.store(y + i, tl.load(a + i, mask=i < n) + tl.load(b + i, mask=i < n), mask=i < n)
    """,
    {"a": "*fp32", "b": "*fp32", "y": "*fp32", "n": "i32"},
    {"TILE": 2048},
)

# V: rows of a matrix, several a tile.
SOFTMAX = kernel(
    """
    def softmax(x, y, rows, columns, TR: tl.constexpr, TC: tl.constexpr):
        for tile in range(tl.program_id(0), tl.cdiv(rows, TR), tl.num_programs(0)):
            r = tile * TR + tl.arange(0, TR)
            c = tl.arange(0, TC)
            mask = (r[:, None] < rows) & (c[None, :] < columns)
            v = tl.load(x + r[:, None] * columns + c[None, :], mask=mask, other=-float("inf"))
            e = tl.exp(v - tl.max(v, 1)[:, None])
            tl.store(y + r[:, None] * columns + c[None, :], e / tl.sum(e, 1)[:, None], mask=mask)
    """,
    {"x": "*fp32", "y": "*fp32", "rows": "i32", "columns": "i32"},
    {"TR": 8, "TC": 1024},
)

# EL: the tile's rows are the matrix's columns, so that neighbours in the tile are not neighbours in memory.
TRANSPOSED_LOAD = kernel(
    """
    def transposed_load(x, y, stride, TILE: tl.constexpr):
        r = tl.arange(0, TILE)[:, None]
        c = tl.arange(0, TILE)[None, :]
        tl.store(y + r * TILE + c, tl.load(x + r + c * stride))
    """,
    {"x": "*fp32", "y": "*fp32", "stride": "i32"},
    {"TILE": 64},
)

# V: the same by a load along the rows and a transpose in the Unified Buffer.
TRANSPOSE = kernel(
    """
    def transpose(x, y, stride, TILE: tl.constexpr):
        r = tl.arange(0, TILE)[:, None]
        c = tl.arange(0, TILE)[None, :]
        tl.store(y + r * TILE + c, tl.trans(tl.load(x + r * stride + c)))
    """,
    {"x": "*fp32", "y": "*fp32", "stride": "i32"},
    {"TILE": 64},
)

# SL: elements from addresses that were loaded.
GATHER = kernel(
    """
    def gather(x, index, y, n, TILE: tl.constexpr):
        i = tl.program_id(0) * TILE + tl.arange(0, TILE)
        mask = i < n
        tl.store(y + i, tl.load(x + tl.load(index + i, mask=mask, other=0), mask=mask), mask=mask)
    """,
    {"x": "*fp32", "index": "*i32", "y": "*fp32", "n": "i32"},
    {"TILE": 1024},
)

# SL: an index with // and % on vectors, as Inductor writes a broadcast or a permutation for GPUs.
DIVIDED_INDEX = kernel(
    """
    def divided_index(x, y, n, TILE: tl.constexpr):
        i = tl.program_id(0) * TILE + tl.arange(0, TILE)
        mask = i < n
        tl.store(y + i, tl.load(x + (i % 96) * 64 + i // 96, mask=mask), mask=mask)
    """,
    {"x": "*fp32", "y": "*fp32", "n": "i32"},
    {"TILE": 1024},
)

# Accepted, and wrong: the mask is not of a form that limits the access, so that the whole tile is read and written.
REVERSED_MASK = kernel(
    """
    def reversed_mask(x, y, n, TILE: tl.constexpr):
        i = tl.program_id(0) * TILE + tl.arange(0, TILE)
        tl.store(y + i, tl.load(x + i, mask=n > i, other=0.0) * 2.0, mask=n > i)
    """,
    {"x": "*fp32", "y": "*fp32", "n": "i32"},
    {"TILE": 1024},
)

# Accepted, and wrong in the same way: the mask depends on data.
DATA_MASK = kernel(
    """
    def data_mask(x, y, n, TILE: tl.constexpr):
        i = tl.program_id(0) * TILE + tl.arange(0, TILE)
        v = tl.load(x + i, mask=i < n, other=0.0)
        tl.store(y + i, v * 2.0, mask=(i < n) & (v > 0.0))
    """,
    {"x": "*fp32", "y": "*fp32", "n": "i32"},
    {"TILE": 1024},
)

# Accepted, and wrong: the multiplication that Philox is made of is done signed. Scalar besides.
RANDOM = kernel(
    """
    def random(y, seed, TILE: tl.constexpr):
        i = tl.program_id(0) * TILE + tl.arange(0, TILE)
        tl.store(y + i, tl.rand(seed, i))
    """,
    {"y": "*fp32", "seed": "i32"},
    {"TILE": 1024},
)

# Accepted, and exact only below 2^24: the division of integers is one of fp32.
INTEGER_DIVISION = kernel(
    """
    def integer_division(x, y, n, TILE: tl.constexpr):
        i = tl.program_id(0) * TILE + tl.arange(0, TILE)
        tl.store(y + i, tl.load(x + i, mask=i < n, other=0) // 7, mask=i < n)
    """,
    {"x": "*i32", "y": "*i32", "n": "i32"},
    {"TILE": 1024},
)

# V, through Ascend's libdevice.
LIBDEVICE = kernel(
    """
    def libdevice_functions(x, y, n, TILE: tl.constexpr):
        i = tl.program_id(0) * TILE + tl.arange(0, TILE)
        v = tl.load(x + i, mask=i < n, other=1.0)
        tl.store(y + i, libdevice.tanh(v) + libdevice.log1p(v * v), mask=i < n)
    """,
    {"x": "*fp32", "y": "*fp32", "n": "i32"},
    {"TILE": 1024},
)

# V: a matrix product in the cube unit, with the sum in fp32.
MATMUL = kernel(
    """
    def matmul(a, b, y, TM: tl.constexpr, TN: tl.constexpr, TK: tl.constexpr):
        m = tl.arange(0, TM)[:, None]
        n = tl.arange(0, TN)[None, :]
        x = tl.load(a + m * TK + tl.arange(0, TK)[None, :])
        w = tl.load(b + tl.arange(0, TK)[:, None] * TN + n)
        tl.store(y + m * TN + n, tl.dot(x, w))
    """,
    {"a": "*fp16", "b": "*fp16", "y": "*fp32"},
    {"TM": 64, "TN": 64, "TK": 64},
)

# Refused by bishengir: two tiles of 256 KiB.
TOO_LARGE = kernel(
    """
    def too_large(a, b, y, TILE: tl.constexpr):
        i = tl.arange(0, TILE)
        tl.store(y + i, tl.load(a + i) + tl.load(b + i))
    """,
    {"a": "*fp32", "b": "*fp32", "y": "*fp32"},
    {"TILE": 65536},
)

# Refused by the front end: Ascend's libdevice does not have this function.
MISSING_FUNCTION = kernel(
    """
    def missing_function(x, y, TILE: tl.constexpr):
        i = tl.arange(0, TILE)
        tl.store(y + i, libdevice.fmod(tl.load(x + i), 2.0))
    """,
    {"x": "*fp32", "y": "*fp32"},
    {"TILE": 1024},
)

# The adapter aborts on an index that is multiplied by zero.
CRASH = kernel(
    """
    def crash(x, y, TILE: tl.constexpr):
        r = tl.arange(0, TILE)[:, None]
        c = tl.arange(0, TILE)[None, :]
        tl.store(y + r * TILE + c, tl.load(x + c + 0 * r))
    """,
    {"x": "*fp32", "y": "*fp32"},
    {"TILE": 64},
)

ACCEPTED = (
    ADD,
    SOFTMAX,
    TRANSPOSED_LOAD,
    TRANSPOSE,
    GATHER,
    DIVIDED_INDEX,
    REVERSED_MASK,
    DATA_MASK,
    RANDOM,
    INTEGER_DIVISION,
    LIBDEVICE,
    MATMUL,
)
