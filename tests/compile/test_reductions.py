"""Reductions and scans: over any axes, over short and very long rows, with every kind of result."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tests.compile.helpers import check, code_of, kernel_count
from tests.triton_features import needs_feature, require

AXES = [None, 0, 1, 2, (0, 1), (1, 2), (0, 2), (0, 1, 2)]


@pytest.mark.parametrize("axes", AXES, ids=str)
def test_sum_over_any_axes(axes: int | tuple[int, ...] | None) -> None:
    check(lambda x: (x * 2).sum(axes), torch.randn(5, 33, 17))


@pytest.mark.parametrize("length", [1, 2, 31, 64, 1000, 4096, 5000, 100_000])
def test_row_length(length: int) -> None:
    check(lambda x: (x.sum(-1), x.amax(-1), x.mean(-1)), torch.randn(3, length))


@pytest.mark.parametrize("rows", [1, 3, 100, 5000])
def test_number_of_rows(rows: int) -> None:
    check(lambda x: x.amax(-1), torch.randn(rows, 24))


@pytest.mark.parametrize("length", [3, 64, 65, 1000, 20_000])
def test_rows_side_by_side(length: int) -> None:
    """Small whole numbers: their sums are exact in fp32, in whatever order they are added."""
    check(lambda x: x.sum(0), torch.randint(-9, 10, (length, 50)).float())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_float_dtypes(dtype: torch.dtype) -> None:
    if dtype is torch.float64:
        require("masked loads of float64")
    x = torch.randn(20, 70).to(dtype)
    check(lambda x: (x.sum(1), x.mean(1), x.amax(1), x.amin(1), x.float().prod(1)), x)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.int8, torch.bool], ids=str)
def test_integer_dtypes(dtype: torch.dtype) -> None:
    x = torch.randint(0, 2 if dtype == torch.bool else 9, (12, 40)).to(dtype)
    check(lambda x: (x.sum(1), x.any(1), x.all(1), x.int().amax(1), x.int().prod(1)), x)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("length", [1, 40, 5000, 100_000])
def test_sums_of_integers_are_exact_and_wrap(dtype: torch.dtype, length: int) -> None:
    limits = torch.iinfo(dtype)
    x = torch.randint(limits.min, limits.max, (3, length), dtype=dtype)
    x[1], x[2] = limits.min, limits.max
    check(lambda x: (x.sum(-1), x.sum(0), x.sum(), x.sum(-1, dtype=dtype), (x > 0).sum(-1), torch.count_nonzero(x)), x)


@pytest.mark.slow
@pytest.mark.parametrize("length", [2, 4, 7, 64, 5000])
def test_sums_of_booleans_are_conditions(length: int) -> None:
    """With dtype bool a sum is whether any is true and a product whether all are, also where Inductor writes the few
    elements of a short row one after the other; NaN is true.
    """
    x = torch.randint(0, 2, (8, length)).float()
    x[0], x[1], x[2, :2], x[2, 2:] = 0, 1, 1, 0
    x[3, length // 2] = float("nan")

    def sums(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        of_any_dtype = [x.nan_to_num().to(dtype) for dtype in (torch.int64, torch.int32, torch.uint8, torch.bool)]
        return (
            *(x.sum(axes, dtype=torch.bool) for axes in (0, 1, (0, 1))),
            *(x.prod(axis, dtype=torch.bool) for axis in (0, 1)),
            *(y.sum(1, dtype=torch.bool) for y in of_any_dtype),
            *(y.prod(1, dtype=torch.bool) for y in of_any_dtype),
            (x > 0).amax(1),
            (x > 0).amin(1),
            ~(x.sum(1, dtype=torch.bool) & x.prod(1, dtype=torch.bool)),
            x.sum(1, dtype=torch.bool).sum(),
        )

    check(sums, x)


def test_sums_of_booleans_in_larger_loops() -> None:
    a, b = torch.rand(6, 9) < 0.5, torch.rand(6, 9) < 0.5
    index = torch.tensor([2, 0, 2, 0, 1, 2])
    columns = index[:, None].expand(6, 9)

    def sums(a: torch.Tensor, b: torch.Tensor, index: torch.Tensor, columns: torch.Tensor) -> tuple[torch.Tensor, ...]:
        both = torch.add(a, b, alpha=3)
        return (
            both & ~(a * b),
            (a + b + both).sum(0),
            a.scatter_add(0, columns, b),
            a.index_add(0, index, b),
            a.index_put((index,), b, accumulate=True),
            (a + b).sum(1, dtype=torch.bool) + both.prod(1, dtype=torch.bool),
            a.cummax(1)[0],
        )

    check(sums, a, b, index, columns)


@pytest.mark.embedded  # CUDA's library has no such operator
def test_products_of_scattered_booleans() -> None:
    a, b = torch.rand(6, 9) < 0.5, torch.rand(6, 9) < 0.5
    columns = torch.tensor([2, 0, 2, 0, 1, 2])[:, None].expand(6, 9)
    check(lambda a, b, columns: a.scatter_reduce(0, columns, b, "prod"), a, b, columns)


@pytest.mark.parametrize("length", [1, 6, 90, 3000])
def test_scans_of_booleans(length: int) -> None:
    """CUDA has them; the CPU's eager has none to compare with."""
    x = torch.rand(3, length) < 0.3
    results = torch.compile(lambda x: (x.cumsum(1, dtype=torch.bool), (~x).cumprod(1, dtype=torch.bool)))(x.npu())
    assert torch.equal(results[0].cpu(), x.int().cumsum(1) > 0)
    assert torch.equal(results[1].cpu(), (~x).long().cumprod(1) > 0)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32], ids=str)
