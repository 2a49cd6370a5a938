"""The record of launches: what it counts, what it leaves alone."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from inductor_npu.simulator.triton_backend import record
from tests.processes import run_forked

keeps_variants_apart = pytest.mark.skipif(
    not hasattr(getattr(triton, "knobs", None) and triton.knobs.compilation, "instrumentation_mode"),
    reason="this Triton keeps one variant of a kernel in memory, counting or not",
)


@triton.jit
def double_kernel(source, target, count, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < count
    tl.store(target + i, tl.load(source + i, mask=mask) * 2, mask=mask)


@triton.jit
def odd_elements_kernel(source, target, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(target + i, tl.load(source + i, mask=i % 2 == 1, other=0))


@triton.jit
def histogram_kernel(values, bins, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.atomic_add(bins + tl.load(values + i), 1, mask=i < N // 2)


@triton.jit
def scalar_kernel(source, target, flag):
    tl.store(target, tl.load(source) + tl.load(source + 1, mask=flag, other=0))


@triton.jit
def checked_kernel(source, N: tl.constexpr):
    tl.device_assert(tl.sum(tl.load(source + tl.arange(0, N)), 0) < 0, "positive")


def launch_double(count: int = 1000) -> torch.Tensor:
    x = torch.ones(count, device="npu")
    out = torch.empty_like(x)
    double_kernel[(triton.cdiv(count, 128),)](x, out, count, BLOCK=128)
    return out


def test_programs_bytes_operations_and_time():
    with record() as launches:
        out = launch_double()
    assert torch.equal(out.cpu(), torch.full((1000,), 2.0))
    (launch,) = launches
    assert (launch.name, launch.device, launch.programs) == ("double_kernel", 0, 8)
    assert (launch.bytes_read, launch.bytes_written) == (4000, 4000)
    assert launch.vector_operations >= 1000 // 16 and launch.microseconds > 0


def test_lanes_that_are_masked_off_are_not_moved():
    x, out = torch.ones(64, dtype=torch.int16, device="npu"), torch.empty(64, dtype=torch.int16, device="npu")
    with record() as launches:
        odd_elements_kernel[(1,)](x, out, N=64)
    assert (launches[0].bytes_read, launches[0].bytes_written) == (64, 128)


def test_atomics_read_and_write():
    values, bins = torch.arange(32, device="npu"), torch.zeros(32, dtype=torch.int32, device="npu")
    with record() as launches:
        histogram_kernel[(1,)](values, bins, N=32)
    assert (launches[0].bytes_read, launches[0].bytes_written) == (32 * 8 + 16 * 4, 16 * 4)


@pytest.mark.parametrize("flag", [False, True])
def test_scalars(flag):
    source, target = torch.ones(2, device="npu"), torch.zeros(1, device="npu")
    with record() as launches:
        scalar_kernel[(3,)](source, target, flag)
    assert (launches[0].bytes_read, launches[0].bytes_written) == (3 * (8 if flag else 4), 12)
    assert launches[0].vector_operations == 0


def test_a_failed_assert_does_not_lose_the_count():
    source = torch.ones(32, device="npu")
    with record() as launches:
        checked_kernel[(1,)](source, N=32, debug=True)
        with pytest.raises(RuntimeError, match="positive"):
            torch.npu.synchronize()
    assert launches[0].bytes_read == 128


def test_records_are_in_order_and_launches_outside_are_none_of_them():
    launch_double()
    with record() as launches:
        launch_double(10)
        launch_double(2000)
    launch_double()
    assert [launch.programs for launch in launches] == [1, 16]
    with record() as empty:
        pass
    assert empty == [] and len(launches) == 2


@keeps_variants_apart
def test_without_a_record_nothing_is_counted():
    x = torch.ones(256, device="npu")
    kernel = double_kernel[(2,)](x, x, 256, BLOCK=128)
    assert "%count" not in kernel.asm["llir"]
    with record():
        counting = double_kernel[(2,)](x, x, 256, BLOCK=128)
    assert "%count" in counting.asm["llir"] and kernel.hash != counting.hash


@keeps_variants_apart
def test_a_kernel_without_counters_has_none():
    x = torch.ones(256, device="npu")
    launcher = double_kernel.warmup(x, x, 256, BLOCK=128, grid=(2,))
    with record() as launches:
        launcher[(2, 1, 1)](x, x, 256, 128)
    (launch,) = launches
    counters = (launch.bytes_read, launch.bytes_written, launch.vector_operations)
    assert launch.programs == 2 and counters == (None, None, None)


def test_records_do_not_nest():
    with record(), pytest.raises(RuntimeError, match="recorded already"), record():
        pass


def test_a_failing_block_ends_the_record():
    with pytest.raises(KeyError), record():
        raise KeyError("mine")
    with record() as launches:
        launch_double()
    assert len(launches) == 1


COMPILED = """
import torch
from inductor_npu.simulator.triton_backend import record
from tests.processes import run_forked
function = torch.compile(lambda x: torch.relu(x) + 1)
x = torch.randn(4096, device="npu")
function(x)
with record() as launches:
    function(x)
(launch,) = launches
print(launch.bytes_read, launch.bytes_written, launch.vector_operations > 0)
"""


@pytest.mark.slow
def test_compiled_code_counts_where_the_process_says_so():
    assert run_forked(COMPILED, INDUCTOR_NPU_RECORD="1").lines() == ["16384 16384 True"]
