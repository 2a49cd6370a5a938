"""Layouts: views in and out of the graph, tensors that are changed in place, memory that is not dense."""

from __future__ import annotations

import pytest
import torch

from tests.compile.helpers import check
from tests.torch_features import needs_torch


def test_non_contiguous_inputs() -> None:
    base = torch.randn(40, 60)
    check(lambda a, b, c: a + 1 + b.sum() * c, base.t(), base[::2, 1::3], base[5, :40])


def test_expanded_input() -> None:
    check(lambda x: x * 2, torch.randn(5, 1).expand(5, 30))


def test_input_with_storage_offset() -> None:
    check(lambda x: x.exp(), torch.randn(1000)[13:200])


def test_inputs_that_are_aligned_at_one_call_and_not_at_the_next() -> None:
    memory = torch.randn(1000)
    compiled = torch.compile(lambda x: x.exp() + 1, fullgraph=True)
    for start in (0, 1, 16, 7):
        check(lambda x: x.exp() + 1, memory[start : start + 512], compiled=compiled)


@pytest.mark.parametrize("order", [(1, 0, 2), (2, 1, 0), (0, 2, 1), (2, 0, 1), (1, 2, 0)], ids=str)
def test_permute_and_copy(order: tuple[int, int, int]) -> None:
    check(lambda x: (x + 1).permute(order).contiguous(), torch.randn(17, 33, 65))


def test_views_of_a_result() -> None:
    check(lambda x: ((y := x * 2).view(6, 20), y.t(), y[2:], y.unfold(1, 3, 2)), torch.randn(10, 12))


def test_returned_input_views_share_memory() -> None:
    x = torch.randn(4, 6).to("npu")
    row = torch.compile(lambda x: x[1], fullgraph=True)(x)
    row.zero_()
    assert x.cpu()[1].abs().sum() == 0


def test_reshape_flatten_squeeze() -> None:
    check(lambda x: (x.reshape(-1, 6).sin(), x.flatten(1), x.unsqueeze(1).squeeze(0)), torch.randn(1, 4, 9))


def test_cat_and_stack() -> None:
    a, b = torch.randn(5, 30), torch.randn(5, 7)
    check(lambda a, b: (torch.cat([a, b * 2, a], 1), torch.stack([a, a + 1]), torch.cat([a.t(), b.t()])), a, b)


def test_split_and_chunk() -> None:
    check(lambda x: [part.exp() for part in (*x.split([3, 10, 7], 1), *x.chunk(3, 0))], torch.randn(9, 20))


def test_flip_roll_rotate() -> None:
    check(lambda x: (x.flip(0), x.flip([0, 1]), x.roll(3, 1), x.roll((1, 2), (0, 1)), x.rot90()), torch.randn(7, 12))


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
def test_padding(mode: str) -> None:
    check(lambda x: torch.nn.functional.pad(x, (2, 3, 1, 2), mode=mode), torch.randn(2, 3, 8, 9))


def test_tile_and_repeat() -> None:
    check(lambda x: (x.repeat(2, 3), x.repeat_interleave(3, 1), x.tile(4)), torch.randn(5, 6))


def test_triangles_and_diagonals() -> None:
    check(lambda x: (x.tril(), x.triu(1), x.diagonal(), torch.diag_embed(x[0])), torch.randn(9, 9))


def test_in_place_on_an_input() -> None:
    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.mul_(2).add_(y)
        return x.sum()

    check(step, torch.randn(50), torch.randn(50))


def test_in_place_on_a_view_of_an_input() -> None:
    def step(x: torch.Tensor) -> None:
        x[2:5].fill_(3.0)
        x[:, 1] += 1
        x.t()[0].neg_()

    check(step, torch.randn(8, 6))


def test_input_is_both_read_and_written() -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        old = x * 1
        x.copy_(x.flip(0))
        return old + x

    check(step, torch.randn(100))


def test_copy_between_dtypes_in_place() -> None:
    check(lambda x, y: x.copy_(y * 2), torch.zeros(30, dtype=torch.float16), torch.randn(30))


