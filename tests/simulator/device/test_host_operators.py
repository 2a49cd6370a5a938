"""Operators of PyTorch on the host, between kernels: their threads do not spin on the cores of a kernel's programs."""

from __future__ import annotations

import pytest
import torch

from tests.processes import run_python

# Threads of this process after each of: an operator, kernels that take long, an operator again, a kernel that does not.
PROGRAM = """
import os, torch
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
    return len(os.listdir("/proc/self/task"))
multiply = lambda: square @ square
print(*[threads(step) for step in (multiply, lambda: compiled(large), multiply, lambda: compiled(small))])
"""


@pytest.mark.skipif(torch.get_num_threads() == 1, reason="PyTorch has one thread")
def test_long_kernels_end_the_threads_that_wait_for_the_next_operator() -> None:
    operator, after_long, again, after_short = map(int, run_python(PROGRAM).lines()[-1].split())
    assert after_long < operator
    assert again == operator == after_short
