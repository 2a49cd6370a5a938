"""The grid of a launch: a program for each tile, and no more than there are cores."""

from __future__ import annotations

import pytest
from torch._inductor.runtime.triton_heuristics import NpuGrid  # where Inductor looks for it

ONE_AXIS = [[("xnumel", "XBLOCK")]]
TWO_AXES = [[("ynumel", None), ("xnumel", "XBLOCK")]]
NO_AXIS: list[list[tuple[str, str]]] = [[]]
KNOWN_PARTS = [[(19200, 1024)], [(300, 512)], []]
DYNAMIC_PARTS = [[("x0_numel", 1024)], [("y1_numel", None), (64, 32)], [(300, 512)]]


@pytest.mark.parametrize(
    ("tiled", "sizes", "programs"),
    [
        (ONE_AXIS, {"xnumel": 5000}, 2),
        (ONE_AXIS, {"xnumel": 1_000_000}, 40),
        (TWO_AXES, {"xnumel": 100, "ynumel": 7}, 7),
        (NO_AXIS, {}, 1),
        (KNOWN_PARTS, {}, 21),
        (DYNAMIC_PARTS, {"x0_numel": 1025, "y1_numel": 3}, 2 + 6 + 1),
        (DYNAMIC_PARTS, {"x0_numel": 1 << 20, "y1_numel": 3}, 40),
    ],
)
def test_programs(tiled: list[list[tuple[object, object]]], sizes: dict[str, int], programs: int) -> None:
    grid = NpuGrid(inductor_meta={"npu_cores": 40, "npu_tiled": tiled})
    grid.generate({"XBLOCK": 4096})
    assert grid.eval_slow(sizes) == (programs, 1, 1)
