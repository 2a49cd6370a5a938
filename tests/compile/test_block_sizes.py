"""Blocks that do not fit, and grids above the limit, are the backend's problem and never the user's."""

from __future__ import annotations

import pytest
import torch
from torch._inductor.runtime.triton_compat import OutOfResources

import inductor_npu.config
from inductor_npu.runtime.autotuner import NpuAutotuner
from tests.compile.helpers import check, code_of


def _many_values_alive(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    parts = [torch.roll(x, shift, 0) * y + shift for shift in range(1, 12)]
    return torch.stack(parts).amax(0) + sum(parts)


def test_a_kernel_with_many_live_tiles_gets_blocks_that_fit() -> None:
    with inductor_npu.config.patch(pointwise_tile=16384):
        check(_many_values_alive, torch.randn(40_000), torch.randn(40_000))


@pytest.mark.embedded
def test_a_kernel_that_does_not_fit_is_planned_again_with_smaller_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks: list[int] = []
    original = NpuAutotuner._precompile_config

    def small_buffer(self: NpuAutotuner, config: object) -> object:
        blocks.append(config.kwargs["XBLOCK"])
        if config.kwargs["XBLOCK"] > 512:
            raise OutOfResources(config.kwargs["XBLOCK"], 512, "Unified Buffer")
        return original(self, config)

    monkeypatch.setattr(NpuAutotuner, "_precompile_config", small_buffer)
    (module,) = code_of(lambda x: x * 2 + 1, torch.randn(300_000).to("npu"))
    assert blocks[0] == 4096 and blocks == sorted(blocks, reverse=True) and blocks[-1] <= 512
    assert f"# tile [x]: x {blocks[-1]} of 300000" in module
    check(lambda x: x * 2 + 1, torch.randn(300_000))


@pytest.mark.slow
def test_a_kernel_in_pieces_whose_elements_lie_apart_gets_tiles_that_fit() -> None:
    """Its blocks are fixed in its source, and each of its bytes takes a block of the Unified Buffer."""

    def negated(x: torch.Tensor) -> torch.Tensor:
        x[19:] *= -1
        return x + 1

    check(negated, torch.randint(-9, 9, (32, 128), dtype=torch.int8)[:, ::2], dynamic=True)


def test_static_size_is_spread_over_at_most_the_grid_limit() -> None:
    check(lambda x: x.amax(-1), torch.randn(200_000, 3))


@pytest.mark.embedded
def test_dynamic_sizes_start_no_more_programs_than_there_are_cores() -> None:
    compiled = torch.compile(lambda x: x * 3 - 1, dynamic=True)
    (source,) = code_of(lambda x: x * 3 - 1, torch.randn(5000).to("npu"), dynamic=True)
    assert "'grid_type': 'NpuGrid'" in source and "'npu_cores': 40" in source
    for length in (5000, 100_000, 300_000, 20 * 16384 + 1):
        check(lambda x: x * 3 - 1, torch.randn(length), compiled=compiled)


@pytest.mark.slow
def test_a_row_that_does_not_fit_with_all_its_tensors_is_read_in_a_loop() -> None:
    def sum_of_softmaxes(*tensors: torch.Tensor) -> torch.Tensor:
        return sum(torch.softmax(x, -1) * y for x, y in zip(tensors, reversed(tensors)))

    check(sum_of_softmaxes, *(torch.randn(8, 4096) for _ in range(12)))


def test_a_row_with_many_results_is_read_in_a_loop() -> None:
    def normalised(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, d: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x = torch.nn.functional.layer_norm(a * b + c * d, (4096,))
        y = torch.softmax(x * a + b, -1)
        return x, y, torch.sin(c) * torch.erf(y), (x * y).sum(-1), torch.tanh(d) * y

    check(normalised, *(torch.randn(8, 4096) for _ in range(4)))
