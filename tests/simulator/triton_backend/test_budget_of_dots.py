"""What kernels with dots need on chip: vector cores that share the rows, operands in L1, accumulators in L0C."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import triton
import triton.language as tl
from triton.compiler import ASTSource

from inductor_npu.simulator.triton_backend.front_end import ttir_of
from inductor_npu.simulator.triton_backend.ttir.budget import Footprint, footprint
from inductor_npu.simulator.triton_backend.ttir.parser import parse
from inductor_npu.simulator.triton_backend.ttir.passes import simplify
from inductor_npu.target import get_target

TARGET = get_target("Ascend910B3")
TENSORS = dict.fromkeys("ABC", "*fp16")
INTS = {"M": "i32", "N": "i32", "K": "i32"}


def measure(kernel: Any, odd: dict[int, int] | None = None, residual: str = "*fp16", **constants: int) -> Footprint:
    """`odd`: sizes in place of powers of two, which are all that upstream's Triton takes."""
    signature = {**TENSORS, "R": residual, **INTS}
    if "constexprs" in inspect.signature(ASTSource).parameters:  # Triton 3.3 and later
        signature |= dict.fromkeys(constants, "constexpr")
    text = ttir_of(ASTSource(kernel, signature, constants), TARGET.name, simplified=True, sanitize_overflow=False)
    for size, other in (odd or {}).items():
        text = text.replace(f"{size}", f"{other}")
    module = parse(text)
    simplify(module)
    return footprint(module.kernel, TARGET)


