"""What are atomics, in a kernel that has its memory for itself: the same results without, on one thread."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from inductor_npu.ascend.collect.afresh import compiled_afresh
from inductor_npu.simulator.triton_backend import object_code
from tests.triton_features import require

from .support import assert_same, compile_source, random_values, triton_name

pytestmark = pytest.mark.compiled

KERNEL = """
@triton.jit
def kernel(target, values, places, count, stride, R: tl.constexpr, C: tl.constexpr):
    rows, columns = tl.program_id(0) * R + tl.arange(0, R), tl.arange(0, C)
    row = tl.load(places + rows, rows < count, other=0)
    mask = (rows < count)[:, None] & (columns < C - 3)[None, :]
    value = tl.load(values + rows[:, None] * C + columns[None, :], mask)
    tl.atomic_OPERATION(target + row[:, None] * C + columns[None, :] * stride, value, mask)
"""

OPERATIONS = {
    "add": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def updated(start: np.ndarray, values: np.ndarray, places: np.ndarray, stride: int, function: np.ufunc) -> np.ndarray:
    flat = start.copy().ravel()
    columns = np.arange(values.shape[1] - 3)
    with np.errstate(over="ignore"):
        for row, place in zip(values, places):
            at = place * values.shape[1] + columns * stride
            function.at(flat, at, row[: len(columns)])
    return flat.reshape(start.shape)


@pytest.mark.parametrize(
    "dtype", [torch.int32, torch.uint32, torch.int64, torch.float32, torch.float64], ids=triton_name
)
def test_rows_and_single_elements_with_equal_places(device, dtype):
    if dtype is torch.float64:
        require("masked loads of float64")
    names = ("add", "max", "min") if dtype.is_floating_point else tuple(OPERATIONS)
    for name in names:
        for stride, columns in ((1, 32), (0, 8), (2, 16)):  # neighbours, one element, elements apart
            start = random_values(dtype, 12 * columns, 1).reshape(12, columns)
            values = random_values(dtype, 50 * columns, 2).reshape(50, columns)
            if dtype.is_floating_point:  # whose sums are exact
                start, values = start.round().clamp(-99, 99), values.round().clamp(-99, 99)
            places = torch.arange(50, dtype=torch.int32) ** 2 % 10
            kernel = compile_source(KERNEL.replace("OPERATION", name))["kernel"]
            target = start.to(device)
            compiled = kernel[(7,)](
                target, values.to(device), places.to(device), 50, stride, R=8, C=columns, exclusive=True
            )
            assert "atomicrmw" not in compiled.asm["llir"] and "cmpxchg" not in compiled.asm["llir"]
            assert compiled.metadata.work_per_program == 0, "it runs on one thread"
            expected = updated(start.numpy(), values.numpy(), places.numpy(), stride, OPERATIONS[name])
            assert_same(target, torch.from_numpy(expected), signed_zero=False)


@triton.jit
def old_value_kernel(target, olds, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(olds + tl.program_id(0) * N + i, tl.atomic_add(target + i, 1))


@triton.jit
def exchange_kernel(target, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.atomic_cas(target + i, tl.zeros([N], tl.int32), tl.full([N], 5, tl.int32))


@triton.jit
def lock_kernel(lock, target):
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.atomic_add(target + tl.arange(0, 2), 1)
    tl.atomic_xchg(lock, 0)


def test_what_needs_an_atomic_keeps_it(device):
    target, olds = torch.zeros(16, dtype=torch.int32, device=device), torch.empty(64, dtype=torch.int32, device=device)
    compiled = old_value_kernel[(4,)](target, olds, N=16, exclusive=True)
    assert "atomicrmw" in compiled.asm["llir"]
    assert sorted(olds.cpu().view(4, 16)[:, 3].tolist()) == [0, 1, 2, 3] and (target == 4).all()
    compiled = exchange_kernel[(1,)](torch.zeros_like(target), N=16, exclusive=True)
    assert "cmpxchg" in compiled.asm["llir"]
    lock = torch.zeros(1, dtype=torch.int32, device=device)
    compiled = lock_kernel[(8,)](lock, target, exclusive=True)
    assert "atomicrmw" in compiled.asm["llir"] and target[:2].tolist() == [12, 12]


def test_kernels_of_yours_are_promised_nothing_and_those_of_inductor_are(device, monkeypatch):
    kernel = compile_source(KERNEL.replace("OPERATION", "add"))["kernel"]
    tensors = torch.zeros(12, 32), torch.ones(8, 32), torch.zeros(8, dtype=torch.int32)
    compiled = kernel[(1,)](*(tensor.to(device) for tensor in tensors), 8, 1, R=8, C=32)
    assert "atomicrmw" in compiled.asm["llir"] and compiled.metadata.work_per_program > 0

    seen: list[str] = []
    compile_object = object_code.compile_object
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")  # what is kept is not seen
    monkeypatch.setattr(object_code, "compile_object", lambda ir, level: seen.append(ir) or compile_object(ir, level))
    x, index, source = torch.randn(700, 64), torch.randint(0, 700, (900,)), torch.randn(900, 64)
    with compiled_afresh():
        got = torch.compile(lambda x, i, s: x.index_add(0, i, s))(x.to(device), index.to(device), source.to(device))
    assert seen and not any("atomicrmw" in ir for ir in seen)
    torch.testing.assert_close(got.cpu(), x.double().index_add(0, index, source.double()).float())
