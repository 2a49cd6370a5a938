"""Functions of generated kernels that a GPU has instructions for: they take their place, and become code."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import triton
import triton.language as tl

from inductor_npu.cuda.triton_backend import device_functions as of_gpu
from inductor_npu.runtime import device_functions
from tests.cuda.cubins import compiled, usage_of

pytestmark = pytest.mark.usefixtures("cuda_backend")


@triton.jit
def draw(x, y, z, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    seed = tl.load(z)
    tl.store(x + index, device_functions.uniform(seed, index) + device_functions.normal(seed, index))
    tl.store(y + index, device_functions.random_integers_below(seed, index, 10))
    tl.store(z + index, device_functions.random_integers(seed, index, seed, seed + 5))


@triton.jit
def sort(x, y, ROWS: tl.constexpr, LENGTH: tl.constexpr, DIM: tl.constexpr):
    place = tl.arange(0, ROWS)[:, None] * LENGTH + tl.arange(0, LENGTH)[None, :]
    index = tl.broadcast_to(tl.arange(0, LENGTH).to(tl.int16)[None, :], [ROWS, LENGTH])
    values, indices = device_functions.sort_with_index(tl.load(x + place), index, LENGTH, DIM, True)
    tl.store(x + place, values)
    tl.store(y + place, indices)


@triton.jit
def compute(x, y, z, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    value, count = tl.load(x + index), tl.load(z + index)
    sum_of_narrow = tl.zeros([BLOCK], tl.int64)
    for _ in range(2):
        sum_of_narrow = device_functions.add_int64(index, index)  # of int32, and int64 all the same
    tl.store(x + index, device_functions.tanh(value) + device_functions.log1p(device_functions.expm1(value)))
    count = device_functions.add_int64(count, sum_of_narrow)
    total = device_functions.subtract_int64(device_functions.multiply_int64(count, count), count)
    total = device_functions.where_int64(device_functions.less_int64(count, total), total, count)
    tl.store(z + index, device_functions.add_int64(total, count))
    is_equal = device_functions.equal_int64(total, count) & device_functions.at_most_int64(total, count)
    tl.store(y + index, is_equal | device_functions.unequal_int64(total, count))


def test_random_numbers() -> None:
    kernel = compiled(draw, {"x": "*fp32", "y": "*i32", "z": "*i64"}, {"BLOCK": 256})
    assert usage_of(kernel.kernel).spilled == 0
    assert "mul.wide.u32" in kernel.asm["ptx"] or "mul.hi.u32" in kernel.asm["ptx"]


@pytest.mark.parametrize("dim", [1, 0])
def test_sorts_of_rows_and_of_columns(dim: int) -> None:
    length = 64 if dim == 1 else 16
    kernel = compiled(sort, {"x": "*fp32", "y": "*i16"}, {"ROWS": 16, "LENGTH": length, "DIM": dim})
    assert usage_of(kernel.kernel).spilled == 0


def test_rows_are_sorted_by_exchanges_and_not_by_counting() -> None:
    kernel = compiled(sort, {"x": "*fp32", "y": "*i16"}, {"ROWS": 16, "LENGTH": 64, "DIM": 1})
    assert "scf.for" not in kernel.asm["ttir"]


def test_what_is_beyond_a_row_stays_there_though_its_index_is_loaded() -> None:
    command = [sys.executable, "-m", "tests.cuda.interpreted_sort"]
    finished = subprocess.run(
        command, env={**os.environ, "TRITON_INTERPRET": "1"}, check=False, capture_output=True, text=True
    )
    assert finished.returncode == 0, finished.stderr


def test_arithmetic() -> None:
    kernel = compiled(compute, {"x": "*fp32", "y": "*i1", "z": "*i64"}, {"BLOCK": 256})
    assert "mul.lo.s64" in kernel.asm["ptx"]


def test_each_stands_for_a_function_of_that_name() -> None:
    own = {name for name, value in vars(of_gpu).items() if getattr(value, "__module__", "") == of_gpu.__name__}
    own = {name for name in own if not name.startswith("_")}
    assert own >= {"uniform", "sort_with_index", "add_int64"}
    assert all(hasattr(device_functions, name) for name in own)