def test_sums_of_powers_of_integers(dtype: torch.dtype) -> None:
    """Beyond the end of a row there is no integer of which the power is 0, as that of -inf is."""
    check(lambda x: (x.float().exp().sum(-1), x + x), torch.randint(0, 3, (3, 100)).to(dtype))


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16], ids=str)
@pytest.mark.parametrize("length", [40, 3000])
def test_sums_of_narrow_integers_wrap_before_they_are_used(dtype: torch.dtype, length: int) -> None:
    most = torch.iinfo(dtype).max
    x = torch.randint(most // 2, most, (4, length)).to(dtype)
    check(lambda x: (x.sum(1, dtype=dtype) // 3, x.sum(dtype=dtype) > 0, x.sum(0, dtype=dtype).float()), x)


def test_sums_of_integers_in_rows_of_unknown_length() -> None:
    x = torch.randint(-(2**62), 2**62, (5, 3000))
    check(lambda x: (x.sum(-1), (x > 0).sum(-1)), x, dynamic=True)


@pytest.mark.parametrize("shape", [(50,), (20, 1), (20, 5), (20, 50), (3, 5, 60)], ids=str)
def test_products_along_rows(shape: tuple[int, ...]) -> None:
    check(lambda x: x.prod(-1), torch.rand(shape) + 0.5)
    check(lambda x: x.prod(-1), torch.randint(-3, 4, shape))


@pytest.mark.parametrize("length", [3, 20, 33])
def test_selections_beyond_the_end_of_short_rows(length: int) -> None:
    x = torch.randn(9, length, 11)
    check(lambda x: ((x.exp() + 1).sum(1), (x.exp() + 1).sum((0, 2)), (x.exp() + 1).amax((1, 2)), x.argmin(1)), x)


def test_arg_extremes_take_the_first_of_equals() -> None:
    x = torch.randint(0, 4, (17, 90)).float()
    check(lambda x: (x.argmax(1), x.argmin(1), x.argmax(), x.argmin(0)), x)


@pytest.mark.slow
@pytest.mark.parametrize("dynamic", [False, True])
def test_positions_count_in_the_order_of_the_tensor_not_of_memory(dynamic: bool) -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (x + 1).argmax(), (x * 2).argmin(), x.flatten().argmax(-1, keepdim=True), (x - 1).flatten(1).argmax(1)

    check(fn, torch.randn(100, 70).t(), dynamic=dynamic)
    check(fn, torch.randn(10, 7, 9).permute(2, 0, 1), dynamic=dynamic)


def test_positions_in_tensors_that_lie_in_another_order() -> None:
    """Of which Inductor hands on the positions itself, in 64 bits; short rows and those read in a loop."""

    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.argmax(), x.argmin(), x.transpose(0, 1).argmax(), x.t().round().argmin()

    for rows in (6, 300):
        check(fn, torch.randn(rows, 70).t())


def test_max_with_indices() -> None:
    check(lambda x: (*x.max(1), *x.min(0)), torch.randn(9, 50))


def test_nan_wins() -> None:
    x = torch.randn(6, 40)
    x[2, 7] = float("nan")
    check(lambda x: (x.amax(1), x.amin(1), x.argmax(1), x.sum(1)), x)


def test_empty_reduction() -> None:
    check(lambda x: (x.sum(1), x.prod(1), x.any(1)), torch.empty(4, 0))


def test_variance() -> None:
    check(lambda x: (x.var(1), x.std(1), *torch.var_mean(x, 0)), torch.randn(30, 200))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_variance_of_rows_that_are_read_in_a_loop(dtype: torch.dtype) -> None:
    if dtype is torch.float64:
        require("masked loads of float64")
    x = (torch.randn(3, 2, 40_000) * 2 + 100).to(dtype)
    check(lambda x: torch.var_mean(x.double() if x.dtype == torch.float64 else x.float(), -1), x)
    check(lambda x: torch.var_mean(x.float(), (0, 2)), x)


@pytest.mark.parametrize("length", [50, 768, 5000])
def test_softmax(length: int) -> None:
    check(lambda x: (torch.softmax(x, -1), torch.log_softmax(x, -1), torch.logsumexp(x, -1)), torch.randn(8, length))


@pytest.mark.parametrize("length", [64, 768, 5000])
def test_normalisation(length: int) -> None:
    layer_norm, rms_norm = torch.nn.functional.layer_norm, torch.nn.functional.rms_norm
    weight, bias = torch.randn(length), torch.randn(length)
    check(
        lambda x, w, b: (layer_norm(x, (length,), w, b), rms_norm(x, (length,), w)),
        torch.randn(6, length),
        weight,
        bias,
    )


def test_batch_and_group_normalisation() -> None:
    functional = torch.nn.functional
    check(
        lambda x, m, v: (functional.batch_norm(x, m, v, training=True), functional.group_norm(x, 4)),
        torch.randn(4, 8, 6, 5),
        torch.zeros(8),
        torch.ones(8),
    )


@pytest.mark.slow
def test_rows_along_two_axes() -> None:
    """Inductor splits these reductions into parts and gives the rows an axis each for part and place."""
    x, y = torch.randn(4, 256, 65), torch.randn(260, 256)
    check(lambda x, y: torch.nn.functional.layer_norm(x.transpose(1, 2) + y.view(4, 65, 256), (256,)), x, y)


def test_norms() -> None:
    check(
        lambda x: (x.norm(), x.norm(dim=1), x.norm(p=1, dim=0), torch.linalg.vector_norm(x, ord=3)), torch.randn(20, 33)
    )


@pytest.mark.parametrize("length", [1, 100, 3000])
def test_cumulative(length: int) -> None:
    x = torch.rand(4, length) + 0.5
    check(lambda x: (x.cumsum(1), x.cumsum(0), (x / 2).cumprod(0), *x.cummax(1), x.logcumsumexp(1)), x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64, torch.int64], ids=str)
def test_cumulative_over_a_very_long_row(dtype: torch.dtype) -> None:
    """Whole numbers with sums of at most 1: exact in every dtype, in whatever order they are added."""
    x = (torch.arange(1 << 22) % 2 * -2 + 1).to(dtype)
    check(lambda x: (x * 2).cumsum(0) + x, x)


def test_a_very_long_scan_waits_for_no_other_program() -> None:
    x = torch.randn(1 << 22).to("npu")
    sources = code_of(lambda x: (torch.relu(x).cumsum(0), x.logcumsumexp(0)), x)
    assert kernel_count(sources) > 0
    assert not any("lookback" in source for source in sources)


def test_sort() -> None:
    x = torch.randn(6, 100)
    check(lambda x: (*torch.sort(x, dim=1, stable=True), *torch.sort(x, dim=1, descending=True, stable=True)), x)


def test_topk() -> None:
    check(lambda x: x.topk(5, dim=1).values, torch.randn(7, 40))


def test_full_reduction_of_a_large_tensor() -> None:
    check(lambda x: (x.amax(), x.argmax()), torch.randn(1_500_000))


@needs_feature("masked loads of float64")
def test_full_reduction_in_float64() -> None:
    check(lambda x: x.double().sum(), torch.randn(1_500_000))


def test_reduction_then_broadcast_is_one_kernel() -> None:
    def centred(x: torch.Tensor) -> torch.Tensor:
        return (x - x.mean(-1, keepdim=True)) / (1 + x.amax(-1, keepdim=True))

    check(centred, torch.randn(64, 500))
    assert kernel_count(code_of(centred, torch.randn(64, 500).to("npu"))) == 1


def test_a_result_of_a_row_that_is_read_in_a_loop_is_used_along_the_row() -> None:
    """The innermost reduced axis is whole in the tile, the outer one is looped over: twice, once for each pass."""

    def centred(x: torch.Tensor) -> torch.Tensor:
        distance = x - x.mean((0, 2), keepdim=True)
        return distance / (1 + distance.square().mean((0, 2), keepdim=True)).sqrt()

    check(centred, torch.randn(256, 8, 64))


@pytest.mark.parametrize("shape", [(5,), (5, 1), (5, 5), (5, 1, 1), ()], ids=str)
def test_reduction_over_several_axes_of_which_an_operand_has_a_part(shape: tuple[int, ...]) -> None:
    check(
        lambda a, b: ((a - b).square().sum(), (a + b).amax(), torch.dist(a, b)),
        torch.randn(5, 5, 5),
        torch.ones(shape) * 3,
    )


def test_loop_over_two_reduced_axes_alone() -> None:
    def divergence(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return F.kl_div(F.log_softmax(a, -1), F.softmax(b, -1), reduction="batchmean")

    inputs = [torch.randn(64, 100, requires_grad=True) for _ in range(2)]
    check(divergence, *inputs, backward=True)
