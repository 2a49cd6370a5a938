"""The grid of a launch: a program for each tile, and no more than there are cores."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from torch._inductor.runtime.triton_compat import Config
from torch._inductor.runtime.triton_heuristics import GridExpr

from inductor_npu.runtime.grid import NpuGrid, written_out

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


def test_inductor_makes_the_same_grid_of_its_expressions() -> None:
    meta = {"grid_type": "NpuGrid", "npu_cores": 40, "npu_tiled": [[("ynumel", 8), ("xnumel", "XBLOCK")]]}
    kernel = SimpleNamespace(inductor_meta=meta)
    for block in (64, 32):  # halved where it does not fit the chip's memory
        config = Config({"XBLOCK": block}, num_warps=1, num_stages=1)
        with written_out(kernel, config):
            grid = GridExpr.from_meta(kernel.inductor_meta, config)
        assert grid.eval_slow({"xnumel": 200, "ynumel": 9}) == (2 * -(-200 // block), 1, 1)
    assert kernel.inductor_meta is meta


def test_a_grid_of_a_users_kernel_is_left_alone() -> None:
    meta = {"grid_type": "FixedGrid"}
    kernel = SimpleNamespace(inductor_meta=meta)
    with written_out(kernel, Config({})):
        assert kernel.inductor_meta is meta
