"""One compilation for a family of shapes, and recompilation only where the user asks for something else."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from tests.compile.helpers import check, counted, to_npu
from tests.triton_features import needs_feature


def test_marked_dimension_compiles_once() -> None:
    compiled, counter = counted(lambda x, w: torch.softmax(x, -1) * w)
    for length in (5, 64, 1000, 4097):
        x = torch.randn(length, 33)
        moved = to_npu(x)
        torch._dynamo.mark_dynamic(moved, 0)
        w = torch.randn(33)
        torch.testing.assert_close(compiled(moved, to_npu(w)).cpu(), torch.softmax(x, -1) * w)
    assert counter.frame_count == 1


def test_dynamic_row_length_compiles_once() -> None:
    compiled, counter = counted(lambda x: (x - x.mean(-1, keepdim=True), x.amax(-1), x.sum(0)), dynamic=True)
    for length in (7, 300, 5000):
        check(lambda x: (x - x.mean(-1, keepdim=True), x.amax(-1), x.sum(0)), torch.randn(6, length), compiled=compiled)
    assert counter.frame_count == 1


def test_second_shape_makes_the_graph_dynamic_and_the_third_reuses_it() -> None:
    compiled, counter = counted(lambda x: torch.relu(x) + 1)
    for length in (10, 20, 30, 40):
        check(lambda x: torch.relu(x) + 1, torch.randn(length), compiled=compiled)
    assert counter.frame_count == 2


def test_fractions_of_sizes_are_no_whole_numbers() -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        rows, columns = x.shape
        return x * (rows / (columns + 1)), x + columns**-0.5, x.var(), torch.arange(columns, device=x.device) / rows

    compiled, counter = counted(fn, dynamic=True)
    for rows, columns in ((3, 40), (8, 500)):
        check(fn, torch.randn(rows, columns, requires_grad=True), compiled=compiled, backward=True)
    assert counter.frame_count == 1


@pytest.mark.parametrize("how", ["automatic", "dynamic", "marked"])
def test_conditions_on_sizes_are_numbers(how: str) -> None:
    """The first sizes are known, the second make the graph dynamic, and the others find the conditions otherwise."""

    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        rows, columns = x.shape
        return (
            x * (rows % 2 == 0) + (columns > rows),
            torch.full((3,), rows >= 7, device=x.device),
            (x * (x.stride(0) > rows)).cumsum(0),
            x.sum(0) + (columns % 3 == 0),
        )

    compiled, counter = counted(fn, fullgraph=True, dynamic=True if how == "dynamic" else None)
    for rows, columns in ((6, 10), (7, 9), (8, 8), (13, 12)):
        x = torch.randn(rows, columns)
        moved = to_npu(x)
        if how == "marked":
            torch._dynamo.mark_dynamic(moved, (0, 1))
        for got, wanted in zip(compiled(moved), fn(x), strict=True):
            torch.testing.assert_close(got.cpu(), wanted)
    assert counter.frame_count == (2 if how == "automatic" else 1)


@pytest.mark.slow
def test_conditions_on_sizes_in_any_place() -> None:
    """Where PyTorch itself needs to know whether one holds, it compiles anew."""

    def fn(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        rows, columns = x.shape
        is_even, is_wide = torch.sym_not(rows % 2 == 1), columns > rows
        return (
            y + (rows != 7),
            (y > 0) & (columns >= 9),
            torch.full((3,), columns < 2 * rows, dtype=torch.float32, device=x.device),
            torch.full((3,), rows // 2 == 3, dtype=torch.int64, device=x.device) + y[0, 0],
            (torch.full((3,), columns >= 9, device=x.device).int() + 1) * y[0, 0],
            torch.arange(rows, device=x.device) * (columns % 3 == 0),
            x * torch.sym_ite(is_even, rows, columns),
            x[0] - is_even * 2.5,
            x[0] * ((rows > 6) + (columns > 8)),
            x * (rows / 2 > 3.25),
            torch.where(x > 0, x, is_wide),
            x.to(torch.float64) * is_wide,
        )

    compiled = torch.compile(fn, fullgraph=True, dynamic=True)
    for rows, columns in ((7, 10), (8, 8)):
        check(fn, torch.randn(rows, columns), torch.randint(-3, 4, (rows, columns)), compiled=compiled)


@torch._dynamo.config.patch(capture_scalar_outputs=True)
def test_conditions_on_numbers_that_data_say() -> None:
    def fn(x: torch.Tensor, count: torch.Tensor, share: torch.Tensor) -> tuple[torch.Tensor, ...]:
        n, part = count.item(), share.item()
        return x * (n > 3), x + torch.sym_not(n == 4), torch.full((2,), n % 2 == 0, device=x.device), x * (part < 0.5)

    compiled, counter = counted(fn, fullgraph=True)
    for n, part in ((4, 0.25), (3, 0.75), (11, 0.5)):
        check(fn, torch.randn(9), torch.tensor(n), torch.tensor(part), compiled=compiled)
    assert counter.frame_count == 1


def test_a_length_that_is_known_to_be_a_multiple_by_a_guard_alone() -> None:
    """Padding that goes around once needs `(rows - 1) // 3` to be at most 1: of 0, rows have two elements."""

    def fn(x: torch.Tensor) -> torch.Tensor:
        return F.pad(x, (1, (x.shape[0] - 1) // 3), mode="circular")

    for rows in (2, 3):
        check(fn, torch.arange(rows)[:, None], compiled=torch.compile(fn, dynamic=True))


@pytest.mark.slow
def test_padding_by_terms_of_dynamic_sizes() -> None:
    """As of causal convolutions, and of sequences that are filled up to a multiple."""

    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        rows, columns = x.shape
        return (
            F.pad(x, (rows // 2, 1)),
            F.pad(x, (rows // 2, columns // 3, rows - 1, rows * columns // 9)),
            F.pad(x, (-(rows // 3), 2)) * 2,
            F.pad(x, (0, (4 - columns % 4) % 4), value=1.0),
            F.pad(x, (rows // 2 * (columns // 4), 0)).sum(1),
        )

    _one_compile_for_two_sizes(fn)


@pytest.mark.slow
def test_edges_of_dynamic_widths() -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        rows, columns = x.shape
        image = x[None, None]
        return (
            F.pad(image, (columns // 2, rows // 3, 1, rows // 2), mode="reflect"),
            F.pad(image, (columns // 2, rows // 3, rows // 2, 1), mode="replicate").amax(-1),
            F.pad(F.pad(x, (rows // 2, 0))[:, : columns // 2 + 1], (0, columns // 4)),
            torch.arange(rows // 2 * 3, device=x.device) - columns // 2,
            x.roll(rows // 2, 1)[:, columns // 3 :],
        )

    _one_compile_for_two_sizes(fn)


def _one_compile_for_two_sizes(fn: Callable[[torch.Tensor], tuple[torch.Tensor, ...]]) -> None:
    compiled, counter = counted(fn, fullgraph=True, dynamic=True)
    for rows, columns in ((6, 10), (9, 13)):
        check(fn, torch.randn(rows, columns), compiled=compiled)
    assert counter.frame_count == 1


@pytest.mark.slow
def test_causal_convolution_with_dynamic_sizes() -> None:
    def fn(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return F.gelu(F.conv1d(F.pad(x, ((w.shape[-1] - 1) * 2, 0)), w, dilation=2))

    compiled = torch.compile(fn, fullgraph=True, dynamic=True)
    for length, taps in ((20, 3), (31, 5)):
        x, w = torch.randn(2, 3, length, requires_grad=True), torch.randn(4, 3, taps, requires_grad=True)
        check(fn, x, w, compiled=compiled, backward=True)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["reflect", "constant", "replicate"])
def test_convolution_of_a_padded_image_with_dynamic_sizes(mode: str) -> None:
    """As of models of segmentation and detection: the order of strides is that of products of sums of sizes."""

    def fn(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return F.conv2d(F.pad(x, (2, 2, 2, 2), mode=mode), w).relu()

    compiled, counter = counted(fn, fullgraph=True, dynamic=True)
    w = torch.randn(4, 3, 5, 5)
    for height, width in ((9, 12), (14, 11)):
        check(fn, torch.randn(2, 3, height, width), w, compiled=compiled)
    assert counter.frame_count == 1


@pytest.mark.slow
def test_gradients_of_a_convolution_of_a_padded_image_with_dynamic_sizes() -> None:
    def fn(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return F.conv2d(F.pad(x, (1, 1, 1, 1)), w)

    x, w = torch.randn(2, 3, 9, 12, requires_grad=True), torch.randn(4, 3, 3, 3, requires_grad=True)
    check(fn, x, w, dynamic=True, backward=True)


def test_dynamic_shapes_through_views() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x.t().reshape(-1), x.flatten()]).view(2, -1).flip(1)

    compiled, counter = counted(fn, dynamic=True)
    for rows, columns in ((3, 4), (8, 5), (17, 9)):
        check(fn, torch.randn(rows, columns), compiled=compiled)
    assert counter.frame_count == 1


@pytest.mark.slow
def test_dynamic_batch_with_gradients() -> None:
    def fn(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(x @ w).mean(0)

    compiled, _ = counted(fn, dynamic=True)
    for batch in (3, 9, 20):
        x, w = torch.randn(batch, 8, requires_grad=True), torch.randn(8, 6, requires_grad=True)
        check(fn, x, w, compiled=compiled, backward=True)


def test_integer_argument_becomes_symbolic() -> None:
    compiled, counter = counted(lambda x, n: x[:n] * n, dynamic=True)
    for n in (3, 5, 8):
        check(lambda x, n: x[:n] * n, torch.randn(20), n, compiled=compiled)
    assert counter.frame_count == 1


@needs_feature("masked loads of float64")
def test_fractions_of_sizes_are_as_precise_as_their_type() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        rows, columns = x.shape
        return x + rows / columns

    for rows, columns in ((3, 7), (11, 13)):
        x = torch.randn(rows, columns, dtype=torch.float64)
        result = torch.compile(fn, dynamic=True)(to_npu(x)).cpu()
        torch.testing.assert_close(result, fn(x), rtol=1e-15, atol=1e-15)


def test_nearest_neighbours_of_an_image_of_any_size() -> None:
    def fn(x: torch.Tensor, length: int) -> torch.Tensor:
        return torch.nn.functional.interpolate(x, length, mode="nearest-exact")

    compiled, counter = counted(fn, dynamic=True)
    for length, scaled in ((4, 3), (4, 5), (30, 13)):
        check(fn, torch.randn(2, 3, length), scaled, compiled=compiled)
    assert counter.frame_count == 1


@pytest.mark.slow
def test_causal_attention_of_any_size() -> None:
    def fn(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    compiled, counter = counted(fn, dynamic=True)
    for rows, keys, width in ((3, 6, 8), (5, 4, 12)):
        check(fn, *(torch.randn(4, length, width) for length in (rows, keys, keys)), compiled=compiled)
    assert counter.frame_count == 1


@pytest.mark.slow
def test_windows_of_which_a_guard_says_that_there_is_one() -> None:
    """3 // 2 planes are known to be 1 while their number is written as a quotient: they end where rows of the result do
    and have no index of their own, the others keep theirs.
    """

    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.avg_pool3d(x, 2)

    compiled, _ = counted(fn, dynamic=True)
    for batch, size in ((2, 4), (3, 8), (5, 34)):
        check(fn, torch.randn(batch, 3, 3, size, size), compiled=compiled)


def test_the_gradient_of_a_maximum_over_a_size_that_is_known_to_be_one() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        below = torch.diagonal(x.unfold(0, 1, 2), -1, dim1=-2, dim2=-1)
        return torch.autograd.grad(below.max(1, keepdim=True).values.sum(), x)[0]

    compiled, counter = counted(fn, dynamic=True)
    check(fn, torch.randn(1, 4).requires_grad_(), compiled=compiled)
    assert counter.frame_count == 1


def test_size_from_data() -> None:
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        check(lambda x: x[x > 0] * 2 + 1, torch.randn(50))


@pytest.mark.slow
def test_a_norm_of_slices_whose_lengths_are_only_known_to_be_equal() -> None:
    def norm(x: torch.Tensor) -> torch.Tensor:
        strided = x[-1:, 0::3, 0:2, 3::2]
        padded = torch.nn.functional.pad(strided, [0, 3, 3, 2, 2, 3], mode="replicate")
        return torch.nn.functional.layer_norm(strided, strided.shape[-1:]) + padded.sum()

    check(norm, torch.randn(100, 4, 4, 8), dynamic=True)


@pytest.mark.parametrize("first", ["tensor", "row"])
def test_a_tensor_and_a_row_that_was_taken_from_it_between_two_graphs(first: str) -> None:
    def fn(x: torch.Tensor, index: torch.Tensor) -> tuple[torch.Tensor, ...]:
        whole = x + x
        row = whole[index]  # breaks the graph: an index without dimensions is a number that is not known
        if first == "tensor":
            return whole.cumsum(1), row + 1
        return row + 1, whole.cumsum(1)

    check(fn, torch.randn(4, 5), torch.tensor(2), dynamic=True, fullgraph=False)


def test_indices_of_a_size_that_data_decides() -> None:
    """Nothing says that values computed of such indices fit 32 bits."""

    def positive(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x[x > 0]
        i = torch.arange(y.shape[0], device=x.device)
        return y + i, i * i, torch.where(i >= 2, y, -y), i[:, None] <= i, y.flip(0)

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        check(positive, torch.arange(9) - 3)


def test_numbers_of_the_user_are_int64() -> None:
    """Dynamo makes a number an argument once it has another value."""

    def with_number(x: torch.Tensor, y: torch.Tensor, number: int) -> tuple[torch.Tensor, ...]:
        quotient = torch.div(number, x, rounding_mode="trunc")
        return x + number, x * number, quotient, y + number, x * 0 + (number // 3 * 2 - 1)

    x, y = torch.tensor([-3, 1, 2, 2**40]), torch.tensor([-3, 1], dtype=torch.int32)
    compiled = torch.compile(with_number)
    for number in (3, 4, -5, 2**31, -(2**40), 2**62, -(2**63), 2**63 - 1):
        expected, actual = with_number(x, y, number), compiled(x.npu(), y.npu(), number)
        for got, wanted in zip(actual, expected):
            assert got.dtype is wanted.dtype
            assert got.tolist() == wanted.tolist(), number
