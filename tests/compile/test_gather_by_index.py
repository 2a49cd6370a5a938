"""Loads by loaded indices: what the indices may lead to is read as a whole, elements are picked on chip."""

from __future__ import annotations

import re
from importlib.util import find_spec

import pytest
import torch
import torch.nn.functional as F
from torch._inductor.utils import run_and_get_code

from tests.compile.helpers import check
from tests.compile.test_on_chip_gather import DTYPES, values_of


def loads_by_index(function, *inputs: torch.Tensor) -> int:
    """How many loads of the kernels of `function` have an address that is loaded."""
    _, sources = run_and_get_code(torch.compile(function, fullgraph=True), *(x.npu() for x in inputs))
    return len(re.findall(r"tl\.load\(\w+ \+ \([^\n]*tmp\d[^\n]*", "".join(sources)))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_elements_are_picked_as_they_are(dtype: torch.dtype) -> None:
    index = torch.randint(0, 101, (30, 7))
    check(lambda x, i: x.gather(1, i), values_of(dtype, 30, 101), index)


@pytest.mark.parametrize("index_dtype", [torch.int64, torch.int32], ids=str)
def test_a_negative_index_counts_from_the_end(index_dtype: torch.dtype) -> None:
    index = torch.randint(-40, 40, (77,), dtype=index_dtype)
    check(lambda x, i: (x[:, i], x[i[:9]][:, i]), torch.randn(40, 40), index)


GATHERS = {
    "columns": lambda x, i: x[:, i % 60] * 2,
    "of each row": lambda x, i: x[:37].gather(1, (i % 60).expand(37, 90)),
    "short rows": lambda x, i: x[:, :3].contiguous()[i],
    "along the outer axis": lambda x, i: x[:40, :5].contiguous().gather(0, (i % 40)[:, None].expand(90, 5)),
    "of a row's end": lambda x, i: x[:, 7:].flip(-1)[:, i % 50],
    "rows and columns": lambda x, i: x.view(10, 10, 60)[:, (i % 10)[:, None], (i % 60)[None, :23]],
    "under a condition": lambda x, i: torch.where(i > 50, torch.cat((x[i % 10, 0], x[0])).narrow(0, 3, 90), 0.0),
    "summed": lambda x, i: x.gather(1, (i % 60).expand(100, 90)).sum(1),
    "largest": lambda x, i: (x.gather(1, (i % 60).expand(100, 90)) - 5).amax(0),
}


@pytest.mark.parametrize("name", GATHERS)
def test_shapes_of_gathers(name: str) -> None:
    check(GATHERS[name], torch.randn(100, 60), torch.randint(0, 100, (90,)))


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_interpolation(mode: str) -> None:
    check(lambda x: F.interpolate(x, size=(19, 23), mode=mode), torch.randn(2, 3, 14, 11))


@pytest.mark.slow
def test_sampling_at_positions_beyond_the_border() -> None:
    check(lambda x, at: F.grid_sample(x, at, align_corners=False), torch.randn(2, 3, 9, 8), 3 * torch.randn(2, 5, 6, 2))


def test_labels_are_picked_from_short_rows() -> None:
    labels = torch.randint(0, 10, (100,))
    check(lambda x, i: F.cross_entropy(x, i), torch.randn(100, 10, requires_grad=True), labels, backward=True)


def test_no_element_of_a_short_row_is_loaded_by_its_address() -> None:
    x, index = torch.randn(64, 200), torch.randint(0, 200, (64, 50))
    assert loads_by_index(lambda x, i: x.gather(1, i) * 2, x, index) == 0


def test_few_elements_of_long_rows_and_rows_of_a_table_are_not_read_as_a_whole() -> None:
    assert loads_by_index(lambda x, i: x.gather(1, i), torch.randn(8, 20000), torch.randint(0, 20000, (8, 4))) == 1
    assert loads_by_index(lambda x, i: x.gather(1, i), torch.randn(64, 1000), torch.randint(0, 1000, (64, 1))) == 1
    assert loads_by_index(lambda w, i: w[i] * 2, torch.randn(50, 64), torch.randint(0, 50, (30,))) == 1


def test_dynamic_sizes() -> None:
    compiled = torch.compile(lambda x, i: x.gather(1, i) * 2, fullgraph=True, dynamic=True)
    for rows, columns, picked in ((5, 30, 7), (64, 200, 50)):
        index = torch.randint(0, columns, (rows, picked))
        check(lambda x, i: x.gather(1, i) * 2, torch.randn(rows, columns), index, compiled=compiled)


# Ascend's Triton takes the lower 32 bits of an index.
WIDE = pytest.mark.skipif(find_spec("triton.backends.ascend") is not None, reason="no index has more than 32 bits")


@pytest.mark.parametrize("index", [200, -201, *(pytest.param(3 + high, marks=WIDE) for high in (1 << 32, -1 << 32))])
@pytest.mark.failing_kernel
def test_an_index_out_of_bounds_is_an_error(index: int) -> None:
    compiled = torch.compile(lambda x, i: x[:, i] * 2, fullgraph=True)
    x, chosen = torch.randn(4, 200).npu(), torch.tensor([5, index]).npu()
    with pytest.raises(RuntimeError, match="index out of bounds"):
        compiled(x, chosen).cpu()
