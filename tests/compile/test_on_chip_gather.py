"""Loads and stores of elements that are no neighbours in memory: reversed, rolled, mirrored, strided, interleaved."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tests.compile.helpers import check, code_of

DTYPES = [
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
]


MOVES = {
    "flip": lambda x: x.flip(-1),
    "flip rows": lambda x: x.flip(0),
    "roll": lambda x: x.roll(3, -1),
    "every third": lambda x: x[:, 1::3],
    "even and odd": lambda x: (x[:, :-1:2], x[:, 1::2]),
    "interleave": lambda x: torch.stack((x, x.flip(0)), -1),
    "interleave three": lambda x: torch.stack((x, x.flip(0), x), -1),
    "channels": lambda x: x[:, :99].reshape(-1, 33, 3).permute(2, 0, 1).contiguous(),
}


def values_of(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    """Every bit of the type is used: what is moved must not change."""
    if dtype == torch.bool:
        return torch.rand(shape) > 0.5
    if dtype.is_floating_point:
        x = torch.randn(shape).to(dtype)
        x.view(-1)[::7] = float("nan")
        x.view(-1)[3::11] = float("-inf")
        return x
    info = torch.iinfo(dtype)
    return torch.randint(info.min, info.max, shape, dtype=dtype)


@pytest.mark.slow
@pytest.mark.parametrize("move", MOVES)
def test_elements_are_moved_as_they_are(move: str) -> None:
    """Kernels of tensors of all DTYPES, in this order: nothing that reads different tensors is one kernel."""
    check(lambda *parts: [MOVES[move](x) for x in parts], *(values_of(dtype, 30, 101) for dtype in DTYPES))


@pytest.mark.slow
def test_short_rows_of_narrow_types() -> None:
    """Picked in 32 bits, before they are narrowed and after they are widened."""
    dtypes = (torch.bool, torch.int8, torch.uint8, torch.int16, torch.float16, torch.bfloat16)
    check(lambda x: [x.transpose(1, 2).to(dtype).contiguous() for dtype in dtypes], 90 * torch.rand(2, 3, 6) - 10)
    narrow = [(90 * torch.rand(70, 5)).to(dtype) for dtype in dtypes]
    check(lambda x, *narrow: [(x + row[:, None]).transpose(1, 2) * 2 for row in narrow], torch.randn(70, 3, 5), *narrow)
    check(lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), torch.randn(3, 5, 17, 13))


def test_short_rows_that_lie_far_apart() -> None:
    check(lambda x: (x.unbind(1), x.amax(1), x[:, 3, :3] + x[:, 4, 2:]), torch.randn(5, 5, 5))
    check(lambda x: x[1:, 2:5].sum(-1) + x[:-1, 30:33].sum(-1), torch.randn(40, 33))


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_padding_with_the_border(mode: str) -> None:
    check(lambda x: F.pad(x, (3, 2), mode=mode) * 2, torch.randn(4, 8, 70))
    check(lambda x: F.pad(x, (3, 2, 1, 4), mode=mode) * 2, torch.randn(4, 3, 14, 19))
    check(lambda x: F.pad(x, (3, 2, 1, 4), mode=mode) * 2, torch.randn(2, 3, 80, 90))


def test_rows_that_are_sorted_and_rows_that_are_read_whole_need_not_fit_together() -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        mirrored = F.pad(x // torch.where(x == 0, 3, x), (0, 2), mode="reflect")
        return torch.sort(mirrored, stable=True, dim=1)

    check(fn, torch.randint(-4, 5, (5, 32, 64)))


@pytest.mark.slow
@pytest.mark.parametrize("width", [1, 2, 3, 5, 7])
def test_rows_of_a_few_elements(width: int) -> None:
    x = torch.randn(500, width, requires_grad=True)
    check(lambda x, b: (x + b).relu(), x, torch.randn(width, requires_grad=True), backward=True)
    check(lambda x: (x.flip(-1) * 2, x.flip(0, 1) * 2), torch.randn(500, width))
    check(lambda x: (x.sum(-1), x.softmax(-1), x.amax(-1), x.cumsum(-1)), torch.randn(500, width))
    check(lambda x: x.permute(0, 3, 1, 2).contiguous() / 255, torch.randn(2, 40, 50, width))
    check(lambda x: x.permute(0, 2, 3, 1).contiguous() / 255, torch.randn(2, width, 40, 50))


def slices(step: int, *rows: torch.Tensor) -> list[tuple[torch.Tensor, ...]]:
    """Of a row and of two times three rows of each length (`rows_of`)."""
    return [
        (x[::step] * 2, x.flip(0)[::step] * 2, s[:, step - 1 :: step].sum(-1), m[:, step - 1 :: step] * 2)
        for x, s, m in zip(*[iter(rows)] * 3, strict=True)
    ]


def rows_of(*lengths: int) -> list[torch.Tensor]:
    return [torch.randn(shape) for length in lengths for shape in ((length,), (3, length), (3, length))]


@pytest.mark.slow
@pytest.mark.parametrize("step", [2, 3, 5, 7, 8, 9, 100])
def test_slices_with_steps(step: int) -> None:
    lengths = (1, 7, 1000, 50_003) if step in (2, 7, 9) else (1000, 50_003)
    check(lambda *rows: slices(step, *rows), *rows_of(*lengths))


@pytest.mark.slow
def test_slices_with_other_steps_of_short_rows() -> None:
    check(lambda *rows: [slices(step, *rows) for step in (3, 5, 8, 100)], *rows_of(1, 7))


def test_a_slice_at_the_very_end_of_its_buffer() -> None:
    base = torch.randn(3 * 1024 - 2)
    check(lambda x: x * 2, base[::3])
    check(lambda x: x * 2, base[1:][::3])
    check(lambda x: x + 1, torch.as_strided(base, (4, 100), (301, 3), 2))


@pytest.mark.slow
def test_pixel_shuffle_and_back() -> None:
    check(lambda x: F.pixel_shuffle(x, 2) * 2, torch.randn(2, 16, 14, 14, requires_grad=True), backward=True)
    check(lambda x: F.pixel_shuffle(x, 3) * 2, torch.randn(2, 18, 7, 9, requires_grad=True), backward=True)
    check(lambda x: F.pixel_unshuffle(x, 2) * 2, torch.randn(2, 4, 28, 30, requires_grad=True), backward=True)


def test_rotary_pairs() -> None:
    def rotate(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
        even, odd = x.unflatten(-1, (-1, 2)).unbind(-1)
        return torch.stack((even * cosine - odd * sine, even * sine + odd * cosine), -1).flatten(-2)

    x = torch.randn(2, 5, 8, 64, requires_grad=True)
    check(rotate, x, torch.randn(5, 1, 32), torch.randn(5, 1, 32), backward=True)


@pytest.mark.slow
def test_scans_and_reductions_from_the_end() -> None:
    x = torch.randn(20, 101, requires_grad=True)
    check(lambda x: x.cumsum(-1), x, backward=True)
    check(lambda x: x.flip(-1).cumsum(-1).flip(-1), x, backward=True)
    check(lambda x: (x.flip(-1).argmax(-1), x[:, ::3].amax(-1), x.roll(5, -1)[:, :50].sum(-1)), torch.randn(20, 101))
    check(lambda x: x[:, ::3].sum(-1), torch.randn(3, 60_001))


def test_windows_with_steps() -> None:
    check(lambda x: F.avg_pool2d(x, 2), torch.randn(2, 3, 28, 30, requires_grad=True), backward=True)
    check(lambda x: F.max_pool2d(x, 2), torch.randn(2, 3, 28, 31))
    check(lambda x: x.unfold(-1, 3, 2) * 2, torch.randn(16, 101))


@pytest.mark.slow
@pytest.mark.parametrize(("kernel", "step", "border"), [(3, 2, 1), (5, 3, 2)])
def test_windows_that_reach_beyond_the_border(kernel: int, step: int, border: int) -> None:
    x = torch.randn(2, 3, 15, 17)
    check(lambda x: F.max_pool2d(x, kernel, step, border, return_indices=True), x)
    check(lambda x: F.avg_pool2d(x, kernel, 1, border, divisor_override=2), x)
    check(lambda x: F.max_pool1d(x, kernel, step, border), torch.randn(4, 9001))


@pytest.mark.slow
def test_rows_that_begin_with_something_else() -> None:
    """Reductions are not cut into pieces: what is loaded begins behind the first elements."""
    for shape in ((40, 300), (6, 30_000)):
        x = torch.randint(-9, 9, shape).float()  # whose sums are exact
        check(lambda x: F.pad(x, (3, 5)).sum(-1), x)
        check(lambda x: F.pad(x.flip(-1), (3, 5)).sum(-1), x)
        check(lambda x: F.pad(x[:, ::2], (3, 5)).sum(-1), x)
    check(lambda x, y: torch.column_stack((x, y)), torch.randn(50), torch.randn(50, 5))
    check(lambda y, x: torch.trapz(y, x), torch.randn(30, 3), torch.randn(30, 3))
    check(lambda x: F.pad(x.flip(-1), (1, 0), value=1.0).cumprod(-1), torch.rand(4, 124) + 0.5)


@pytest.mark.slow
def test_a_token_before_patches_of_an_image() -> None:
    def embed(token: torch.Tensor, patches: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        tokens = torch.cat((token.expand(2, -1, -1), patches.flatten(2).transpose(1, 2)), 1) + positions
        return F.layer_norm(tokens, (64,))

    inputs = (torch.randn(1, 1, 64), torch.randn(2, 64, 4, 4), torch.randn(1, 17, 64))
    check(embed, *(x.requires_grad_() for x in inputs), backward=True)


def test_conditions_on_rows_that_are_summed() -> None:
    def rows(x: torch.Tensor, first: int, end: int) -> torch.Tensor:
        index = torch.arange(x.shape[-2], device=x.device)[:, None]
        return torch.where((index >= first) & (index < end), x * 2, 1.0).sum(-1)

    for shape in ((20, 40), (6, 20, 40), (100, 20, 70)):
        check(lambda x: (rows(x, 0, 3), rows(x, 3, 20), rows(x, 5, 18)), torch.randn(shape))


@pytest.mark.slow
def test_sizes_that_are_known_at_run_time_only() -> None:
    def moves(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.flip(-1) * 2, x[:, ::3] * 2, torch.stack((x, x + 1), -1), x.roll(3, -1)

    compiled = torch.compile(moves, dynamic=True, fullgraph=True)
    for rows, columns in ((9, 300), (30, 101), (7, 5000)):
        check(moves, torch.randn(rows, columns), compiled=compiled)


@pytest.mark.slow
def test_steps_inside_of_a_condition() -> None:
    check(lambda x: torch.cat((x[:, ::2], x[:, 1::3].flip(-1)), -1) * 2, torch.randn(30, 101))
    check(lambda x: F.pad(x.flip(-1), (2, 3)) * 2, torch.randn(30, 101))


def folded(grad: torch.Tensor) -> torch.Tensor:
    """The gradient of a mirrored border: corners are selected by two indices, of which few are compared."""
    shape = (grad.shape[0], grad.shape[1] - 4, grad.shape[2] - 3)
    return torch.ops.aten.reflection_pad2d_backward(grad, grad.new_empty(shape), (2, 1, 2, 2))


def with_a_border(shape: tuple[int, int, int], dtype: torch.dtype) -> torch.Tensor:
    return torch.randint(-4, 4, (shape[0], shape[1] + 4, shape[2] + 3)).to(dtype)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((3, 9, 9), torch.float32),
        ((2, 14, 7), torch.bfloat16),
        ((5, 6, 33), torch.float32),
        ((4, 6, 9), torch.bfloat16),
    ],
    ids=str,
)
def test_a_border_is_folded_back_within_two_indices(shape: tuple[int, int, int], dtype: torch.dtype) -> None:
    check(folded, with_a_border(shape, dtype))


@pytest.mark.slow
def test_borders_of_the_other_dtype_are_folded_back() -> None:
    borders = [((3, 9, 9), torch.bfloat16), ((2, 14, 7), torch.float32), ((5, 6, 33), torch.bfloat16)]
    check(lambda *grads: [folded(grad) for grad in grads], *(with_a_border(*each) for each in borders))


@pytest.mark.parametrize("size", [3, 5, 8, 17])
def test_quarters_of_a_matrix_from_different_tensors(size: int) -> None:
    def quarters(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        upper = torch.cat((x.mT, torch.zeros_like(x)), -1)
        return torch.cat((upper, torch.cat((y, x.mT), -1)), -2)

    check(quarters, torch.randn(5, size, size), torch.randn(5, size, size))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("length", "size", "dtype"),
    [
        (8, 5, torch.float16),
        (7, 3, torch.float32),
        (3, 5, torch.float16),
        (23, 9, torch.float32),
        (300, 7, torch.float16),
        (300, 7, torch.float32),
        (8, 5, torch.float32),
        (7, 3, torch.float16),
        (3, 5, torch.float32),
        (23, 9, torch.float16),
    ],
    ids=str,
)
def test_windows_that_begin_and_end_at_rounded_indices(length: int, size: int, dtype: torch.dtype) -> None:
    def pools(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        rows, planes = x.view(-1, 5, length), x.view(-1, 4, 5, length)
        return (
            F.adaptive_avg_pool1d(rows, size),
            *F.adaptive_max_pool1d(rows, size, return_indices=True),
            F.adaptive_avg_pool2d(planes, (3, size)),
            *F.adaptive_max_pool2d(planes, (size, 2), return_indices=True),
        )

    check(pools, torch.randn(8, 5, length).to(dtype))


@pytest.mark.slow
def test_gradients_of_windows_that_begin_and_end_at_rounded_indices() -> None:
    x = torch.randn(4, 6, 8, requires_grad=True)
    check(lambda x: (F.adaptive_avg_pool1d(x, 5) ** 2, F.adaptive_max_pool1d(x, 3) ** 2), x, backward=True)


@pytest.mark.slow
def test_windows_in_a_number_of_rows_that_is_known_at_run_time_only() -> None:
    def pools(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return F.adaptive_avg_pool1d(x, 5), F.adaptive_max_pool1d(x, 3)

    compiled = torch.compile(pools, dynamic=True, fullgraph=True)
    for rows in (3, 40, 1000):
        x = torch.randn(rows, 2, 8)
        torch._dynamo.mark_static(x, 2)
        check(pools, x, compiled=compiled)


def test_short_rows_in_another_order_are_picked_on_chip_whichever_axis_is_innermost() -> None:
    grad = torch.randn(2, 3, 1, 3)

    def gradient(grad: torch.Tensor) -> torch.Tensor:
        row, still = [1, 3], [0, 0]
        x = grad.new_empty(2, 3, 1, 9)
        return torch.ops.aten.avg_pool2d_backward(grad, x, row, row, still, False, True, None)

    check(gradient, grad)
    (source,) = code_of(gradient, grad.npu())
    (load,) = (line for line in source.splitlines() if "tl.load(" in line)
    assert "span0" in load


@pytest.mark.parametrize("size", [1, 5, 40, 257])
def test_indices_that_are_divided_are_numbers(size: int) -> None:
    def numbers(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        i = torch.arange(size, device=x.device)
        even = (i + 1) % 2 == 0
        return (
            x + (8 * i) // 5,
            torch.where(even, x, -x),
            torch.where((3 * i) // 7 < (3 * i + 4) // 7, x, 0),
            (i % 3) * 2,
        )

    check(numbers, torch.randn(6, size))
