"""Which loops become one kernel: those for which that saves traffic to memory, if there is a tile for them."""

from __future__ import annotations

import re

import pytest
import torch
import torch.nn.functional as F
from torch._inductor import metrics

from inductor_npu.codegen.scheduling.fusion import Fusions
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
@pytest.mark.embedded
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


def _turned(x: torch.Tensor) -> torch.Tensor:
    return torch.cat((-x[..., 8:], x[..., :8]), -1)


def _rotary(query: torch.Tensor, key: torch.Tensor, frequencies: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Rotary positions of four heads of queries and, each for two of them, two heads of keys."""
    angles = torch.arange(17, device=query.device)[:, None].float() * frequencies
    angles = torch.cat((angles, angles), -1)
    query, key = (x.view(2, 17, -1, 16).transpose(1, 2) for x in (query, key))
    query, key = (x * angles.cos() + _turned(x) * angles.sin() for x in (query, key))
    return query, key[:, :, None].expand(2, 2, 2, 17, 16).reshape(2, 4, 17, 16)


def _sorted_and_shifted_in_pieces(x: torch.Tensor) -> torch.Tensor:
    return torch.sort(x)[0].reshape(4, 12, 8) + x.reshape(4, 12, 8)[:, :, :1]


ROTARY = torch.randn(2, 17, 64), torch.randn(2, 17, 32), torch.rand(8)


@pytest.mark.slow
def test_queries_and_keys_without_common_axes_stay_apart() -> None:
    """Queries are rotated as (2, 17, 4, 16), keys as (2, 2, 2, 17, 16): as many elements, and no shape refines both."""
    texts = kernels(_rotary, *ROTARY)
    assert len(texts) == 2
    assert not any(divisions(text) for text in texts)


@pytest.mark.slow
def test_loops_that_were_fused_without_common_axes_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Fusions, "reason_against", lambda self, first, second: None)
    texts = kernels(_rotary, *ROTARY)
    assert len(texts) == 1
    assert not any(divisions(text) for text in texts)


def test_a_row_that_is_sorted_is_not_taken_in_pieces() -> None:
    texts = kernels(_sorted_and_shifted_in_pieces, torch.randn(4, 96))
    assert len(texts) == 2
    assert not any(divisions(text) for text in texts)
