"""The short path from arguments to a launch, and what makes a launch take the long one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import triton

from inductor_npu.runtime.autotuner import NpuAutotuner


@pytest.fixture
def compiled() -> Iterator[tuple[object, torch.Tensor, NpuAutotuner]]:
    """A compiled function with one kernel, its argument, and that kernel, launched until it takes the short path."""
    kernels: list[NpuAutotuner] = []
    original = NpuAutotuner.__init__

    def remember(self: NpuAutotuner, *args: object, **kwargs: object) -> None:
        original(self, *args, **kwargs)
        kernels.append(self)

    torch._dynamo.reset()
    with pytest.MonkeyPatch.context() as patch, torch._inductor.config.patch(force_disable_caches=True):
        patch.setattr(NpuAutotuner, "__init__", remember)
        fn, x = torch.compile(lambda x: x * 2 + 1), torch.randn(100).to("npu")
        fn(x)
        yield fn, x, kernels[-1]


def test_first_launch_installs_the_short_path(compiled: tuple) -> None:
    fn, x, kernel = compiled
    assert "run" in vars(kernel)
    torch.testing.assert_close(fn(x).cpu(), x.cpu() * 2 + 1)


def test_a_profiler_takes_the_long_way(compiled: tuple) -> None:
    fn, x, _ = compiled
    with torch.profiler.profile() as profile:
        fn(x)
        torch.npu.synchronize()
    assert any("triton_poi" in event.key for event in profile.key_averages())


@pytest.mark.skipif(not hasattr(triton, "knobs"), reason="this Triton has no hook objects")
def test_a_launch_hook_added_later_is_called(compiled: tuple) -> None:
    fn, x, _ = compiled
    seen: list[object] = []
    triton.knobs.runtime.launch_enter_hook.add(seen.append)
    try:
        fn(x)
    finally:
        triton.knobs.runtime.launch_enter_hook.remove(seen.append)
    fn(x)
    assert len(seen) == 1


def test_values_do_not_depend_on_the_path(compiled: tuple) -> None:
    fn, x, kernel = compiled
    short = fn(x).cpu()
    del kernel.run
    assert torch.equal(fn(x).cpu(), short)
