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
print({lookups.cache: (lookups.found, lookups.missed) for lookups in recorded.explanation.caches})
"""


def entries(cache: Path) -> list[Path]:
    return sorted(
        path for path in (cache / "inductor" / "inductor_npu" / "entries" / "kernel").rglob("*") if path.is_file()
    )


def test_cold_then_warm_then_damaged(tmp_path: Path) -> None:
    cold = run(TWO_KERNELS, tmp_path)
    assert cold.lines() == ["{'AOTAutograd': (0, 1), 'FX graph': (0, 1), 'npu kernels': (0, 2)}"]
    assert entries(tmp_path)

    warm = run(TWO_KERNELS, tmp_path)
    assert warm.lines() == ["{'AOTAutograd': (1, 0), 'FX graph': (1, 0), 'npu kernels': (2, 0)}"]

    for path in entries(tmp_path):
        path.write_bytes(path.read_bytes()[:100])
    damaged = run(TWO_KERNELS, tmp_path)
    assert damaged.lines() == ["{'AOTAutograd': (1, 0), 'FX graph': (1, 0), 'npu kernels': (0, 2)}"]
    assert "Error" not in ours(damaged.stderr)
