"""Launches: kinds of arguments, grids, autotuning, heuristics, specialisation."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from tests.triton_features import needs_feature

from .support import INTERPRETED, assert_same


@triton.jit
def ids_kernel(out, size_y, size_z):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    place = ((x * size_y + y) * size_z + z) * 6
    tl.store(out + place, x)
    tl.store(out + place + 1, y)
    tl.store(out + place + 2, z)
    tl.store(out + place + 3, tl.num_programs(0))
    tl.store(out + place + 4, tl.num_programs(1))
    tl.store(out + place + 5, tl.num_programs(2))


@pytest.mark.parametrize("grid", [(1, 1, 1), (5, 1, 1), (1, 7, 1), (1, 1, 3), (4, 3, 2)], ids=str)
def test_every_program_of_a_grid_runs_once(device, grid):
    out = torch.full((*grid, 6), -1, dtype=torch.int32, device=device)
    ids_kernel[grid](out, grid[1], grid[2])
    axes = torch.meshgrid(*(torch.arange(n, dtype=torch.int32) for n in grid), indexing="ij")
    sizes = torch.tensor(grid, dtype=torch.int32).expand(*grid, 3)
    assert_same(out, torch.cat([torch.stack(axes, -1), sizes], -1))


@triton.jit
def mark_kernel(out):
    tl.atomic_add(out + tl.program_id(0), 1)


@pytest.mark.parametrize("programs", [1, 2, 1000, 20000])
def test_large_grids(device, programs):
    if INTERPRETED and programs > 1000:
        pytest.skip("slow on the interpreter")
    out = torch.zeros(programs, dtype=torch.int32, device=device)
    mark_kernel[(programs,)](out)
    assert (out.cpu() == 1).all()


@pytest.mark.parametrize("grid", [(0,), (4, 0), (0, 0, 0), (1, 1, 0)], ids=str)
def test_an_empty_grid_does_nothing(device, grid):
    out = torch.zeros(4, dtype=torch.int32, device=device)
    mark_kernel[grid](out)
    assert out.tolist() == [0] * 4


@triton.jit
def add_kernel(x, y, out, count, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < count
    tl.store(out + offsets, tl.load(x + offsets, mask=mask) + tl.load(y + offsets, mask=mask), mask=mask)


@pytest.mark.parametrize("count", [0, 1, 100, 1000])
def test_a_grid_may_be_computed_from_the_arguments(device, count):
    x, y = torch.randn(count), torch.randn(count)
    out = torch.empty(count, device=device)
    add_kernel[lambda meta: (triton.cdiv(count, meta["BLOCK"]),)](x.to(device), y.to(device), out, count, BLOCK=128)
    assert_same(out, x + y)


@triton.jit
def scalars_kernel(out, i, big, f, flag):
    tl.store(out, i.to(tl.float64))
    tl.store(out + 1, big.to(tl.float64))
    tl.store(out + 2, f.to(tl.float64))
    tl.store(out + 3, flag.to(tl.float64))


@pytest.mark.compiled
@pytest.mark.parametrize("i", [5, 0, -7, 16, 2**31 - 1])
@pytest.mark.parametrize("flag", [True, False])
def test_scalar_arguments(device, i, flag):
    out = torch.empty(4, dtype=torch.float64, device=device)
    scalars_kernel[(1,)](out, i, 2**40 + 1, 0.1, flag)
    assert out.tolist() == [i, 2**40 + 1, torch.tensor(0.1).item(), float(flag)]


@triton.jit
def typed_scalars_kernel(
    out, a: tl.int8, b: tl.int16, c: tl.uint8, d: tl.uint64, e: tl.float16, f: tl.bfloat16, g: tl.float64, h: tl.uint32
):
    tl.store(out, a.to(tl.float64))
    tl.store(out + 1, b.to(tl.float64))
    tl.store(out + 2, c.to(tl.float64))
    tl.store(out + 3, d.to(tl.float64))
    tl.store(out + 4, e.to(tl.float64))
    tl.store(out + 5, f.to(tl.float64))
    tl.store(out + 6, g.to(tl.float64))
    tl.store(out + 7, h.to(tl.float64))


@pytest.mark.compiled
def test_scalar_arguments_with_a_stated_dtype(device):
    out = torch.empty(8, dtype=torch.float64, device=device)
    typed_scalars_kernel[(1,)](out, -100, -30000, 200, 2**63, 1.5, 2.25, 0.1, 2**32 - 1)
    # A Triton that reads the annotations of integers only passes every float as float32.
    wide = INTERPRETED or typed_scalars_kernel.params[7].annotation_type == "fp64"
    tenth = 0.1 if wide else torch.tensor(0.1).item()
    assert out.tolist() == [-100, -30000, 200, 2.0**63, 1.5, 2.25, tenth, 2**32 - 1]


@triton.jit
def optional_kernel(x, bias, out, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    value = tl.load(x + offsets)
    if bias is not None:
        value += tl.load(bias + offsets)
    tl.store(out + offsets, value)


@pytest.mark.parametrize("with_bias", [False, True])
def test_none_is_an_argument(device, with_bias):
    x, bias, out = torch.randn(32), torch.randn(32), torch.empty(32, device=device)
    optional_kernel[(1,)](x.to(device), bias.to(device) if with_bias else None, out, BLOCK=32)
    assert_same(out, x + bias if with_bias else x)


@triton.jit
def constexpr_kernel(out, N: tl.constexpr, SCALE: tl.constexpr, NAME: tl.constexpr, DTYPE: tl.constexpr):
    value = tl.arange(0, N).to(DTYPE) * SCALE
    if NAME == "negative":
        value = -value
    tl.store(out + tl.arange(0, N), value)


@pytest.mark.parametrize("name", ["positive", "negative"])
def test_constexpr_arguments(device, name):
    out = torch.empty(16, device=device)
    constexpr_kernel[(1,)](out, N=16, SCALE=0.5, NAME=name, DTYPE=tl.float32)
    assert_same(out, torch.arange(16.0) * (0.5 if name == "positive" else -0.5), signed_zero=False)


@triton.jit
def tuple_kernel(tensors, scales, out, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(out + offsets, tl.load(tensors[0] + offsets) * scales[0] + tl.load(tensors[1] + offsets) * scales[1])


@pytest.mark.compiled
@needs_feature("tuples in variables")
def test_tuples_of_arguments(device):
    x, y, out = torch.randn(32), torch.randn(32), torch.empty(32, device=device)
    tuple_kernel[(1,)]((x.to(device), y.to(device)), (2.0, 4.0), out, BLOCK=32)
    torch.testing.assert_close(out.cpu(), x * 2 + y * 4)


def test_one_kernel_specialises_for_each_dtype_and_value(device):
    for count in (1, 16, 17, 32):
        for dtype in (torch.float32, torch.float16, torch.int64):
            x, y = torch.arange(count).to(dtype), torch.arange(count).to(dtype) * 3
            out = torch.empty(count, dtype=dtype, device=device)
            add_kernel[(1,)](x.to(device), y.to(device), out, count, BLOCK=32)
            assert_same(out, x + y)


def test_views_pass_their_first_element(device):
    x = torch.randn(10, 10, device=device)
    out = torch.zeros(10, 10, device=device)
    add_kernel[(1,)](x[3], x[5], out[7], 10, BLOCK=16)
    expected = torch.zeros(10, 10)
    expected[7] = (x[3] + x[5]).cpu()
    assert_same(out, expected)


# ---- autotuning and heuristics


def test_autotune_picks_a_config_and_keeps_it(device):
    if INTERPRETED:
        pytest.skip("the interpreter has no autotuner")

    @triton.autotune([triton.Config({"BLOCK": block}) for block in (32, 128, 512)], key=["count"])
    @triton.jit
    def tuned_kernel(x, out, count, BLOCK: tl.constexpr):
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        mask = offsets < count
        tl.store(out + offsets, tl.load(x + offsets, mask=mask) * 2, mask=mask)

    x = torch.randn(1000)
    for _ in range(2):
        out = torch.zeros(1000, device=device)
        tuned_kernel[lambda meta: (triton.cdiv(1000, meta["BLOCK"]),)](x.to(device), out, 1000)
        assert_same(out, x * 2)
    assert len(tuned_kernel.cache) == 1


@pytest.mark.compiled
def test_autotune_skips_configs_over_the_unified_buffer(device):
    @triton.autotune([triton.Config({"BLOCK": block}) for block in (2**19, 256)], key=["count"])
    @triton.jit
    def tuned_kernel(x, out, count, BLOCK: tl.constexpr):
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        mask = offsets < count
        value = tl.load(x + offsets, mask=mask, other=0.0)
        tl.store(out + offsets, value - tl.max(value, 0), mask=mask)

    x, out = torch.rand(200), torch.zeros(200, device=device)
    tuned_kernel[lambda meta: (triton.cdiv(200, meta["BLOCK"]),)](x.to(device), out, 200)
    assert_same(out, x - x.max())
    assert tuned_kernel.best_config.kwargs["BLOCK"] == 256


@pytest.mark.compiled
def test_autotune_restores_what_trials_change(device):
    @triton.autotune([triton.Config({"BLOCK": block}) for block in (64, 256)], key=["count"], reset_to_zero=["total"])
    @triton.jit
    def tuned_kernel(x, total, count, BLOCK: tl.constexpr):
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.atomic_add(total, tl.sum(tl.load(x + offsets, mask=offsets < count, other=0.0), 0))

    x, total = torch.ones(1000, device=device), torch.zeros(1, device=device)
    tuned_kernel[lambda meta: (triton.cdiv(1000, meta["BLOCK"]),)](x, total, 1000)
    assert total.item() == 1000


def test_heuristics_compute_constexprs(device):
    @triton.heuristics({"BLOCK": lambda args: triton.next_power_of_2(args["count"])})
    @triton.jit
    def heuristic_kernel(x, out, count, BLOCK: tl.constexpr):
        offsets = tl.arange(0, BLOCK)
        mask = offsets < count
        tl.store(out + offsets, tl.load(x + offsets, mask=mask) + BLOCK, mask=mask)

    x, out = torch.randn(50), torch.empty(50, device=device)
    heuristic_kernel[(1,)](x.to(device), out, 50)
    assert_same(out, x + 64)
