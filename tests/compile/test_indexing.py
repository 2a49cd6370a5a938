"""Addresses that depend on data: gathers, scatters, embeddings, masks; and windows that slide."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.compile.helpers import check


def test_gather_and_take() -> None:
    index = torch.randint(0, 12, (9, 5))
    check(lambda x, i: (x.gather(1, i), torch.take_along_dim(x, i, 1), x.take(i)), torch.randn(9, 12), index)


def test_advanced_indexing() -> None:
    rows, columns = torch.randint(0, 9, (6,)), torch.randint(-12, 12, (6,))
    check(lambda x, r, c: (x[r], x[r, c], x[:, c], x[r][:, c]), torch.randn(9, 12), rows, columns)


def test_index_select() -> None:
    index = torch.randint(0, 7, (20,))
    check(lambda x, i: (x.index_select(0, i), x.index_select(1, i[:3])), torch.randn(7, 9), index)


def test_boolean_mask_where() -> None:
    check(lambda x: torch.where(x[:, :1] > 0, x, -x)[:, 1:], torch.randn(20, 8))


def test_embedding_forward_and_backward() -> None:
    tokens = torch.randint(0, 50, (4, 10))
    weight = torch.randn(50, 16, requires_grad=True)
    check(lambda t, w: torch.nn.functional.embedding(t, w) * 2, tokens, weight, backward=True)


def test_scatter() -> None:
    index = torch.randperm(12).reshape(3, 4)
    check(
        lambda x, i, s: x.scatter(1, i % 6, s),
        torch.zeros(3, 6),
        torch.tensor([[0, 1, 2], [3, 4, 5], [5, 0, 3]]),
        torch.randn(3, 3),
    )
    check(lambda x, i, s: x.view(-1).scatter(0, i.view(-1), s.view(-1)), torch.zeros(12), index, torch.randn(3, 4))


def test_scatter_add_with_duplicates() -> None:
    index = torch.randint(0, 6, (40, 5))
    check(lambda x, i, s: x.scatter_add(0, i, s), torch.zeros(6, 5), index, torch.randn(40, 5))


def test_scatter_reduce() -> None:
    index = torch.randint(0, 6, (40,))
    check(lambda x, i, s: x.scatter_reduce(0, i, s, "amax"), torch.zeros(6), index, torch.randn(40))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int64], ids=str)
def test_index_add(dtype: torch.dtype) -> None:
    index = torch.randint(0, 30, (20,))
    source = torch.randint(-3, 4, (20, 3)).to(dtype)
    check(lambda x, i, s: x.index_add(0, i, s), torch.zeros(30, 3, dtype=dtype), index, source)


def _accumulate(x: torch.Tensor, index: torch.Tensor, source: torch.Tensor) -> tuple[torch.Tensor, ...]:
    rows = index[:, None].expand_as(source)
    return (
        x.index_add(0, index, source),
        x.index_put((index,), source, accumulate=True),
        x.put(index, source[:, 0], accumulate=True),
        x.scatter_add(0, rows, source),
        x.scatter_reduce(0, rows, source, "sum", include_self=False),
        x.scatter(0, rows, source, reduce="add"),
        x.scatter(0, rows, 3, reduce="add"),
        x.index_reduce(0, index, source, "mean"),
    )


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "dynamic"), [(torch.int8, True), (torch.uint8, False), (torch.int16, False)])
def test_accumulation_into_narrow_integers_wraps_around_as_in_eager(dtype: torch.dtype, dynamic: bool) -> None:
    most = torch.iinfo(dtype).max
    index = torch.randint(0, 4, (40,))
    source = torch.randint(most // 2, most, (40, 3)).to(dtype)
    check(_accumulate, torch.randint(1, most, (6, 3)).to(dtype), index, source, dynamic=dynamic)


def test_accumulation_into_narrow_integers_where_a_mask_says() -> None:
    index = torch.randint(0, 6, (40,))
    accumulate = torch.ops.aten._unsafe_masked_index_put_accumulate
    values = torch.randint(60, 120, (40,), dtype=torch.int8)
    check(lambda x, i, v: accumulate(x, i > 2, [i], v), torch.zeros(6, dtype=torch.int8), index, values)


def test_index_put() -> None:
    index = torch.tensor([1, 3, 5])

    def put(x: torch.Tensor, i: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        x[i] = v
        x.index_put_((i,), v, accumulate=True)
        return x * 2

    check(put, torch.randn(8, 4), index, torch.randn(3, 4))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_values_and_indices_may_be_the_tensor_that_is_written(
    dtype: torch.dtype, accumulate: bool, dynamic: bool
) -> None:
    def fn(x: torch.Tensor, order: torch.Tensor) -> tuple[torch.Tensor, ...]:
        rows, places = x[order], order + 0
        itself = rows.index_put((order.flip(0),), rows, accumulate=accumulate)
        return itself, places.index_put((places,), places, accumulate=accumulate)

    check(fn, torch.randint(-9, 9, (2000, 3)).to(dtype), torch.randperm(2000), dynamic=dynamic)


@pytest.mark.failing_kernel
def test_index_out_of_bounds_is_an_error() -> None:
    compiled = torch.compile(lambda x, i: x[i] + 1)
    with pytest.raises(RuntimeError, match=r"out of bounds|out of range"):
        compiled(torch.randn(4).to("npu"), torch.tensor([1, 9]).to("npu")).cpu()


def test_searchsorted_and_bucketize() -> None:
    edges = torch.linspace(-2, 2, 9)
    check(lambda x, e: (torch.bucketize(x, e), torch.searchsorted(e, x, right=True)), torch.randn(60), edges)


def test_one_hot_and_histogram() -> None:
    check(
        lambda x: (torch.nn.functional.one_hot(x, 5), torch.bincount(x, minlength=5)),
        torch.randint(0, 5, (30,)),
        fullgraph=False,
    )


def test_nonzero_has_a_size_that_depends_on_data() -> None:
    check(lambda x: x.nonzero(), (torch.randn(30) > 0), fullgraph=False)


@pytest.mark.slow
def test_max_and_average_pooling() -> None:
    functional = torch.nn.functional
    x = torch.randn(2, 3, 12, 10, requires_grad=True)
    check(lambda x: (functional.max_pool2d(x, 2), functional.avg_pool2d(x, 3, 2, 1)), x, backward=True)


@pytest.mark.slow
def test_adaptive_pooling_and_windows_that_overlap() -> None:
    functional = torch.nn.functional
    check(
        lambda x: (functional.adaptive_avg_pool2d(x, (3, 4)), functional.max_pool2d(x, 3, 1, 1)),
        torch.randn(2, 3, 12, 10),
    )


@pytest.mark.parametrize(
    ("size", "stride", "padding", "counts_padding"),
    [
        (3, 1, 1, True),
        pytest.param(3, 1, 1, False, marks=pytest.mark.slow),
        (3, 2, 1, False),
        pytest.param(3, 2, 1, True, marks=pytest.mark.slow),
        pytest.param(5, 1, 2, False, marks=pytest.mark.slow),
        pytest.param(5, 1, 2, True, marks=pytest.mark.slow),
        ((2, 3), 2, (1, 0), True),
        ((2, 3), 2, (1, 0), False),
    ],
)
def test_average_pooling_beyond_a_border(size: int, stride: int, padding: int, counts_padding: bool) -> None:
    x = torch.randn(3, 5, 26, 28, requires_grad=True)
    pool = torch.nn.functional.avg_pool2d
    check(lambda x: pool(x, size, stride, padding, count_include_pad=counts_padding), x, backward=True)


@pytest.mark.parametrize("dynamic", [False, True])
def test_additions_are_made_for_each_element_of_the_index(dynamic: bool) -> None:
    """Also where neither the address nor the value says which element it is: one bin, or a value that is repeated."""

    def one_bin(index: torch.Tensor) -> torch.Tensor:
        return torch.zeros(1, device=index.device).scatter_add(0, index * 0, torch.ones(300, device=index.device))

    def repeated(index: torch.Tensor) -> torch.Tensor:
        bins, whole = torch.zeros(7, device=index.device), (index % 7).expand(33, 300)
        return bins.index_put((whole,), torch.full((33, 300), 0.5, device=index.device), accumulate=True)

    def of_a_concatenation(index: torch.Tensor) -> torch.Tensor:
        one = index[:1].float()
        return torch.scatter_add(torch.cat([one, one])[-1:], 0, index[:2] * 0, torch.cat([one, one]))

    for function in (one_bin, repeated, of_a_concatenation):
        check(function, torch.arange(3, 303), dynamic=dynamic)


def test_values_that_are_no_linear_functions_of_an_index() -> None:
    def ramp(x: torch.Tensor) -> torch.Tensor:
        index = torch.arange(200, device=x.device)
        return (
            x * index.clamp(40, 150) - index * index.clamp(max=77)[:, None].sum(1) + (-index.clamp(0, 7).float()).exp()
        )

    check(ramp, torch.randn(6, 200))


@pytest.mark.parametrize("both_ways", [True, False])
def test_buckets_of_distances(both_ways: bool) -> None:
    """The relative positions of T5: near ones are themselves, far ones a logarithm; an index that is used in both."""

    def bias(table: torch.Tensor) -> torch.Tensor:
        n = torch.arange(32, device=table.device)
        ahead = n[None, :] - n[:, None]
        distance = ahead.abs() if both_ways else -torch.minimum(ahead, torch.zeros_like(n))
        far = 16 + (torch.log(distance.float() * 0.0625) * 7.7).to(torch.int64)
        bucket = torch.where(distance < 16, distance, torch.minimum(far, torch.full_like(far, 31)))
        return table[bucket].permute(2, 0, 1)

    check(bias, torch.randn(32, 4))


def check_numbers_fractions_and_conditions(data: st.DataObject) -> None:
    """Whichever operator asks for it first, an index has the bounds of its own."""
    rows, columns = data.draw(st.tuples(st.integers(2, 40), st.integers(2, 70)))
    small = st.integers(-9, 9)
    indices = [
        (data.draw(st.sampled_from(["minimum", "maximum", "add", "sub"])), *(data.draw(small) for _ in range(5)))
        for _ in range(3)
    ]
    limits = [data.draw(st.integers(-60, 60)) for _ in indices]
    uses = data.draw(st.permutations(range(len(indices) * 3)))

    def fn(x: torch.Tensor) -> list[torch.Tensor]:
        i = torch.arange(rows, device=x.device)[:, None]
        j = torch.arange(columns, device=x.device)
        numbers = [e * getattr(torch, name)(a * i - j + b, (c * j - i).abs() + d) for name, a, b, c, d, e in indices]
        found = []
        for use in uses:
            number, limit = numbers[use // 3], limits[use // 3]
            scaled = number.float() * 0.0625
            kind = use % 3
            if kind == 0:
                found.append(torch.where(number < limit, scaled, x))
            elif kind == 1:
                place = torch.where(number < limit, number, scaled.abs().long())
                found.append(x.flatten()[place.clamp(0, x.numel() - 1)])
            else:
                found.append(torch.minimum(number * 3 - limit, number) + scaled)
        return found

    torch._dynamo.reset()
    check(fn, torch.randn(rows, columns))


@pytest.mark.slow
@settings(max_examples=2, deadline=None, derandomize=True)
@given(data=st.data())
def test_indices_that_are_numbers_fractions_and_conditions_at_once(data: st.DataObject) -> None:
    check_numbers_fractions_and_conditions(data)


@pytest.mark.slow
@settings(max_examples=12, deadline=None, derandomize=True)
@given(data=st.data())
def test_more_indices_that_are_numbers_fractions_and_conditions_at_once(data: st.DataObject) -> None:
    check_numbers_fractions_and_conditions(data)


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_upsampling(mode: str) -> None:
    options = {} if mode == "nearest" else {"align_corners": False}
    interpolate = torch.nn.functional.interpolate
    check(lambda x: interpolate(x, scale_factor=2.0, mode=mode, **options), torch.randn(1, 3, 7, 9))


@pytest.mark.slow
def test_grid_sample() -> None:
    grid = torch.rand(2, 5, 6, 2) * 2 - 1
    check(lambda x, g: torch.nn.functional.grid_sample(x, g, align_corners=False), torch.randn(2, 3, 8, 9), grid)


def test_unfold_and_im2col() -> None:
    check(lambda x: (x.unfold(2, 3, 2) * 2, torch.nn.functional.unfold(x, 3)), torch.randn(2, 3, 8, 9))


def _scatter_to_one_row(x: torch.Tensor) -> torch.Tensor:
    return torch.zeros(6, 40, device=x.device).scatter(0, torch.zeros(32, 40, dtype=torch.long, device=x.device), x)


def _put_all_at_one_place(x: torch.Tensor) -> torch.Tensor:
    index = torch.zeros(x.numel(), dtype=torch.long, device=x.device)
    return torch.index_put(torch.zeros(10, device=x.device), (index + 3,), x.flatten())


@pytest.mark.parametrize("fn", [_scatter_to_one_row, _put_all_at_one_place])
def test_the_last_of_several_values_stored_at_one_address_stays(fn: Callable[[torch.Tensor], torch.Tensor]) -> None:
    for _ in range(5):
        check(fn, torch.randn(32, 40))
