"""What the header of a kernel says that its tiles move is what `python -m corpus.reuse` compares with."""

from __future__ import annotations

import re

import pytest
import torch
from torch._inductor.utils import run_and_get_code

from corpus.reuse import least_for_tiles

pytestmark = pytest.mark.compiled


def test_the_least_is_that_of_all_tiles() -> None:
    a, b = torch.rand(256, 64).to("npu"), torch.rand(64, 256).to("npu")
    _, (module,) = run_and_get_code(torch.compile(torch.mm), a, b)
    blocks = re.search(r"tile \[y, r0, x\]: y (\d+) of 256; .*; x (\d+) of 256", module)
    assert blocks is not None
    rows, columns = map(int, blocks.groups())
    tiles = (256 // rows) * (256 // columns)
    assert least_for_tiles(module) == tiles * (rows * 64 + 64 * columns + rows * columns) * 4


def test_a_dynamic_size_has_none() -> None:
    compiled = torch.compile(torch.mm, dynamic=True)
    _, (module,) = run_and_get_code(compiled, torch.rand(30, 64).to("npu"), torch.rand(64, 40).to("npu"))
    assert "tl.dot" in module and least_for_tiles(module) is None
