"""How often a function is compiled again: what makes a size dynamic, what guards keep apart, and what they let pass."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch.fx.experimental.symbolic_shapes import ConstraintViolationError

from tests.compile.helpers import check, code_of, counted, kernel_count, to_npu


def _softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1) + x.sum(0)


def test_sizes_between_the_marked_bounds_share_one_graph() -> None:
    compiled, counter = counted(_softmax)
    for rows in (2, 100, 64):
        x = torch.randn(rows, 24)
        moved = to_npu(x)
        torch._dynamo.mark_dynamic(moved, 0, min=2, max=100)
        torch.testing.assert_close(compiled(moved).cpu(), _softmax(x))
    assert counter.frame_count == 1


def test_rows_of_any_length_between_bounds_are_sorted_in_one_kernel() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return x.sort(-1).values * 2

    compiled, counter = counted(fn)
    for length in (5, 40, 2):
        x = torch.randn(3, length)
        moved = to_npu(x)
        torch._dynamo.mark_dynamic(moved, 1, min=2, max=40)
        torch.testing.assert_close(compiled(moved).cpu(), fn(x))
    assert counter.frame_count == 1
    x = torch.randn(3, 20).to("npu")
    torch._dynamo.mark_dynamic(x, 1, min=2, max=40)
    assert kernel_count(code_of(fn, x)) == 1


def test_a_size_beyond_the_marked_bounds_has_a_graph_of_its_own() -> None:
    compiled, counter = counted(_softmax)
    for rows, graphs in ((8, 1), (16, 1), (17, 2)):
        x = torch.randn(rows, 24)
        moved = to_npu(x)
        if rows <= 16:
            torch._dynamo.mark_dynamic(moved, 0, min=2, max=16)
        torch.testing.assert_close(compiled(moved).cpu(), _softmax(x))
        assert counter.frame_count == graphs


def test_a_marked_size_that_the_program_fixes_is_an_error() -> None:
    x = torch.randn(6, 4).to("npu")
    torch._dynamo.mark_dynamic(x, 0)
    with pytest.raises(ConstraintViolationError, match="specialized it to be a constant"):
        torch.compile(lambda x: x + torch.ones(6, 4, device=x.device))(x)


def test_a_size_of_one_and_a_size_of_none_have_graphs_of_their_own() -> None:
    """Sizes 0 and 1 are constants of their graphs, as everywhere in PyTorch; all others share the dynamic one."""
    compiled, counter = counted(lambda x, y: (x * y).sum(0) + x.mean(), dynamic=True)
    for rows, graphs in ((5, 1), (9, 1), (1, 2), (3, 2), (0, 3), (1, 3), (2, 3)):
        check(
            lambda x, y: (x * y).sum(0) + x.mean(),
            torch.randn(rows, 7),
            torch.randn(rows, 7),
            compiled=compiled,
        )
        assert counter.frame_count == graphs, rows


@pytest.mark.parametrize(
    "shapes",
    [((3, 4, 5), (7, 8, 9), (2, 30, 130)), ((130, 2, 3), (2, 3, 130), (4, 4, 4))],
    ids=["growing", "of any order"],
)
def test_several_dynamic_axes(shapes: Sequence[tuple[int, int, int]]) -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.transpose(0, 2) + 1, x.sum(1), x.amax((0, 2)), torch.layer_norm(x, x.shape[-1:])

    compiled, counter = counted(fn)
    for shape in shapes:
        x = torch.randn(shape)
        moved = to_npu(x)
        torch._dynamo.mark_dynamic(moved, [0, 1, 2])
        torch.testing.assert_close([y.cpu() for y in compiled(moved)], list(fn(x)))
    assert counter.frame_count == 1


def test_each_axis_becomes_dynamic_when_it_changes() -> None:
    compiled, counter = counted(lambda x: x.cos() + x.sum(1, keepdim=True))
    for shape, graphs in (((3, 5), 1), ((4, 5), 2), ((6, 5), 2), ((6, 7), 3), ((8, 9), 3)):
        check(lambda x: x.cos() + x.sum(1, keepdim=True), torch.randn(shape), compiled=compiled)
        assert counter.frame_count == graphs, shape


def test_automatic_dynamic_shapes_can_be_switched_off() -> None:
    with torch._dynamo.config.patch(automatic_dynamic_shapes=False):
        compiled, counter = counted(torch.relu)
        for length in (4, 5, 6):
            check(torch.relu, torch.randn(length), compiled=compiled)
    assert counter.frame_count == 3


def test_a_size_marked_static_is_compiled_for_itself() -> None:
    compiled, counter = counted(lambda x: x * 2 + 1, dynamic=True)
    for length in (4, 5):
        x = torch.randn(length, 3).to("npu")
        torch._dynamo.mark_static(x, 0)
        torch.testing.assert_close(compiled(x).cpu(), x.cpu() * 2 + 1)
    assert counter.frame_count == 2


def test_a_branch_on_a_size_is_a_guard() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return x.sum(0) if x.shape[0] < 10 else x.amax(0)

    compiled, counter = counted(fn, dynamic=True)
    for rows, graphs in ((4, 1), (9, 1), (10, 2), (50, 2), (3, 2)):
        check(fn, torch.randn(rows, 6), compiled=compiled)
        assert counter.frame_count == graphs, rows


def test_guards_on_what_is_no_size() -> None:
    """Another dtype, another layout, and gradients on or off are other graphs; other values are not."""
    compiled, counter = counted(lambda x: x.abs() * 2)
    x = torch.randn(6, 8)
    calls = ((x, 1), (x + 1, 1), (x.half(), 2), (x, 2), (x.t(), 3), (x.clone().requires_grad_(), 4), (x, 4))
    for tensor, graphs in calls:
        torch.testing.assert_close(compiled(to_npu(tensor)).detach().cpu(), tensor.detach().abs() * 2)
        assert counter.frame_count == graphs


def test_a_floating_point_argument_does_not_recompile_once_it_has_changed() -> None:
    compiled, counter = counted(lambda x, scale: x * scale + 1)
    for scale in (0.5, 1.5, 2.25, -3.0):
        check(lambda x, scale: x * scale + 1, torch.randn(10), scale, compiled=compiled)
    assert counter.frame_count == 2


def test_recompiling_can_be_made_an_error() -> None:
    compiled = torch.compile(lambda x: x + 1)
    compiled(torch.randn(3).to("npu"))
    with (
        torch._dynamo.config.patch(error_on_recompile=True),
        pytest.raises(torch._dynamo.exc.RecompileError, match="expected 3, actual 4"),
    ):
        compiled(torch.randn(4).to("npu"))


def test_beyond_the_limit_the_function_runs_as_it_is_written() -> None:
    with torch._dynamo.config.patch(recompile_limit=2):
        compiled, counter = counted(lambda x, name: x * len(name))
        for name in ("a", "bc", "def", "ghij"):
            check(lambda x, name: x * len(name), torch.randn(5), name, compiled=compiled)
    assert counter.frame_count == 2


def test_the_shape_of_one_input_follows_another() -> None:
    """Equal sizes are one symbol: a graph for equal ones, another where they differ."""
    compiled, counter = counted(lambda x, y: x @ y + x.sum(), dynamic=True)
    for inner, graphs in ((4, 1), (7, 1), (40, 1)):
        check(lambda x, y: x @ y + x.sum(), torch.randn(3, inner), torch.randn(inner, 5), compiled=compiled)
        assert counter.frame_count == graphs
    check(lambda x, y: x @ y + x.sum(), torch.randn(8, 6), torch.randn(6, 9), compiled=compiled)
    assert counter.frame_count == 1
