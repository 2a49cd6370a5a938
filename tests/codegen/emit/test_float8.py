"""Floats of 8 bits in compiled graphs: bit for bit those of eager, beyond their range as within."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

FLOATS8 = [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz]
INF, NAN = float("inf"), float("nan")

pytestmark = pytest.mark.usefixtures("every_graph_is_compiled")


def _same_bits(actual: torch.Tensor, wanted: torch.Tensor) -> bool:
    """Whether they are equal in every bit but the sign of NaN."""
    numbers, expected = actual.float(), wanted.float()
    known = ~expected.isnan()
    same = torch.equal(actual.view(torch.uint8)[known], wanted.view(torch.uint8)[known])
    return same and bool(numbers[~known].isnan().all())


def _floats(dtype: torch.dtype) -> torch.Tensor:
    """What lies about the ends of each format and halfway between numbers, of both signs, in `dtype`."""
    ends = [240, 247.9, 248, 256, 448, 463.9, 464, 464.1, 480, 57344, 61439, 61440, 61441, 65504, 1e9, 1e30, INF, NAN]
    small = [0.0, 1.0625, 1.125, 1.1875, 2.0**-6, 2.0**-7, 2.0**-9, 2.0**-10, 3 * 2.0**-11, 2.0**-16, 2.0**-17, 1e-30]
    numbers = torch.tensor([*ends, *small, *(torch.rand(200) * 500).tolist()], dtype=torch.float64)
    return torch.cat([numbers, -numbers]).to(dtype)


def _integers(dtype: torch.dtype) -> torch.Tensor:
    ends = [0, 1, 17, 127, -128, 240, 248, 449, 464, 465, -500, 57344, 61439, 61440, -70000, 2**24 + 1, 2**40, -(2**62)]
    limits = torch.iinfo(dtype)
    return torch.tensor([min(max(number, limits.min), limits.max) for number in ends], dtype=dtype)


@pytest.mark.parametrize("float8", FLOATS8, ids=str)
def test_conversions_are_those_of_eager(float8: torch.dtype) -> None:
    floats = [_floats(dtype) for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16)]
    integers = [_integers(dtype) for dtype in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)]
    sources = [*floats, *integers, torch.tensor([True, False])]

    def converted(*sources: torch.Tensor) -> list[torch.Tensor]:
        return [source.to(float8) for source in sources]

    results = torch.compile(converted, fullgraph=True)(*(source.npu() for source in sources))
    for source, result, wanted in zip(sources, results, converted(*sources), strict=True):
        assert _same_bits(result.cpu(), wanted), source.dtype


@pytest.mark.parametrize("float8", FLOATS8[:2], ids=str)
def test_products_beyond_the_range_are_those_of_eager(float8: torch.dtype) -> None:
    x = _floats(float8)

    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x * x, x.roll(1) * x, (x.float() * 64).to(float8) * x

    for result, wanted in zip(torch.compile(fn, fullgraph=True)(x.npu()), fn(x), strict=True):
        assert _same_bits(result.cpu(), wanted)


@pytest.mark.parametrize("float8", FLOATS8, ids=str)
def test_conversions_inside_a_kernel_and_back(float8: torch.dtype) -> None:
    bits = torch.arange(256, dtype=torch.uint8).view(float8)
    finite = torch.where(bits.float().isfinite(), bits.float(), 0.0).to(float8)

    def fn(x: torch.Tensor, bits: torch.Tensor, finite: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            (x * 3).to(float8).float() + 1,
            bits.float(),
            bits.double(),
            bits.half(),
            bits.bfloat16(),
            finite.to(torch.int32),
            bits.to(torch.bool),
            bits == bits,
            bits.isnan(),
            torch.where(x > 0, x, -x).to(float8).float().sum(0),
        )

    x = _floats(torch.float32)
    results = torch.compile(fn, fullgraph=True)(x.npu(), bits.npu(), finite.npu())
    for result, wanted in zip(results, fn(x, bits, finite), strict=True):
        torch.testing.assert_close(result.cpu(), wanted, rtol=1e-5, atol=0, equal_nan=True)


@pytest.mark.slow
@pytest.mark.parametrize("float8", FLOATS8, ids=str)
def test_floats_of_8_bits_are_moved_and_made(float8: torch.dtype) -> None:
    others = [other for other in FLOATS8[:2] if other is not float8]
    x = torch.randn(5, 7).to(float8)

    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            F.pad(x, (1, 2)),
            torch.cat([x, x.flip(0)]),
            x.t().contiguous(),
            x.roll(2, 1),
            x.abs(),
            torch.full((3,), 208.0, dtype=float8, device=x.device),
            torch.full((3,), x.shape[0] * 4, dtype=float8, device=x.device),
            (torch.arange(600, device=x.device) * 200).to(float8),
            *(x.to(other) for other in others),
        )

    for dynamic in (False, True):
        results = torch.compile(fn, fullgraph=True, dynamic=dynamic)(x.npu())
        for result, wanted in zip(results, fn(x), strict=True):
            assert _same_bits(result.cpu(), wanted)


@pytest.mark.parametrize("float8", FLOATS8, ids=str)
def test_reductions_of_floats_of_8_bits_do_not_see_what_lies_beyond_a_row(float8: torch.dtype) -> None:
    """A tile that reaches beyond the row is filled with what does not count; float8_e4m3fn has no infinity for that."""
    x = (torch.randn(5, 77) - 300).to(float8)
    x = torch.where(x.float().isnan(), -4.0, x.float()).to(float8)

    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x.float()
        return y.sum(1), y.amax(1), y.amin(0), y.softmax(1), (-y).exp2().amax(1)

    results = torch.compile(fn, fullgraph=True)(x.npu())
    for result, wanted in zip(results, fn(x), strict=True):
        torch.testing.assert_close(result.cpu(), wanted)
