"""Compiled once, found by the next process; an entry that is damaged is compiled again."""

from __future__ import annotations

from pathlib import Path

from tests.ascend_seat.processes import ours, run

TWO_KERNELS = """
import torch
import torch.nn.functional as F
import inductor_npu

def function(a):
    return F.layer_norm(a, (70,)).sum(0), a.softmax(-1)

x = torch.randn(33, 70)
with inductor_npu.record_explanation() as recorded:
    got = torch.compile(function)(x.npu())
for part, wanted in zip(got, function(x)):
    torch.testing.assert_close(part.cpu(), wanted)
kernels = recorded.explanation.kernels
print(len(kernels), sum(kernel.from_cache for kernel in kernels))
"""


def entries(cache: Path) -> list[Path]:
    return sorted(
        path for path in (cache / "inductor" / "inductor_npu" / "entries" / "kernel").rglob("*") if path.is_file()
    )


def test_cold_then_warm_then_damaged(tmp_path: Path) -> None:
    cold = run(TWO_KERNELS, tmp_path)
    assert cold.lines() == ["True"]
    kept = {path: path.stat().st_mtime_ns for path in entries(tmp_path)}
    assert kept

    assert run(TWO_KERNELS, tmp_path).lines() == ["True"]
    assert {path: path.stat().st_mtime_ns for path in entries(tmp_path)} == kept

    for path in kept:
        path.write_bytes(path.read_bytes()[:100])
    damaged = run(TWO_KERNELS, tmp_path)
    assert damaged.lines() == ["True"]
    assert "Error" not in ours(damaged.stderr)