@triton.jit
def _tiles(pid, N, BM: tl.constexpr, BN: tl.constexpr):
    tn = tl.cdiv(N, BN)
    return (pid // tn) * BM + tl.arange(0, BM), (pid % tn) * BN + tl.arange(0, BN)


@triton.jit
def _product(A, B, rm, rn, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    acc = tl.zeros((BM, BN), tl.float32)
    for k0 in range(0, K, BK):
        k = k0 + tl.arange(0, BK)
        a = tl.load(A + rm[:, None] * K + k[None, :], mask=(rm[:, None] < M) & (k[None, :] < K), other=0.0)
        b = tl.load(B + k[:, None] * N + rn[None, :], mask=(k[:, None] < K) & (rn[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc)
    return acc


@triton.jit
def plain(A, B, C, R, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm, rn = _tiles(tl.program_id(0), N, BM, BN)
    acc = _product(A, B, rm, rn, M, N, K, BM, BN, BK)
    tl.store(C + rm[:, None] * N + rn[None, :], acc.to(tl.float16), mask=(rm[:, None] < M) & (rn[None, :] < N))


@triton.jit
def residual(A, B, C, R, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm, rn = _tiles(tl.program_id(0), N, BM, BN)
    acc = _product(A, B, rm, rn, M, N, K, BM, BN, BK)
    m = (rm[:, None] < M) & (rn[None, :] < N)
    r = tl.load(R + rm[:, None] * N + rn[None, :], mask=m, other=0.0)
    tl.store(C + rm[:, None] * N + rn[None, :], (acc + r.to(tl.float32)).to(tl.float16), mask=m)


@triton.jit
def cast_first(A, B, C, R, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm, rn = _tiles(tl.program_id(0), N, BM, BN)
    acc = _product(A, B, rm, rn, M, N, K, BM, BN, BK).to(tl.float16)
    tl.store(C + rm[:, None] * N + rn[None, :], acc * 2.0, mask=(rm[:, None] < M) & (rn[None, :] < N))


@triton.jit
def column_sums(A, B, C, R, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm, rn = _tiles(tl.program_id(0), N, BM, BN)
    acc = _product(A, B, rm, rn, M, N, K, BM, BN, BK)
    tl.store(C + rn, tl.sum(acc, 0).to(tl.float16), mask=rn < N)


@triton.jit
def row_before_the_loop(A, B, C, R, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm, rn = _tiles(tl.program_id(0), N, BM, BN)
    row = tl.load(R + rm, mask=rm < M, other=0.0)
    for n in range(K):
        acc = _product(A, B, rm, rn, M, N, K, BM, BN, BK)
        tl.store(C + n + rm[:, None] * N + rn[None, :], (acc * row[:, None]).to(tl.float16), mask=rm[:, None] < M)


@triton.jit
def chain(A, B, C, R, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm, rn = _tiles(tl.program_id(0), N, BM, BN)
    h = tl.exp(_product(A, B, rm, rn, M, N, K, BM, BN, BK)).to(tl.float16)
    i = tl.arange(0, BN)
    second = tl.dot(h, tl.load(R + i[:, None] * BN + i[None, :]))
    tl.store(C + rm[:, None] * N + rn[None, :], second.to(tl.float16), mask=(rm[:, None] < M) & (rn[None, :] < N))


@triton.jit
def bias_first(A, B, C, R, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm, rn = _tiles(tl.program_id(0), N, BM, BN)
    k = tl.arange(0, BK)
    bias = tl.load(R + rn, mask=rn < N, other=0.0)
    a = tl.load(A + rm[:, None] * K + k[None, :], mask=rm[:, None] < M, other=0.0)
    b = tl.load(B + k[:, None] * N + rn[None, :], mask=rn[None, :] < N, other=0.0)
    acc = tl.dot(a, b, tl.broadcast_to(bias[None, :], (BM, BN)))
    tl.store(C + rm[:, None] * N + rn[None, :], acc.to(tl.float16), mask=(rm[:, None] < M) & (rn[None, :] < N))


@triton.jit
def scaled_operand(A, B, C, R, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm, rn = _tiles(tl.program_id(0), N, BM, BN)
    k = tl.arange(0, BK)
    a = tl.load(A + rm[:, None] * K + k[None, :], mask=rm[:, None] < M, other=0.0)
    b = tl.load(B + k[:, None] * N + rn[None, :], mask=rn[None, :] < N, other=0.0)
    acc = tl.dot(a * 2.0, b)
    tl.store(C + rm[:, None] * N + rn[None, :], acc.to(tl.float16), mask=(rm[:, None] < M) & (rn[None, :] < N))


BLOCKS = {"BM": 128, "BN": 64, "BK": 32}


def test_a_product_that_is_only_stored_takes_nothing_of_the_unified_buffer() -> None:
    found = measure(plain, **BLOCKS)
    assert (found.unified_buffer, found.l0c, found.is_shared) == (0, 128 * 64 * 4, False)
    assert found.l1 == (128 * 32 + 32 * 64) * 2


def test_operands_are_in_fractals_and_accumulators_in_squares_of_16() -> None:
    found = measure(plain, {128: 17, 512: 33, 256: 19}, BM=128, BN=512, BK=256)
    assert found.l0c == 32 * 48 * 4
    assert found.l1 == (32 * 32 + 32 * 48) * 2  # rows in 16, columns in 32 bytes


def test_each_vector_core_has_half_of_the_rows() -> None:
    found = measure(residual, **BLOCKS)
    assert found.is_shared
    assert found.unified_buffer == 64 * 64 * (4 + 2 + 4)  # the product, the residual, and it in float32
    assert {str(tile.type) for tile in found.largest} == {"tensor<64x64xf32>", "tensor<64x64xf16>"}


def test_an_odd_number_of_rows_is_not_shared() -> None:
    found = measure(residual, {128: 127}, **BLOCKS)
    assert not found.is_shared
    assert found.unified_buffer == 127 * 64 * (4 + 2 + 4)


def test_a_cast_that_comes_first_is_done_on_the_way_out() -> None:
    assert measure(cast_first, **BLOCKS).unified_buffer == 64 * 64 * 2


def test_columns_are_shared_where_rows_are_summed() -> None:
    found = measure(column_sums, {128: 127}, **BLOCKS)
    assert found.is_shared
    assert found.unified_buffer == 127 * 32 * 4 * 2 + 32 * 4  # the tile, a temporary as large, the sums


def test_nothing_is_shared_where_a_loop_reads_a_column_from_outside() -> None:
    assert not measure(row_before_the_loop, **BLOCKS).is_shared


def test_l0c_of_a_dead_accumulator_is_used_again() -> None:
    found = measure(chain, BM=128, BN=128, BK=32)
    assert found.l0c == 128 * 128 * 4
    assert found.l1 == (128 * 128 + 128 * 128) * 2  # what the second reads; the operands of the first are dead


def test_a_bias_is_a_row_in_l1() -> None:
    found = measure(bias_first, residual="*fp32", **BLOCKS)
    assert (found.unified_buffer, found.l1) == (0, (128 * 32 + 32 * 64) * 2 + 64 * 4)


def test_a_computed_operand_is_a_tile_of_the_unified_buffer_too() -> None:
    found = measure(scaled_operand, **BLOCKS)
    assert found.unified_buffer == 64 * 32 * 2
    assert found.l1 == (128 * 32 + 32 * 64) * 2


@pytest.mark.parametrize(
    ("constants", "l1_fits", "l0c_fits"),
    [
        ({"BM": 128, "BN": 256, "BK": 512}, True, True),
        ({"BM": 128, "BN": 256, "BK": 1024}, False, True),
        ({"BM": 128, "BN": 512, "BK": 64}, True, False),
    ],
)
def test_limits_of_the_cube_core(constants: dict[str, int], l1_fits: bool, l0c_fits: bool) -> None:
    found = measure(plain, **constants)
    assert (found.l1 <= TARGET.l1, found.l0c <= TARGET.l0c) == (l1_fits, l0c_fits)
