"""Products of matrices by a Triton kernel on the embedded NPU, over PyTorch's CPU operators of the same dtype.

python -m benchmarks.dot                    all cases; about a minute
python -m benchmarks.dot --only bfloat16    cases with "bfloat16" in their name

The kernel is persistent: as many programs as the device has cores, each takes every so manieth tile of the result.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from rich.console import Console
from rich.table import Table

from benchmarks.timing import median_seconds

PROGRAMS = 20
TILES = {
    torch.float32: (128, 256, 128),
    torch.bfloat16: (128, 256, 256),
    torch.float16: (128, 256, 256),
    torch.int8: (128, 256, 512),
}
SHAPES = ((512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048), (2048, 512, 512), (1, 4096, 4096), (16, 4096, 4096))
SLOWEST_HALF = 1 << 28  # multiplications; PyTorch's product of halves takes seconds for more


@triton.jit
def product_kernel(  # noqa: ANN201 - Triton reads annotations
    a, b, c, M, N, K,  # noqa: ANN001
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, B_BY_COLUMNS: tl.constexpr, SUMS: tl.constexpr,
):  # fmt: skip
    """C[M, N] = A[M, K] @ B, where B is [K, N], or [N, K] if it lies by columns."""
    across = tl.cdiv(N, BN)
    for tile in range(tl.program_id(0), tl.cdiv(M, BM) * across, tl.num_programs(0)):
        m = (tile // across) * BM + tl.arange(0, BM)
        n = (tile % across) * BN + tl.arange(0, BN)
        total = tl.zeros((BM, BN), SUMS)
        for start in range(0, K, BK):
            k = start + tl.arange(0, BK)
            x = tl.load(a + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0)
            if B_BY_COLUMNS:
                y = tl.load(b + n[:, None] * K + k[None, :], mask=(n[:, None] < N) & (k[None, :] < K), other=0)
                y = tl.trans(y)
            else:
                y = tl.load(b + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0)
            total = tl.dot(x, y, total, input_precision="ieee", out_dtype=SUMS)
        mask = (m[:, None] < M) & (n[None, :] < N)
        tl.store(c + m[:, None] * N + n[None, :], total.to(c.dtype.element_ty), mask=mask)


@dataclass(frozen=True)
class Case:
    """[m, k] @ [k, n]; with `by_columns` the second matrix is a transposed one."""

    dtype: torch.dtype
    m: int
    n: int
    k: int
    by_columns: bool = False

    @property
    def name(self) -> str:
        transposed = " transposed" if self.by_columns else ""
        return f"{str(self.dtype).removeprefix('torch.')} {self.m}x{self.n}x{self.k}{transposed}"

    @property
    def tile(self) -> tuple[int, int, int]:
        return (16, 256, 256) if self.m <= 16 else TILES[self.dtype]


def cases(only: str) -> Iterator[Case]:
    """The cases whose name contains `only`."""
    for dtype in TILES:
        for m, n, k in SHAPES:
            for by_columns in (False, True):
                case = Case(dtype, m, n, k, by_columns)
                if dtype is torch.float16 and m * n * k >= SLOWEST_HALF:
                    continue
                if only in case.name:
                    yield case


def matrix(rows: int, columns: int, dtype: torch.dtype) -> torch.Tensor:
    """Normal random numbers; all of their range for int8."""
    if dtype is torch.int8:
        return torch.randint(-128, 128, (rows, columns), dtype=dtype)
    return torch.randn(rows, columns).to(dtype)


def measure(case: Case, rounds: int) -> tuple[float, float]:
    """Median seconds of the kernel and of PyTorch. Raises AssertionError where their results differ."""
    a = matrix(case.m, case.k, case.dtype)
    b = matrix(case.n, case.k, case.dtype) if case.by_columns else matrix(case.k, case.n, case.dtype)
    right = b.t() if case.by_columns else b
    is_int = case.dtype is torch.int8
    on_a, on_b = a.to("npu"), b.to("npu")
    out = torch.empty(case.m, case.n, dtype=torch.int32 if is_int else case.dtype, device="npu")
    bm, bn, bk = case.tile
    sums = tl.int32 if is_int else tl.float32

    def ours() -> None:
        product_kernel[(PROGRAMS,)](
            on_a, on_b, out, case.m, case.n, case.k, BM=bm, BN=bn, BK=bk, B_BY_COLUMNS=case.by_columns, SUMS=sums
        )

    def theirs() -> torch.Tensor:
        return torch._int_mm(a, right) if is_int else torch.mm(a, right)

    ours()
    expected = a.double() @ right.double()
    tolerance = {torch.float32: 1e-4, torch.bfloat16: 1e-2, torch.float16: 2e-3, torch.int8: 0}[case.dtype]
    torch.testing.assert_close(out.cpu().double(), expected, rtol=tolerance, atol=tolerance * case.k**0.5)
    times = median_seconds({"npu": (ours, "npu"), "cpu": (theirs, "cpu")}, rounds, 1.0)
    return times["npu"], times["cpu"]


def main() -> None:
    """Measures and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="measure only cases whose name contains this")
    parser.add_argument("--rounds", type=int, default=9, help="turns of each side")
    arguments = parser.parse_args()
    table = Table("product", "kernel, ms", "PyTorch, ms", "speed over PyTorch", "kernel, 10^9 operations a second")
    for case in cases(arguments.only):
        ours, theirs = measure(case, arguments.rounds)
        speed = 2 * case.m * case.n * case.k / ours / 1e9
        table.add_row(case.name, f"{ours * 1e3:.3f}", f"{theirs * 1e3:.3f}", f"{theirs / ours:.2f}", f"{speed:.0f}")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