def test_channels_last() -> None:
    x = torch.randn(2, 5, 6, 7).to(memory_format=torch.channels_last)
    actual = check(lambda x: torch.relu(x) + 1, x)
    assert actual.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.slow
def test_creation() -> None:
    def make(x: torch.Tensor) -> list[torch.Tensor]:
        device = x.device
        return [
            torch.arange(3, 50, 4, device=device),
            torch.linspace(0, 1, 11, device=device),
            torch.full((3, 4), 2.5, device=device),
            torch.eye(5, device=device),
            torch.zeros_like(x) + torch.ones(4, device=device),
        ]

    check(make, torch.randn(3, 4))


def test_aliased_inputs() -> None:
    base = torch.randn(20).to("npu")
    copy = base.cpu().clone()

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return y * 2

    actual = torch.compile(step)(base, base)
    torch.testing.assert_close(actual.cpu(), (copy + 1) * 2)


def test_more_elements_than_one_tile_each() -> None:
    check(lambda x: x * 2 + 1, torch.randn(3_000_001))


def _write_to_views(x: torch.Tensor, source: torch.Tensor) -> tuple[torch.Tensor, ...]:
    scattered = torch.as_strided_scatter(x, source[:2, :2], (2, 2), (1, 2))
    return torch.diagonal_scatter(x, source[0, :3]), scattered


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
@pytest.mark.filterwarnings("ignore:Torchinductor does not support code generation for complex")
def test_writes_to_views_of_complex_tensors(dtype: torch.dtype) -> None:
    check(_write_to_views, torch.randn(4, 3, dtype=dtype), torch.randn(3, 4, dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.filterwarnings("ignore:Torchinductor does not support code generation for complex")
def test_strides_of_complex_results_are_those_of_eager(dtype: torch.dtype) -> None:
    """Where an operator gives others, or wants others, Inductor restores them by a copy: that is not left to eager by
    Inductor, and Triton has no complex numbers.
    """

    def fn(x: torch.Tensor, z: torch.Tensor) -> tuple[torch.Tensor, ...]:
        w = torch.view_as_complex(x.transpose(0, 1))
        return (
            w,
            w * 2 + z.t(),
            torch.view_as_complex(x[:, ::2]),
            torch.view_as_complex(x * 3).t(),
            torch.view_as_real(w).transpose(0, 1) + 1,
            (z.t() @ z).conj().t(),
            torch.polar(x[..., 0].abs().t(), x[..., 1].t()),
            torch.cat([w, w.conj()], 1).t().contiguous(),
            torch.as_strided(z * 1j, (2, 3), (1, 2)),
            z.t().clone(memory_format=torch.preserve_format).abs().sum(0),
        )

    x = torch.randn(3, 4, 2, dtype=dtype)
    results = check(fn, x, torch.view_as_complex(torch.randn(3, 4, 2, dtype=dtype)))
    expected = fn(x, torch.view_as_complex(torch.randn(3, 4, 2, dtype=dtype)))
    assert [result.stride() for result in results] == [wanted.stride() for wanted in expected]


@needs_torch("2.13", "takes the results of transforms along other axes for contiguous, on the CPU, too")
@pytest.mark.filterwarnings("ignore:Torchinductor does not support code generation for complex")
def test_strides_of_fourier_transforms_are_those_of_eager() -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.fft.fft(x[..., 0].t(), dim=0), torch.fft.rfft(x.permute(2, 0, 1), dim=1)

    x = torch.randn(3, 4, 2)
    assert [result.stride() for result in check(fn, x)] == [wanted.stride() for wanted in fn(x)]


@pytest.mark.filterwarnings("ignore:Torchinductor does not support code generation for complex")
def test_complex_views_with_dynamic_sizes_and_gradients() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.view_as_complex(x.transpose(0, 1))

    compiled = torch.compile(fn, fullgraph=True, dynamic=True)
    check(fn, torch.randn(3, 4, 2), compiled=compiled)
    check(fn, torch.randn(5, 2, 2), compiled=compiled)
    check(
        lambda x: torch.view_as_complex(x.transpose(0, 1)).abs(),
        torch.randn(3, 4, 2, requires_grad=True),
        backward=True,
    )
