"""Operators of PyTorch on the host, between kernels: their threads do not spin on the cores of a kernel's programs."""

from __future__ import annotations

import pytest
import torch

from tests.processes import run_python

# Threads of this process after each of: an operator, kernels that take long, an operator again, a kernel that does not.
PROGRAM = """
import os, time, torch
torch.set_num_threads(2)
compiled = torch.compile(lambda x: torch.sin(x) + torch.cos(x), dynamic=False)
large, small, square = (torch.randn(size, device="npu") for size in ((4096, 1024), (8, 8), (512, 512)))
for x in (large, small):
    for _ in range(2):
        compiled(x)
        torch.npu.synchronize()
def threads(step):
    step()
    torch.npu.synchronize()
    return count()
def count():
    return len(os.listdir("/proc/self/task"))
def threads_after(step, before):
    # Threads that end may take a moment on a busy host.
    threads(step)
    until = time.monotonic() + 10
    while count() >= before and time.monotonic() < until:
        time.sleep(0.01)
    return count()
multiply = lambda: square @ square
operator = threads(multiply)
print(operator, threads_after(lambda: compiled(large), operator), threads(multiply), threads(lambda: compiled(small)))
"""


@pytest.mark.skipif(torch.get_num_threads() == 1, reason="PyTorch has one thread")
def test_long_kernels_end_the_threads_that_wait_for_the_next_operator() -> None:
    operator, after_long, again, after_short = map(int, run_python(PROGRAM).lines()[-1].split())
    assert after_long < operator
    assert again == operator == after_short
