"""The modes and switches of torch.compile: what each does on npu, and what is said where one does nothing yet."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path

import pytest
import torch

import inductor_npu.config
from inductor_npu.errors import NpuWarning
from tests.compile.helpers import check, code_of
from tests.processes import run_forked


def _fused(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x * 2, -1) + x.sum(0)


@pytest.mark.slow
def test_max_autotune_tries_several_blocks_and_keeps_one() -> None:
    from inductor_npu.runtime.autotuner import NpuAutotuner

    tried = []
    original = NpuAutotuner._precompile_config

    def counting(self: NpuAutotuner, config: object) -> object:
        tried.append(config)
        return original(self, config)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NpuAutotuner, "_precompile_config", counting)
        check(_fused, torch.randn(64, 300), mode="max-autotune-no-cudagraphs")
    assert len(tried) > 2


def test_by_default_nothing_is_timed() -> None:
    from torch._dynamo.utils import counters

    counters.clear()
    check(_fused, torch.randn(64, 300))
    assert not any("benchmark" in name for name in counters["inductor"])


def test_reduce_overhead_says_nothing() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check(_fused, torch.randn(8, 30), mode="reduce-overhead")
    assert [str(w.message) for w in caught if issubclass(w.category, NpuWarning)] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "knobs",
    [
        {},
        {"combo_kernels_autotune": 0},
        {"combo_kernel_per_subkernel_blocks": True},
        {"benchmark_combo_kernel": True},
    ],
    ids=str,
)
def test_independent_loops_in_one_kernel_on_request(knobs: dict[str, object]) -> None:
    def independent(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return a * 2 + 1, torch.softmax(b, -1), c.sin(), (a.t() + 1).contiguous(), b.amax(0)

    inputs = torch.randn(64, 33), torch.randn(20, 100), torch.randn(1024)
    with torch._inductor.config.patch(combo_kernels=True, **knobs):
        check(independent, *inputs)
        assert any(
            "@triton_heuristics.foreach" in source for source in code_of(independent, *[x.to("npu") for x in inputs])
        )


@pytest.mark.parametrize(
    "knobs",
    [
        {"triton.force_cooperative_reductions": True},
        {"triton.multi_kernel": 1},
        {"triton.prefer_nd_tiling": True, "triton.tile_reductions": True},
        {"triton.use_block_ptr": True},
        {"deterministic": True},
    ],
    ids=str,
)
def test_knobs_for_the_shape_of_kernels(knobs: dict[str, object]) -> None:
    with torch._inductor.config.patch(knobs):
        check(lambda x: (torch.softmax(x, -1), x.sum(), x.t().contiguous() * 2), torch.randn(70, 3000))


def test_output_code_is_logged() -> None:
    lines = run_forked(
        """
        import torch
        torch.compile(lambda x: x * 2 + 1)(torch.ones(10).to("npu"))
        """,
        TORCH_LOGS="output_code",
        INDUCTOR_NPU_STRICT="1",
    )
    assert lines.returncode == 0, lines.stderr
    assert "@triton.jit" in lines.stderr
    assert "inductor_npu.runtime" in lines.stderr


@pytest.mark.slow
def test_compile_debug_writes_its_files(tmp_path: Path) -> None:
    finished = run_forked(
        """
        import torch, torch._inductor.config
        with torch._inductor.config.patch(force_disable_caches=True):
            torch.compile(lambda x: x * 2 + 1)(torch.ones(10).to("npu"))
        """,
        TORCH_COMPILE_DEBUG="1",
        TORCH_COMPILE_DEBUG_DIR=str(tmp_path),
        INDUCTOR_NPU_STRICT="1",
    )
    assert finished.returncode == 0, finished.stderr
    assert list(tmp_path.rglob("output_code.py"))


@pytest.mark.embedded
def test_a_changed_knob_changes_the_tile() -> None:
    x = torch.randn(100_000).to("npu")
    with inductor_npu.config.patch(pointwise_tile=2048):
        (source,) = code_of(lambda x: x * 2, x)
    assert "'npu_blocks': {'XBLOCK': 2048}" in source


@pytest.mark.skipif(torch.version.cuda is not None, reason="GPUs, which this torch is built for, use the pool")
def test_one_kernel_is_compiled_in_this_process() -> None:
    from torch._inductor.async_compile import AsyncCompile

    AsyncCompile.process_pool.cache_clear()
    check(_fused, torch.randn(16, 40))
    assert AsyncCompile.process_pool.cache_info().currsize == 0, "a pool of worker processes was started"


def test_logging_stays_as_the_user_set_it() -> None:
    before = logging.getLogger().level
    check(lambda x: x + 1, torch.randn(4))
    assert logging.getLogger().level == before
