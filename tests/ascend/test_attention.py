"""Kernels of attention through Ascend's compiler: accepted, for both kinds of cores, without scalar loops."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.ascend, pytest.mark.slow]

PROGRAM = """
import torch
import torch.nn.functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

def heads(dim=64, dtype=torch.float16, length=300, shared=4):
    return [
        torch.randn(2, count, length, dim, device="npu", dtype=dtype, requires_grad=True)
        for count in (4, shared, shared)
    ]

def flex(score=None, mask=None, **options):
    query, key, value = heads(**options)
    length = query.shape[2]
    blocks = None if mask is None else create_block_mask(mask, None, None, length, length, device="npu")
    run = torch.compile(lambda *tensors: flex_attention(*tensors, score, blocks, enable_gqa=True))
    run(query, key, value).sum().backward()

def fused(**options):
    mask = options.pop("mask", None)
    tensors = heads(**{name: options.pop(name) for name in ("dim", "dtype", "length", "shared") if name in options})
    run = torch.compile(lambda *tensors: F.scaled_dot_product_attention(*tensors, mask, enable_gqa=True, **options))
    run(*tensors).sum().backward()
"""

CASES = {
    "plain": "fused()",
    "whole": "fused(length=512)",
    "causal": "fused(is_causal=True, length=512)",
    "causal of float32": "fused(is_causal=True, dtype=torch.float32)",
    "heads of 72": "fused(is_causal=True, dim=72)",
    "heads of 128": "fused(is_causal=True, dim=128, dtype=torch.bfloat16)",
    "grouped": "fused(is_causal=True, shared=2)",
    "mask": "fused(mask=torch.rand(300, 300, device='npu') > 0.5)",
    "gradient of a mask": "fused(mask=torch.rand(300, 300, device='npu', requires_grad=True))",
    "flex": "flex(mask=lambda b, h, q, k: (q >= k) & (q - k < 100))",
    "learned bias": "t = torch.randn(4, 300, device='npu', dtype=torch.float16, requires_grad=True)\n"
    "flex(score=lambda score, b, h, q, k: score + t[h, k])",
    "softcap": "flex(score=lambda score, b, h, q, k: 20 * torch.tanh(score / 20))",
}


@pytest.mark.parametrize("case", CASES)
def test_kernels_are_accepted(case: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(f"{PROGRAM}\n{CASES[case]}\n")
    report = tmp_path / "report.json"
    command = [sys.executable, "-m", "inductor_npu.cli", "check", "--json", str(report), str(tmp_path / "program.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    kernels = [each for each in json.loads(report.read_text())["kernels"] if "# attention, " in each["source"]]
    assert len(kernels) == 3, "forward, gradients of keys and values, gradients of queries"
    assert [each["verdict"] for each in kernels] == ["mixed"] * 3
    assert all(each["cycles"]["cube"] > 0 and each["cycles"]["vector"] > 0 for each in kernels)
