"""Kernels whose axes are cut where conditions on indices change: a loop for each piece, without conditions."""

from __future__ import annotations

import re

import pytest
import torch
import torch.nn.functional as F

from tests.codegen.emit.test_header import kernels_in
from tests.codegen.texts import module_of

pytestmark = pytest.mark.compiled


def kernel_of(function, *shapes: tuple[int, ...], **options) -> str:
    """The only kernel of `function` for floats of `shapes`."""
    (kernel,) = kernels_in(module_of(function, *(torch.zeros(shape, device="npu") for shape in shapes), **options))
    return kernel


def pieces_in(kernel: str) -> list[str]:
    """What the comments above the loops call the pieces."""
    return re.findall(r"^    # (\w from .*)$", kernel, re.MULTILINE)


def loads_in(kernel: str) -> list[str]:
    """The pointers that each loop over tiles loads from."""
    return [" ".join(re.findall(r"tl\.load\((\w+)", loop)) for loop in kernel.split("for tile in ")[1:]]


def test_a_concatenation_is_a_copy_of_each_tensor():
    kernel = kernel_of(lambda a, b, c: torch.cat((a, b, c), 1) * 2, (50, 64), (50, 32), (50, 16))
    assert pieces_in(kernel) == ["x from 0 to 64", "x from 64 to 96", "x from 96 to 112"]
    assert loads_in(kernel) == ["in_ptr0", "in_ptr1", "in_ptr2"]
    assert "where" not in kernel and ">=" not in kernel


def test_a_padding_is_stores_of_the_constant_and_a_copy():
    kernel = kernel_of(lambda x: F.pad(x, (16, 16, 1, 1)) * 2, (20, 30, 40))
    assert len(pieces_in(kernel)) == 5
    assert [len(loads.split()) for loads in loads_in(kernel)] == [0, 0, 1, 0, 0]
    assert ">=" not in kernel


def test_axes_that_conditions_keep_apart_are_one_within_a_piece():
    kernel = kernel_of(lambda a, b: torch.cat((a, b), 1) + 1, (4, 16, 14, 14), (4, 24, 14, 14))
    assert re.findall(r"xnumel = (\d+)", kernel) == [str(16 * 14 * 14), str(24 * 14 * 14)]


def test_what_another_tensor_replaces_is_not_loaded():
    for kernel in (
        kernel_of(lambda x, y: torch.slice_scatter(x, y, 1, 16, 48) * 2, (64, 100), (64, 32)),
        kernel_of(lambda x, y: torch.select_scatter(x, y, 0, 5) * 2, (64, 100), (100,)),
    ):
        before, inside, behind = loads_in(kernel)
        assert before == behind != inside and {before, inside} == {"in_ptr0", "in_ptr1"}


@pytest.mark.slow
def test_the_share_of_a_window_that_lies_inside_takes_no_axis_out_of_the_tile():
    pooled = kernel_of(lambda x: F.avg_pool2d(x, 3, 1, 1, count_include_pad=False), (8, 4, 28, 28))
    assert not re.findall("one index at a time: .*x", pooled)
    ramp = kernel_of(lambda x: x + torch.arange(100, device=x.device).clamp(max=60), (8, 100))
    assert len(pieces_in(ramp)) in (0, 2) and "one index at a time" not in ramp


def test_halves_that_change_places_are_two_pieces():
    def rotated(x: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        first, second = x.chunk(2, -1)
        return x + torch.cat((-second, first), -1) * sin

    kernel = kernel_of(rotated, (8, 128, 64), (128, 64))
    assert pieces_in(kernel) == ["x from 0 to 32", "x from 32 to 64"]
    assert "where" not in kernel


def test_edges_shorter_than_a_block_of_memory_are_written_first_and_by_the_same_programs():
    kernel = kernel_of(lambda x: F.pad(x, (1, 1)) * 2, (300, 64))
    edges = ["x from 65 to 66 (written from 58 to 66)", "x from 0 to 1 (written from 0 to 8)"]
    assert pieces_in(kernel) == [*edges, "x from 1 to 65"]
    assert [len(loads.split()) for loads in loads_in(kernel)] == [0, 0, 1]
    assert len(set(re.findall(r"for tile in range\((.*), y_tiles", kernel))) == 1
    assert len(set(re.findall(r"YBLOCK\d: tl\.constexpr = (\d+)", kernel))) == 1


def test_edges_are_not_written_first_where_memory_is_changed_in_place():
    def write(x: torch.Tensor, y: torch.Tensor) -> None:
        x[:, 1:65] = y

    (kernel,) = kernels_in(module_of(write, torch.zeros(300, 66, device="npu"), torch.zeros(300, 64, device="npu")))
    assert "written from" not in kernel


def test_rows_too_long_for_the_chip_keep_their_conditions():
    kernel = kernel_of(lambda x: F.pad(x, (1, 1)) * 2, (4, 100_000))
    assert pieces_in(kernel) == []


def test_rows_that_end_in_the_middle_of_a_short_run_of_memory_are_not_cut():
    assert not pieces_in(kernel_of(lambda x: F.pad(x, (0, 0, 1, 0)) * 2, (2, 6, 3)))
    assert len(pieces_in(kernel_of(lambda x: F.pad(x, (0, 0, 1, 0)) * 2, (2, 6, 8)))) == 2


def test_conditions_on_two_axes_at_once_cut_nothing():
    assert pieces_in(kernel_of(lambda x: x.tril() * 2, (128, 128))) == []


def test_more_pieces_than_are_worth_their_text_are_not_made():
    shapes = [(8, 16)] * 12
    with torch._inductor.config.patch(force_pointwise_cat=True):
        assert pieces_in(kernel_of(lambda *parts: torch.cat(parts, 1) * 2, *shapes)) == []


@pytest.mark.slow
def test_long_loops_are_not_written_once_for_each_piece():
    """The gradient of a window of 25 elements has hundreds of operators: nine times that took minutes to compile."""

    def padded_and(steps: int, x: torch.Tensor) -> torch.Tensor:
        y = F.pad(x, (16, 16, 1, 1))
        for _ in range(steps):
            y = y * 1.5 + 0.25
        return y

    assert len(pieces_in(kernel_of(lambda x: padded_and(10, x), (20, 30, 40)))) == 5
    assert pieces_in(kernel_of(lambda x: padded_and(130, x), (20, 30, 40))) == []


def test_all_pieces_share_the_programs():
    module = module_of(
        lambda a, b: torch.cat((a, b), 1) * 2, torch.zeros(50, 64, device="npu"), torch.zeros(50, 32, device="npu")
    )
    (kernel,) = kernels_in(module)
    tiles = [int(count) for count in re.findall(r"# (\d+) tiles?, on", kernel)]
    loops = re.findall(r"for tile in range\((.*), x_tiles \* y_tiles, tl\.num_programs\(0\)\)", kernel)
    assert len(tiles) == 2 and loops == ["tl.program_id(0)", "first"]
