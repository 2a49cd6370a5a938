"""Maxima and sums of what does not count but at one number: the element of that number, whatever it is.

With them the last of equal indices, as `scatter` writes it: the largest number of an index that is equal to a place,
and then the value of that number.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given
from hypothesis import strategies as st

from inductor_npu.simulator.triton_backend.codegen import CodegenOptions
from inductor_npu.simulator.triton_backend.codegen.kernel.function import generate_kernel
from inductor_npu.simulator.triton_backend.ttir import parser

from .support import QUICK, assert_same, triton_name

pytestmark = pytest.mark.compiled

VALUES = [torch.float32, torch.bfloat16, torch.int32, torch.int64]
ODD = (float("nan"), float("inf"), float("-inf"), -0.0, 0.0, 1.5, -7.0)
FAR = st.sampled_from([-(1 << 31), (1 << 31) - 1])
COUNT, ROUND, PLACES, NOTHING = 40, 16, 32, 5


@triton.jit
def larger(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def last_kernel(index, value, out, first, COUNT: tl.constexpr, R: tl.constexpr, P: tl.constexpr, SUM: tl.constexpr):
    """A row of `scatter`, as Inductor writes it for Ascend: R indices at a time. Where nothing is written: 5."""
    row, p = tl.program_id(0), first + tl.arange(0, P)
    latest = tl.full([R, P], float("-inf"), tl.float32)
    for start in range(0, COUNT, R):
        r = start + tl.arange(0, R)
        i = tl.load(index + row * COUNT + r, r < COUNT)
        number = tl.where(i[:, None] == p, r.to(tl.float32)[:, None], -1.0)
        latest = tl.maximum(
            latest, tl.where((r < COUNT)[:, None], number, float("-inf")), propagate_nan=tl.PropagateNan.ALL
        )
    last = tl.reduce(latest, 0, larger)
    nothing = 0 if SUM else float("-inf")
    total = tl.full([R, P], nothing, value.dtype.element_ty if SUM else tl.float32)
    for start in range(0, COUNT, R):
        r = start + tl.arange(0, R)
        v = tl.load(value + row * COUNT + r, r < COUNT)
        v = v if SUM else v.to(tl.float32)
        term = tl.where((r < COUNT)[:, None], tl.where(r.to(tl.float32)[:, None] == last, v[:, None], nothing), nothing)
        total = total + term if SUM else tl.maximum(total, term, propagate_nan=tl.PropagateNan.ALL)
    chosen = tl.sum(total, 0) if SUM else tl.reduce(total, 0, larger)
    tl.store(out + row * P + tl.arange(0, P), tl.where(last >= 0, chosen, 5))


@triton.jit
def last_at_once_kernel(index, value, out, COUNT: tl.constexpr, R: tl.constexpr, P: tl.constexpr, LAST: tl.constexpr):
    """A row of `scatter` whose indices are one tile, along the first or the last axis; a mask of all its elements."""
    row, p, r = tl.program_id(0), tl.arange(0, P), tl.arange(0, R)
    i, v = tl.load(index + row * COUNT + r, r < COUNT), tl.load(value + row * COUNT + r, r < COUNT)
    if LAST:
        here = (r < COUNT)[None, :]
        number = tl.where(i == p[:, None], r.to(tl.float32), -1.0)
        last = tl.reduce(tl.where(here, number, float("-inf")), 1, larger)
        picked = tl.where(r.to(tl.float32) == last[:, None], v, float("-inf"))
        chosen = tl.reduce(tl.where(here, picked, float("-inf")), 1, larger)
    else:
        here = tl.reshape((tl.arange(0, R * P) // P).to(tl.float32), [R, P]) < COUNT
        number = tl.where(i[:, None] == p, r.to(tl.float32)[:, None], -1.0)
        last = tl.reduce(tl.where(here, number, float("-inf")), 0, larger)
        picked = tl.where(r.to(tl.float32)[:, None] == last, v[:, None], float("-inf"))
        chosen = tl.reduce(tl.where(here, picked, float("-inf")), 0, larger)
    tl.store(out + row * P + p, tl.where(last >= 0, chosen, 5))


@triton.jit
def pick_kernel(choice, value, out, C: tl.constexpr, R: tl.constexpr, FIRST: tl.constexpr, KIND: tl.constexpr):
    """Of each row of R elements the one whose number, from FIRST on, is chosen; the last three do not count."""
    c, r = tl.arange(0, C), FIRST + tl.arange(0, R)
    chosen, v = tl.load(choice + c), tl.load(value + c[:, None] * R + r - FIRST)
    valid = r < FIRST + R - 3
    if KIND == "max":
        picked = tl.where(valid, tl.where(r == chosen[:, None], v, float("-inf")), float("-inf"))
        tl.store(out + c, tl.reduce(picked, 1, larger))
    else:
        tl.store(out + c, tl.sum(tl.where((r == chosen[:, None]) & valid, v, 0), 1))


@triton.jit
def other_kernel(choice, value, out, count, C: tl.constexpr, R: tl.constexpr, N: tl.constexpr, KIND: tl.constexpr):
    """Loops whose reductions are something else, or which do something else, too."""
    c = tl.arange(0, C)
    chosen = tl.load(choice + c)
    total = tl.full([R, C], float("-inf"), tl.float32)
    for start in range(0, count if KIND == 0 else N, R // 2 if KIND == 1 else R):
        r = start + tl.arange(0, R)
        if KIND == 2:  # a value that depends on the round
            v = tl.load(value + r) + start
        elif KIND == 3:  # ... on where in the tile it is
            v = tl.load(value + r) + tl.arange(0, R)
        else:
            v = tl.load(value + r)
        v = v[:, None] + r if KIND == 6 else v[:, None]  # ... on the round's numbers along the other axis
        other = 1.0 if KIND == 4 else float("-inf")
        term = tl.where((r == chosen[:, None]).trans(1, 0), v, other)
        total = tl.maximum(total, term, propagate_nan=tl.PropagateNan.ALL)
        if KIND == 5:  # what is read is written
            tl.store(value + r, tl.load(value + r) + 1)
    tl.store(out + c, tl.reduce(total, 0, larger))


@triton.jit
def numbered_kernel(index, out, N: tl.constexpr, R: tl.constexpr, P: tl.constexpr, LEAST: tl.constexpr):
    """The largest of numbers that a loop around counts, by place, or LEAST; an inner loop goes over the indices."""
    p = tl.arange(0, P)
    for outer in range(2):
        latest = tl.full([R, P], float("-inf"), tl.float32)
        for start in range(0, N, R):
            number = (outer + tl.arange(0, R)).to(tl.float32)
            i = tl.load(index + start + tl.arange(0, R))
            term = tl.where(i[:, None] == p, number[:, None], LEAST)
            latest = tl.maximum(latest, term, propagate_nan=tl.PropagateNan.ALL)
        tl.store(out + outer * P + p, tl.reduce(latest, 0, larger))


def run_last(device, index: torch.Tensor, value: torch.Tensor, first: int):
    """Some rows of PLACES places from `first` on, and what was compiled."""
    out = torch.empty(len(index), PLACES, dtype=value.dtype, device=device)
    integers = not value.dtype.is_floating_point
    compiled = last_kernel[(len(index),)](
        index.to(device), value.to(device), out, first, COUNT=COUNT, R=ROUND, P=PLACES, SUM=integers
    )
    return out, compiled


def written_last(index: torch.Tensor, value: torch.Tensor, first: int) -> torch.Tensor:
    out = torch.full((len(index), PLACES), NOTHING).to(value.dtype)
    for row, (indices, values) in enumerate(zip(index.tolist(), value)):
        for place, each in zip(indices, values):
            if first <= place < first + PLACES:
                out[row, place - first] = each
    return out


def loops_over_rounds(compiled) -> int:
    return compiled.asm["llir"].count("icmp slt i32 %p")


@pytest.mark.parametrize("dtype", VALUES, ids=triton_name)
def test_the_last_of_equal_indices_stays(device, vectors, dtype):
    index = torch.randint(-9, 60, (3, COUNT), dtype=torch.int32)
    index[1] = 37  # all but the last one are written over
    value = torch.randint(-100, 100, (3, COUNT)).to(dtype)
    out, compiled = run_last(device, index, value, 20)
    assert_same(out, written_last(index, value, 20))
    assert loops_over_rounds(compiled) == 1, "the second loop is gone"


@pytest.mark.parametrize("along_last", [False, True], ids=["first axis", "last axis"])
def test_the_last_of_equal_indices_of_one_tile_stays(device, vectors, along_last):
    index, value = torch.randint(-9, 40, (3, 20), dtype=torch.int32), torch.randn(3, 20)
    value[:, ::3], value[:, ::5] = float("nan"), -0.0
    out = torch.empty(3, PLACES, device=device)
    compiled = last_at_once_kernel[(3,)](
        index.to(device), value.to(device), out, COUNT=20, R=32, P=PLACES, LAST=along_last
    )
    assert_same(out, written_last(index, value, 0))
    assert "experimental.vector.compress" in compiled.asm["llir"] or "icmp ult <" in compiled.asm["llir"]


def test_any_indices_and_values(device, vectors):
    @QUICK
    @given(
        index=st.lists(st.integers(-3, 90) | FAR, min_size=COUNT, max_size=COUNT),
        value=st.lists(st.sampled_from(ODD), min_size=COUNT, max_size=COUNT),
        first=st.sampled_from([0, 7, 32, 64]),
    )
    def check(index: list[int], value: list[float], first: int) -> None:
        indices, values = torch.tensor([index], dtype=torch.int32), torch.tensor([value])
        out, _ = run_last(device, indices, values, first)
        assert_same(out, written_last(indices, values, first))

    check()


@pytest.mark.parametrize("kind", ["max", "sum"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int32], ids=triton_name)
def test_an_element_is_picked_by_its_number(device, vectors, dtype, kind):
    if kind == "max" and dtype == torch.int32:
        return
    # As many rows as elements: the same positions count along both axes.
    value = torch.tensor(ODD).repeat(64 * 64 // len(ODD) + 1)[: 64 * 64].reshape(64, 64)
    value = torch.randint(-9, 9, (64, 64), dtype=dtype) if dtype == torch.int32 else value
    nothing = float("-inf") if kind == "max" else 0
    for first in (0, 100):
        choice = torch.tensor([0, 5, 60, 61, 63, 64, -1, 31] * 8, dtype=torch.int32) + first
        out = torch.empty(64, dtype=dtype, device=device)
        pick_kernel[(1,)](choice.to(device), value.to(device), out, C=64, R=64, FIRST=first, KIND=kind)
        expected = [row[c - first] if 0 <= c - first < 61 else nothing for row, c in zip(value, choice.tolist())]
        # A sum with 0.0 is not -0.0.
        assert_same(out, torch.tensor(expected).to(dtype) + (0 if kind == "sum" else -0.0))


def test_other_loops_are_left_as_they_are(device):
    rows = torch.tensor([0, 3, 16, 31, 40, -1, 17, 8] * 2, dtype=torch.int32)
    number = np.arange(32, dtype=np.float32)
    values = [number, number, number + (number // 16 * 16), number + number % 16, number, number, number]
    for kind, wanted in enumerate(values):
        value, out = torch.from_numpy(number.copy()).to(device), torch.empty(16, device=device)
        if kind == 1:
            value = torch.cat([value, torch.full((16,), 99.0, device=device)])  # the last round begins at 24
        compiled = other_kernel[(1,)](rows.to(device), value, out, 32, C=16, R=16, N=32, KIND=kind)
        nothing = 1.0 if kind == 4 else float("-inf")
        expected = [max(wanted[r], nothing) if 0 <= r < 32 else nothing for r in rows.tolist()]
        if kind == 6:
            expected = [each + r // 16 * 16 + k for k, (each, r) in enumerate(zip(expected, rows.tolist()))]
        assert_same(out, torch.tensor(expected))
        assert "%for" in compiled.asm["llir"], kind
        if kind == 5:
            assert_same(value, torch.from_numpy(number + 1))


@pytest.mark.parametrize("least", [-1.0, 0.0, 7.0])
def test_numbers_that_another_loop_counts_are_compared(device, least):
    index = torch.randint(0, 40, (64,), dtype=torch.int32)
    index[5], index[19] = 3, 3  # the later round has the smaller number
    out = torch.empty(2, 32, device=device)
    numbered_kernel[(1,)](index.to(device), out, N=64, R=16, P=32, LEAST=least)
    number = torch.arange(16).repeat(4) + torch.arange(2)[:, None]
    meant = index[None, :, None] == torch.arange(32)
    expected = torch.where(meant, number[:, :, None].float(), least).amax(1)
    assert_same(out, expected)


def test_what_is_observed_reads_all_that_the_chip_would(device):
    _, compiled = run_last(device, torch.zeros(1, COUNT, dtype=torch.int32), torch.zeros(1, COUNT), 0)
    for options, loops in ((CodegenOptions(), 1), (CodegenOptions(checked=True), 2), (CodegenOptions(record=True), 2)):
        text = generate_kernel(parser.parse(compiled.asm["ttir"]), options).llvm_ir
        assert text.count("icmp slt i32 %p") == loops
