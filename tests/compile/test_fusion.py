"""Which loops become one kernel: those for which that saves traffic to memory, if there is a tile for them."""

from __future__ import annotations

import re

import pytest
import torch
import torch.nn.functional as F
from torch._inductor import metrics

from tests.codegen.vectors import divisions, is_tiled
from tests.compile.helpers import check, code_of


def kernels(function: object, *inputs: torch.Tensor) -> list[str]:
    """The kernels of `function`, compared with eager; each is the text of a module."""
    check(function, *inputs)
    metrics.reset()
    torch._dynamo.reset()
    texts = code_of(function, *[x.to("npu") for x in inputs])
    return [text for source in texts for text in re.findall(r"'''(.*?)'''", source, re.DOTALL)]


def test_loops_that_no_axes_fit_stay_apart() -> None:
    def rows_of_96_and_of_64(x, y, b, c, scale, shift, offset):
        return (x + b) * scale + shift - offset, (y + c) * scale + shift - offset

    single = [torch.randn(1) for _ in range(3)]
    inputs = torch.randn(512, 96), torch.randn(768, 64), torch.randn(96), torch.randn(64), *single
    first, second = kernels(rows_of_96_and_of_64, *inputs)
    for text in (first, second):
        assert is_tiled(text)
        assert not divisions(text)


def chain(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    results = [tensors[0]]
    for tensor in tensors[1:]:
        results.append(torch.abs(results[-1]) * 0.5 + tensor)
    return tuple(results[1:])


@pytest.mark.parametrize(("tensors", "count"), [(12, 1), (20, 1), (45, 2)])
def test_no_kernel_has_so_many_tensors_that_its_tiles_are_tiny(tensors: int, count: int) -> None:
    texts = kernels(chain, *[torch.randn(64, 512) for _ in range(tensors)])
    assert len(texts) == count
    assert all(int(re.search(r"# tile \[x\]: x (\d+) of", text)[1]) >= 256 for text in texts)


@pytest.mark.parametrize(
    ("function", "inputs"),
    [
        (lambda x, i: torch.softmax(torch.gather(x, 1, i), -1), (torch.randn(64, 50), torch.randint(0, 50, (64, 20)))),
        (
            lambda i, w, g: F.layer_norm(F.embedding(i, w), (96,), g),
            (torch.randint(0, 100, (8, 32)), torch.randn(100, 96), torch.randn(96)),
        ),
        (
            lambda x, i: F.log_softmax(x, -1).gather(1, i[:, None]).squeeze(1) * -1,
            (torch.randn(64, 100), torch.randint(0, 100, (64,))),
        ),
    ],
    ids=["gather and softmax", "embedding and layer norm", "label of a softmax"],
)
def test_what_reads_by_a_loaded_index_stays_with_what_uses_it(
    function: object, inputs: tuple[torch.Tensor, ...]
) -> None:
    assert len(kernels(function, *inputs)) == 1
