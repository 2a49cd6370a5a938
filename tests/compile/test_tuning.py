"""max-autotune: tiles around the default are tried once, the winner is kept, and every one of them is right."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch._inductor.utils import clear_caches

import inductor_npu.config
from inductor_npu.codegen.scheduling import tuning
from inductor_npu.runtime.autotuner import NpuAutotuner
from inductor_npu.tiling.plan import TilePlan
from tests.compile.helpers import check

MODE = "max-autotune-no-cudagraphs"


@pytest.fixture
def tried(tmp_path: Path) -> Iterator[list[int]]:
    """How many tiles were compared, for each kernel of which some were; with a cache of its own."""
    counts: list[int] = []
    original = tuning.nearest

    def counting(among: list[TilePlan], scores: list[float | None]) -> TilePlan:
        counts.append(len(among))
        return original(among, scores)

    with (
        pytest.MonkeyPatch.context() as patch,
        torch._inductor.config.patch(force_disable_caches=False, fx_graph_cache=False),
    ):
        patch.setenv("INDUCTOR_NPU_CACHE_DIR", str(tmp_path))
        patch.setattr(tuning, "nearest", counting)
        yield counts


def again() -> None:
    """As a new process: nothing that was compiled is known."""
    torch._dynamo.reset()
    clear_caches()


def test_what_was_found_once_is_not_tried_again(tried: list[int]) -> None:
    for _ in range(2):
        check(lambda x: torch.softmax(x, -1), torch.randn(64, 300), mode=MODE)
        again()
    assert len(tried) == 1
    assert tried[0] > 2


def test_another_kernel_is_tried_for_itself(tried: list[int]) -> None:
    for width in (300, 500):
        check(lambda x: torch.softmax(x, -1), torch.randn(64, width), mode=MODE)
        again()
    assert len(tried) == 2


def test_without_a_device_the_cost_model_compares_and_nothing_is_compiled_but_the_winner(tried: list[int]) -> None:
    compiled = []
    original = NpuAutotuner._precompile_config

    def counting(self: NpuAutotuner, config: object) -> object:
        compiled.append(config)
        return original(self, config)

    with pytest.MonkeyPatch.context() as patch, inductor_npu.config.patch(tune_by="model"):
        patch.setattr(NpuAutotuner, "_precompile_config", counting)
        check(lambda x: torch.softmax(x, -1), torch.randn(64, 300), mode=MODE)
    assert tried[0] > 2
    assert len(compiled) == 1


@pytest.mark.parametrize("number", range(1, 8, 2))
@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (lambda x: torch.softmax(x, -1), (12, 600)),
        (lambda x: x.sum(0) * 2, (300, 70)),
        (lambda x: (x.t() + 1).contiguous(), (140, 96)),
        (lambda x: x.cumsum(-1), (40, 100)),
    ],
    ids=["softmax", "sum over rows", "transpose", "scan"],
)
def test_every_candidate_is_right(number: int, function: object, shape: tuple[int, ...]) -> None:
    def the_numberth(among: list[TilePlan], scores: list[float | None]) -> TilePlan:
        return among[number] if number < len(among) else among[0]

    with (
        pytest.MonkeyPatch.context() as patch,
        inductor_npu.config.patch(tune_by="model"),
        torch._inductor.config.patch(force_disable_caches=True),
    ):
        patch.setattr(tuning, "nearest", the_numberth)
        check(function, torch.randn(shape), mode=MODE)


def test_a_setting_that_is_neither_is_an_error_that_says_what_it_may_be() -> None:
    with (
        inductor_npu.config.patch(tune_by="luck"),
        pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match=r"INDUCTOR_NPU_TUNE_BY='luck'.*time or model"),
    ):
        check(lambda x: x.sin() * 2, torch.randn(64, 300), mode=MODE)


def tile(block: int) -> TilePlan:
    return TilePlan(("x",), {"x": block}, ())


def test_of_nearly_equal_tiles_the_first_is_taken() -> None:
    among = [tile(1024), tile(2048), tile(512)]
    assert tuning.nearest(among, [1.04, 1.0, 1.01]) == among[0]
    assert tuning.nearest(among, [1.2, 1.03, 1.0]) == among[1]


def test_a_tile_without_a_kernel_is_not_taken_and_the_default_is_where_there_is_no_other() -> None:
    among = [tile(1024), tile(2048)]
    assert tuning.nearest(among, [2.0, None]) == among[0]
    assert tuning.nearest(among, [None, 2.0]) == among[1]
    assert tuning.nearest(among, [None, None]) == among[0]


def test_products_are_tuned(tried: list[int]) -> None:
    for _ in range(2):
        check(lambda x, w: torch.relu(x @ w), torch.rand(130, 200), torch.rand(200, 96), mode=MODE)
        again()
    assert len(tried) == 1
    assert tried[0] > 2
