"""For each rule a kernel that it is about and the same written as the rule says: the second has no such finding."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from inductor_npu.ascend.kernel import Constant, KernelSource

_HEAD = """\
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def _max_that_keeps_nan(a, b):
    return tl.where((a > b) | (a != a), a, b)


@triton.jit
def _welford(mean_a, m2_a, n_a, mean_b, m2_b, n_b):
    n = n_a + n_b
    delta = mean_b - mean_a
    return mean_a + delta * n_b / n, m2_a + m2_b + delta * delta * n_a * n_b / n, n


@triton.jit
"""
F32, F16, BF16 = "*fp32", "*fp16", "*bf16"
I64, I32, I16 = "*i64", "*i32", "*i16"
FLAT = "i = tl.program_id(0) * TILE + tl.arange(0, TILE)"
ROWS = """
    r = tl.program_id(0) * TR + tl.arange(0, TR)
    c = tl.arange(0, TC)
    m = (r[:, None] < M) & (c[None, :] < N)
"""
LOADED = ROWS + "    v = tl.load(x + r[:, None] * N + c[None, :], mask=m, other=0)\n"


@dataclass(frozen=True)
class Pair:
    """`bad` and `good` as sources of kernels of the same signature."""

    bad: KernelSource
    good: KernelSource


def source(name: str, body: str, signature: dict[str, str], constants: dict[str, Constant]) -> KernelSource:
    """A kernel from the statements of its body."""
    arguments = [*signature, *(f"{constant}: tl.constexpr" for constant in constants)]
    text = f"{_HEAD}def {name}({', '.join(arguments)}):\n{textwrap.indent(textwrap.dedent(body).strip(), '    ')}\n"
    return KernelSource(name, text, signature, constants)


def _flat(name: str, bad: str, good: str, signature: dict[str, str], tile: int = 1024) -> Pair:
    """Kernels that begin with `i = ...` of one axis."""
    return Pair(
        source(name, f"{FLAT}\n{textwrap.dedent(bad).strip()}", signature, {"TILE": tile}),
        source(f"{name}_well", f"{FLAT}\n{textwrap.dedent(good).strip()}", signature, {"TILE": tile}),
    )


def _rows(
    name: str, bad: str, good: str, signature: dict[str, str], rows: int = 16, columns: int = 256, begin: str = LOADED
) -> Pair:
    """Kernels that begin with a load of a tile `v` of rows `r` and columns `c`, masked by `m`."""
    constants: dict[str, Constant] = {"TR": rows, "TC": columns}
    head = textwrap.dedent(begin).strip()
    return Pair(
        source(name, f"{head}\n{textwrap.dedent(bad).strip()}", signature, constants),
        source(f"{name}_well", f"{head}\n{textwrap.dedent(good).strip()}", signature, constants),
    )


XY = {"x": F32, "y": F32, "n": "i32"}
XYMN = {"x": F32, "y": F32, "M": "i32", "N": "i32"}
_STORE = "tl.store(y + r[:, None] * N + c[None, :], {}, mask=m)"
_STORE_ROW = "tl.store(y + r, {}, mask=r < M)"

PAIRS = {
    "N101": _flat(
        "reversed_mask",
        "tl.store(y + i, tl.load(x + i, mask=i < n, other=0.0) * 2.0, mask=n > i)",
        "tl.store(y + i, tl.load(x + i, mask=i < n, other=0.0) * 2.0, mask=i < n)",
        XY,
    ),
    "N102": _flat(
        "data_mask",
        """
        v = tl.load(x + i, mask=i < n, other=0.0)
        tl.store(y + i, v * 2.0, mask=(i < n) & (v > 0.0))
        """,
        """
        v = tl.load(x + i, mask=i < n, other=0.0)
        tl.store(y + i, tl.where(v > 0.0, v * 2.0, tl.load(y + i, mask=i < n)), mask=i < n)
        """,
        XY,
    ),
    "N103": _flat(
        "mask_of_two_parts",
        "tl.store(y + i, tl.load(x + i, mask=i < n, other=0.0) * 2.0, mask=(i < n // 2) | (i >= n))",
        "tl.store(y + i, tl.load(x + i, mask=i < n, other=0.0) * 2.0, mask=(i < n) & (i >= n // 2))",
        XY,
    ),
    "N104": _flat(
        "random",
        "tl.store(y + i, tl.load(x + i, mask=i < n) + tl.rand(n, i), mask=i < n)",
        "tl.store(y + i, tl.load(x + i, mask=i < n) + (i & 255).to(tl.float32), mask=i < n)",
        XY,
    ),
    "N105": _flat(
        "integer_division",
        "tl.store(y + i, tl.load(x + i, mask=i < n, other=0) // 7, mask=i < n)",
        "tl.store(y + i, tl.load(x + i, mask=i < n, other=0) >> 3, mask=i < n)",
        {"x": I32, "y": I32, "n": "i32"},
    ),
    "N106": _flat(
        "unsigned_shift",
        "tl.store(y + i, tl.load(x + i, mask=i < n, other=0).to(tl.uint32, bitcast=True) >> 5, mask=i < n)",
        "tl.store(y + i, (tl.load(x + i, mask=i < n, other=0) >> 5) & 0x7FFFFFF, mask=i < n)",
        {"x": I32, "y": I32, "n": "i32"},
    ),
    "N107": _flat(
        "float_remainder",
        "tl.store(y + i, tl.load(x + i, mask=i < n, other=0.0) % 3.0, mask=i < n)",
        """
        v = tl.load(x + i, mask=i < n, other=0.0)
        tl.store(y + i, v - tl.floor(v / 3.0) * 3.0, mask=i < n)
        """,
        XY,
    ),
    "N108": _flat(
        "inexact_function",
        "tl.store(y + i, libdevice.expm1(tl.load(x + i, mask=i < n, other=0.0)), mask=i < n)",
        """
        v = tl.load(x + i, mask=i < n, other=0.0)
        tl.store(y + i, tl.where(tl.abs(v) < 1e-3, v + 0.5 * v * v, tl.exp(v) - 1.0), mask=i < n)
        """,
        XY,
    ),
    "N201": _flat(
        "other_is_a_tile",
        "tl.store(y + i, tl.load(x + i, mask=i < n // 2, other=tl.load(y + i, mask=i < n)), mask=i < n)",
        """
        v = tl.load(y + i, mask=i < n)
        tl.store(y + i, tl.where(i < n // 2, tl.load(x + i, mask=i < n // 2, other=0.0), v), mask=i < n)
        """,
        XY,
    ),
    "N202": _rows(
        "index_times_zero",
        _STORE.format("tl.load(x + c[None, :] + 0 * r[:, None])"),
        _STORE.format("tl.broadcast_to(tl.load(x + c)[None, :], (TR, TC))"),
        XYMN,
        begin=ROWS,
    ),
    "N203": _flat(
        "double",
        "tl.store(y + i, (tl.load(x + i, mask=i < n).to(tl.float64) * 3.0).to(tl.float32), mask=i < n)",
        "tl.store(y + i, tl.load(x + i, mask=i < n) * 3.0, mask=i < n)",
        XY,
    ),
    "N204": _flat(
        "unsigned_comparison",
        """
        u = tl.load(x + i, mask=i < n, other=0).to(tl.uint32, bitcast=True)
        tl.store(y + i, tl.where(u < 9, 1.0, 0.0), mask=i < n)
        """,
        """
        u = tl.load(x + i, mask=i < n, other=0)
        tl.store(y + i, tl.where(u < 9, 1.0, 0.0), mask=i < n)
        """,
        {"x": I32, "y": F32, "n": "i32"},
    ),
    "N205": _flat(
        "missing_function",
        "tl.store(y + i, libdevice.fmod(tl.load(x + i, mask=i < n, other=0.0), 2.0), mask=i < n)",
        "tl.store(y + i, libdevice.tanh(tl.load(x + i, mask=i < n, other=0.0)), mask=i < n)",
        XY,
    ),
    "N206": _rows(
        "welford",
        """
        one = tl.full((TR, TC), 1.0, tl.float32)
        mean, m2, count = tl.reduce((v, v * 0.0, one), 1, _welford)
        """
        + _STORE_ROW.format("mean + m2 / count"),
        _STORE_ROW.format("tl.sum(v, 1) / N"),
        XYMN,
    ),
    "N207": _rows(
        "nan_select",
        _STORE_ROW.format("tl.reduce(v, 1, _max_that_keeps_nan)"),
        _STORE_ROW.format("tl.max(v, 1)"),
        XYMN,
    ),
    "N301": _flat(
        "divided_index",
        "tl.store(y + i, tl.load(x + (i % 64) * 16 + i // 64, mask=i < n), mask=i < n)",
        "tl.store(y + i, tl.load(x + (n // 64) * 16 + i, mask=i < n), mask=i < n)",
        XY,
    ),
    "N302": _flat(
        "falling_index",
        "tl.store(y + i, tl.load(x + (n - 1 - i), mask=i < n), mask=i < n)",
        "tl.store(y + i, tl.gather(tl.load(x + tl.arange(0, TILE)), TILE - 1 - tl.arange(0, TILE), 0), mask=i < n)",
        XY,
    ),
    "N303": _flat(
        "clamped_index",
        "tl.store(y + i, tl.load(x + tl.minimum(i, n - 1)), mask=i < n)",
        "tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)",
        XY,
    ),
    "N304": _flat(
        "gather",
        "tl.store(y + i, tl.load(x + tl.load(index + i, mask=i < n, other=0), mask=i < n), mask=i < n)",
        """
        row = tl.load(x + tl.arange(0, TILE))
        tl.store(y + i, tl.gather(row, tl.load(index + i, mask=i < n, other=0), 0), mask=i < n)
        """,
        {"x": F32, "index": I32, "y": F32, "n": "i32"},
    ),
    "N305": _flat(
        "scatter",
        "tl.store(y + tl.load(index + i, mask=i < n, other=0), tl.load(x + i, mask=i < n), mask=i < n)",
        """
        for j in range(tl.program_id(0) * 16, min(tl.program_id(0) * 16 + 16, n)):
            c = tl.arange(0, TILE)
            tl.store(y + tl.load(index + j) * TILE + c, tl.load(x + j * TILE + c))
        """,
        {"x": F32, "index": I32, "y": F32, "n": "i32"},
    ),
    "N306": _rows(
        "uneven_rows",
        """
        k = tl.load(index + r, mask=r < M, other=0)
        d = tl.arange(0, 4)
        tl.store(y + r[:, None] * 4 + d[None, :], tl.load(x + k[:, None] * 4 + d[None, :]), mask=r[:, None] < M)
        """,
        """
        k = tl.load(index + r, mask=r < M, other=0)
        tl.store(y + r[:, None] * TC + c[None, :], tl.load(x + k[:, None] * TC + c[None, :]), mask=r[:, None] < M)
        """,
        {"x": F32, "index": I32, "y": F32, "M": "i32", "N": "i32"},
        begin=ROWS,
    ),
    "N307": _rows("row_scan", _STORE.format("tl.cumsum(v, 1)"), _STORE.format("tl.cumsum(v, 0)"), XYMN),
    "N308": _flat(
        "long_addition",
        "tl.store(y + i, tl.load(x + i, mask=i < n) + tl.load(x + n + i, mask=i < n), mask=i < n)",
        """
        a = tl.load(x + i, mask=i < n).to(tl.int32) + tl.load(x + n + i, mask=i < n).to(tl.int32)
        tl.store(y + i, a.to(tl.int64), mask=i < n)
        """,
        {"x": I64, "y": I64, "n": "i32"},
    ),
    "N309": _flat(
        "remainder",
        "tl.store(y + i, tl.load(x + i, mask=i < n, other=0) % 7, mask=i < n)",
        """
        v = tl.load(x + i, mask=i < n, other=0)
        tl.store(y + i, v - (v // 7) * 7, mask=i < n)
        """,
        {"x": I32, "y": I32, "n": "i32"},
    ),
    "N310": _flat(
        "short_comparison",
        """
        a, b = tl.load(x + i, mask=i < n), tl.load(x + n + i, mask=i < n)
        tl.store(y + i, tl.where(a > b, a, b), mask=i < n)
        """,
        """
        a, b = tl.load(x + i, mask=i < n), tl.load(x + n + i, mask=i < n)
        tl.store(y + i, tl.where(a.to(tl.int32) > b.to(tl.int32), a, b), mask=i < n)
        """,
        {"x": I16, "y": I16, "n": "i32"},
    ),
    "N311": _flat(
        "shift_by_tile",
        "tl.store(y + i, tl.load(x + i, mask=i < n) << tl.load(x + n + i, mask=i < n), mask=i < n)",
        "tl.store(y + i, tl.load(x + i, mask=i < n) << 3, mask=i < n)",
        {"x": I32, "y": I32, "n": "i32"},
    ),
    "N312": _rows(
        "integer_row_sum",
        _STORE_ROW.format("tl.sum(v, 1)"),
        _STORE_ROW.format("tl.sum(v.to(tl.float32), 1).to(tl.int32)"),
        {"x": I32, "y": I32, "M": "i32", "N": "i32"},
    ),
    "N313": _flat(
        "flip",
        "tl.store(y + i, tl.flip(tl.load(x + i, mask=i < n), 0), mask=i < n)",
        "tl.store(y + i, tl.gather(tl.load(x + i, mask=i < n), TILE - 1 - tl.arange(0, TILE), 0), mask=i < n)",
        XY,
    ),
    "N314": _flat(
        "histogram",
        "tl.store(y + tl.arange(0, 64), tl.histogram(tl.load(x + i), 64))",
        """
        b = tl.arange(0, 64)
        tl.store(y + b, tl.sum((tl.load(x + i)[:, None] == b[None, :]).to(tl.float32), 0).to(tl.int32))
        """,
        {"x": I32, "y": I32},
        256,
    ),
    "N401": _rows(
        "transposed_load",
        _STORE.format("tl.load(x + r[:, None] + c[None, :] * M, mask=m, other=0.0)"),
        """
        s = (c[:, None] < N) & (r[None, :] < M)
        """
        + _STORE.format("tl.trans(tl.load(x + c[:, None] * M + r[None, :], mask=s, other=0.0))"),
        XYMN,
        64,
        64,
        begin=ROWS,
    ),
    "N402": _flat(
        "strided_load",
        "tl.store(y + i, tl.load(x + 3 * i, mask=i < n), mask=i < n)",
        "tl.store(y + i, tl.load(x + 3 * n + i, mask=i < n), mask=i < n)",
        XY,
    ),
    "N403": _rows(
        "narrow_rows",
        _STORE.format("tl.load(x + r[:, None] * S + c[None, :], mask=m, other=0.0)"),
        """
        j = tl.program_id(0) * TR * TC + tl.arange(0, TR * TC)
        tl.store(y + j, tl.load(x + j, mask=j < M * 4), mask=j < M * 4)
        """,
        {**XYMN, "S": "i32"},
        64,
        4,
        begin=ROWS,
    ),
    "N404": _rows(
        "inner_axis_of_one",
        """
        o = tl.arange(0, 1)[None, None, :]
        v = tl.load(x + r[:, None, None] * M + c[None, :, None] * N + o)
        tl.store(y + r[:, None, None] * TC + c[None, :, None] + o, v * v + 1.0)
        """,
        """
        v = tl.load(x + r[:, None] * M + c[None, :])
        tl.store(y + r[:, None] * TC + c[None, :], v * v + 1.0)
        """,
        XYMN,
        16,
        16,
        begin=ROWS,
    ),
    "N501": _flat(
        "maximum",
        "tl.store(y + i, tl.maximum(tl.load(x + i, mask=i < n), 0.5), mask=i < n)",
        "tl.store(y + i, tl.maximum(tl.load(x + i, mask=i < n), 0.5, propagate_nan=tl.PropagateNan.ALL), mask=i < n)",
        XY,
    ),
    "N502": _rows(
        "where_for_other",
        _STORE_ROW.format('tl.max(tl.where(m, v, -float("inf")), 1)'),
        _STORE_ROW.format('tl.max(tl.load(x + r[:, None] * N + c[None, :], mask=m, other=-float("inf")), 1)'),
        XYMN,
    ),
    "N503": _flat(
        "clamp",
        "tl.store(y + i, tl.clamp(tl.load(x + i, mask=i < n), 0.0, 1.0), mask=i < n)",
        """
        v = tl.maximum(tl.load(x + i, mask=i < n), 0.0, propagate_nan=tl.PropagateNan.ALL)
        tl.store(y + i, tl.minimum(v, 1.0, propagate_nan=tl.PropagateNan.ALL), mask=i < n)
        """,
        XY,
    ),
    "N504": _rows(
        "one_row_at_a_time",
        """
        for row in range(tl.program_id(0), M, tl.num_programs(0)):
            tl.store(y + row, tl.sum(tl.load(x + row * N + c, mask=c < N, other=0.0), 0))
        """,
        _STORE_ROW.format("tl.sum(tl.load(x + r[:, None] * N + c[None, :], mask=m, other=0.0), 1)"),
        XYMN,
        begin=ROWS,
    ),
    "N505": _flat(
        "while_over_tiles",
        """
        t = tl.program_id(0) * TILE
        while t < n:
            tl.store(y + t + i, tl.load(x + t + i))
            t += TILE
        """,
        """
        for t in range(0, n, TILE):
            tl.store(y + t + i, tl.load(x + t + i))
        """,
        XY,
    ),
    "N506": _rows(
        "stride_at_run_time",
        _STORE.format("tl.load(x + r[:, None] * s0 + c[None, :] * s1, mask=m)"),
        _STORE.format("tl.load(x + r[:, None] * s0 + c[None, :], mask=m)"),
        {**XYMN, "s0": "i32", "s1": "i32"},
        begin=ROWS,
    ),
    "N507": _rows(
        "short_transpose",
        "tl.store(y + c[:, None] * M + r[None, :], tl.trans(v))",
        "tl.store(y + c[:, None] * M + r[None, :], tl.trans(v.to(tl.float32)).to(tl.bfloat16))",
        {"x": BF16, "y": BF16, "M": "i32", "N": "i32"},
        64,
        64,
    ),
}

_PRODUCT = """
m = tl.arange(0, TM)
n = tl.arange(0, TN)
k = tl.arange(0, 32)
a = tl.load(x + m[:, None] * 32 + k[None, :])
b = tl.load(w + k[:, None] * TN + n[None, :])
tl.store(y + m[:, None] * TN + n[None, :], tl.dot(a, b))
"""
_PRODUCT_TYPES = {"x": F16, "w": F16, "y": F32}
PAIRS["N208"] = Pair(
    source("large_accumulator", _PRODUCT, _PRODUCT_TYPES, {"TM": 256, "TN": 256}),
    source("large_accumulator_well", _PRODUCT, _PRODUCT_TYPES, {"TM": 128, "TN": 256}),
)
_ASSEMBLY = 'tl.inline_asm_elementwise("add.f32 $0, $1, $1;", "=f,f", [{0}], dtype=tl.float32, is_pure=True, pack=1)'
PAIRS["N316"] = _flat(
    "assembly",
    f"tl.store(y + i, {_ASSEMBLY.format('tl.load(x + i, mask=i < n)')}, mask=i < n)",
    "tl.store(y + i, 2.0 * tl.load(x + i, mask=i < n), mask=i < n)",
    XY,
)
_COMPARED = """
i = tl.program_id(0) * TILE + tl.arange(0, TILE)
v = tl.load(x + i, mask=i < n)
tl.store(y + i, tl.where(v > 0.0, v, 1.0 - v), mask=i < n)
"""
# Ascend's Triton alone has tiles of any size.
ONLY_ASCEND = {
    "N315": Pair(
        source("rest", _COMPARED, XY, {"TILE": 1000}),
        source("rest_well", _COMPARED, XY, {"TILE": 1024}),
    )
}
