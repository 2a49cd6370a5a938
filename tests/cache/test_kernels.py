"""Compiled kernels in the cache: found again without a compiler, right, and never found when anything changed."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import triton
from torch._dynamo.utils import counters
from torch._inductor import config as inductor_config

from inductor_npu import config
from inductor_npu.cache import kernels
from inductor_npu.cache.kernel_key import key_of
from inductor_npu.cache.location import kernel_store
from inductor_npu.errors import CacheMissError, CacheSettingError, NpuWarning
from inductor_npu.runtime.autotuner import NpuAutotuner
from inductor_npu.simulator.triton_backend.launch_record import record
from tests.cache.conftest import forget
from tests.cache.programs import X, must_hit, run, softmax
from tests.compile.test_user_kernels import _square

pytestmark = pytest.mark.compiled

Caches = Path


# ---- found again


def test_a_second_time_neither_triton_nor_llvm_run(own_caches: Caches, no_compiler: Callable[[], None]) -> None:
    assert run(softmax, X) == {"miss": 1}
    no_compiler()
    assert run(softmax, X) == {"hit": 1}


def test_a_graph_generated_again_finds_its_kernels(
    own_caches: Caches, graphs_anew: None, no_compiler: Callable[[], None]
) -> None:
    run(softmax, X)
    no_compiler()
    assert run(softmax, X) == {"hit": 1}


def test_training_and_dynamic_shapes_are_found_again(
    own_caches: Caches, graphs_anew: None, no_compiler: Callable[[], None]
) -> None:
    def gradient(x: torch.Tensor) -> torch.Tensor:
        x = x.detach().requires_grad_()
        torch.nn.functional.gelu(x).square().sum().backward()
        assert x.grad is not None
        return x.grad

    def step(x: torch.Tensor) -> torch.Tensor:
        x = x.detach().requires_grad_()
        y = torch.compile(lambda x: torch.nn.functional.gelu(x).square().sum(), dynamic=True)(x)
        y.backward()
        assert x.grad is not None
        return x.grad.cpu()

    expected = gradient(X)
    for expected_counts in ("miss", "hit"):
        forget()
        torch.testing.assert_close(step(X.to("npu")), expected)
        assert set(counters[kernels.COUNTERS]) == {expected_counts}
        no_compiler()


def test_blocks_chosen_by_timing_are_kept(
    own_caches: Caches, graphs_anew: None, no_compiler: Callable[[], None]
) -> None:
    def squared(x: torch.Tensor) -> torch.Tensor:
        y = torch.empty_like(x)
        _square[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, x.numel())  # two sizes to choose from
        return y

    x = torch.linspace(-1, 1, 5000)
    for expected in ({"miss": 1}, {"hit": 1}):
        forget()
        compiled = torch.compile(squared, fullgraph=True)
        torch.testing.assert_close(compiled(x.to("npu")).cpu(), x * x)
        assert counters[kernels.COUNTERS] == expected
        no_compiler()


def test_a_kernel_found_again_can_be_compiled_for_other_blocks(own_caches: Caches, graphs_anew: None) -> None:
    """As a launch over the grid limit does: then the source is loaded after all."""
    run(softmax, X)
    found: list[NpuAutotuner] = []
    original = kernels._find

    def find(*args: object) -> object:
        found.append(original(*args))
        return found[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "_find", find)
        run(softmax, X)
    (kernel,) = found
    assert kernel.fn.fn is None
    blocks = kernel.launchers[0].config
    assert kernel._precompile_config(blocks).config.kwargs == blocks.kwargs
    assert kernel.fn.fn is not None


def test_profilers_and_launch_hooks_work_on_it(own_caches: Caches) -> None:
    run(softmax, X)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        assert run(softmax, X) == {"hit": 1}
    assert any("softmax" in event.key and event.key.startswith("triton") for event in profile.key_averages())


# ---- found by other graphs


def _train(layers: int) -> dict[str, int]:
    """Kernels compiled and found for a training step of a model of `layers` layers alike."""
    forget()
    layer = [torch.nn.Linear(32, 32), torch.nn.GELU(), torch.nn.LayerNorm(32)]
    model = torch.nn.Sequential(*(copy.deepcopy(module) for _ in range(layers) for module in layer)).to("npu")
    torch.compile(model)(torch.ones(16, 32, device="npu")).tanh().sum().backward()
    torch.npu.synchronize()
    return dict(counters[kernels.COUNTERS])


@pytest.mark.slow
def test_another_layer_like_the_last_costs_no_kernel(own_caches: Caches) -> None:
    compiled = _train(2)["miss"]
    assert _train(3) == {"hit": compiled}


def test_a_kernel_that_is_the_second_of_another_graph_is_found(own_caches: Caches) -> None:
    """Its number in that graph is another one: it is called as that graph calls it."""

    def second(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return softmax(x.sin() @ weight)

    def only(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return softmax(x @ weight)

    def names(function: Callable[..., torch.Tensor]) -> list[str]:
        with record() as launches:
            run(function, X, torch.eye(33))
        return [launch.name for launch in launches]

    with config.patch(templates="none"):
        (name,) = names(only)
        others = names(second)
    assert name.endswith("_0")
    assert others == ["triton_poi_fused_sin_0", f"{name[:-1]}1"]
    assert counters[kernels.COUNTERS] == {"miss": 1, "hit": 1}


def test_a_name_that_means_something_is_none_to_leave_out() -> None:
    """Two kernels of users that differ in which function they call, not in what they are called."""
    sources = [f"\n@jit\ndef {name}(x):\n    return tl.{name}(x)\n" for name in ("exp", "log")]
    assert len({key_of(name, source).digest for name, source in zip(("exp", "log"), sources, strict=True)}) == 2


# ---- not found


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("compiler", "inductor_npu.simulator.triton_backend.compiler.NpuBackend.hash"),
        ("device functions", "inductor_npu.identity.device_functions_identity"),
        ("launching", "inductor_npu.identity.launching_identity"),
    ],
)
def test_what_changed_is_compiled_again(
    field: str, change: str, own_caches: Caches, graphs_anew: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from inductor_npu.cache import kernel_key

    run(softmax, X)
    (before,) = [entry.key for _, entry in kernel_store().entries()]
    monkeypatch.setattr(change, lambda *args: "another")
    monkeypatch.setattr(kernel_key, "_versions", kernel_key._versions.__wrapped__)
    assert run(softmax, X) == {"miss": 1}
    (after,) = [entry.key for _, entry in kernel_store().entries() if entry.key.digest != before.digest]
    assert field in before.differences(after)
    assert set(before.differences(after)) <= {field, "source"}  # the backend's hash is in a kernel's source too


def test_kernels_that_count_are_others(own_caches: Caches, monkeypatch: pytest.MonkeyPatch) -> None:
    run(softmax, X)
    monkeypatch.setenv("INDUCTOR_NPU_RECORD", "1")
    assert run(softmax, X) == {"miss": 1}


def test_a_damaged_entry_is_compiled_again_with_a_warning(own_caches: Caches) -> None:
    run(softmax, X)
    (listed,) = kernel_store().listed()
    listed.path.write_bytes(listed.path.read_bytes()[:-100])
    with pytest.warns(NpuWarning, match="compiled again"):
        assert run(softmax, X) == {"miss": 1}
    assert run(softmax, X) == {"hit": 1}


def test_an_entry_that_cannot_be_loaded_is_compiled_again(own_caches: Caches) -> None:
    from inductor_npu.cache.entry import Entry

    run(softmax, X)
    ((_, entry),) = kernel_store().entries()
    assert isinstance(entry, Entry)
    kernel_store().write(Entry(entry.key, b"no pickle", entry.about))
    with pytest.warns(NpuWarning, match="UnpicklingError"):
        assert run(softmax, X) == {"miss": 1}
    assert run(softmax, X) == {"hit": 1}


# ---- switches


def test_inductors_switch_for_all_caches_counts(own_caches: Caches) -> None:
    with inductor_config.patch(force_disable_caches=True):
        assert run(softmax, X) == {"unused": 1}
    assert not kernel_store().folder.exists()


def test_off_is_off(own_caches: Caches) -> None:
    with config.patch(cache="off"):
        assert run(softmax, X) == {"unused": 1}
    assert not kernel_store().folder.exists()


def test_an_unknown_setting_is_an_error() -> None:
    with config.patch(cache="sometimes"), pytest.raises(CacheSettingError, match="on, off or must-hit"):
        kernels.mode()


def test_the_folder_is_where_the_variables_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INDUCTOR_NPU_CACHE_DIR", raising=False)
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "first")
    assert kernel_store().folder == Path("first/inductor_npu/entries")
    monkeypatch.setenv("INDUCTOR_NPU_CACHE_DIR", "elsewhere")
    assert kernel_store().folder == Path("elsewhere/entries")
    monkeypatch.delenv("INDUCTOR_NPU_CACHE_DIR")
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "third")
    assert kernel_store().folder == Path("third/inductor_npu/entries")


# ---- must hit


def test_must_hit_is_content_with_hits(own_caches: Caches) -> None:
    assert "has no kernel at all" in must_hit()
    run(softmax, X)
    assert must_hit() == ""


def test_must_hit_names_a_knob_that_differs(own_caches: Caches) -> None:
    run(softmax, X)
    with config.patch(strict=not config.strict):
        assert f"config.strict ({config.strict} here, {not config.strict} there)" in must_hit()


def test_must_hit_names_a_changed_compiler(own_caches: Caches, monkeypatch: pytest.MonkeyPatch) -> None:
    run(softmax, X)
    monkeypatch.setenv("INDUCTOR_NPU_RECORD", "1")
    told = must_hit()
    assert "INDUCTOR_NPU_RECORD (1 here, 0 there)" in told
    assert "config." not in told


def test_must_hit_tells_a_graph_from_its_kernels(own_caches: Caches, graphs_anew: None) -> None:
    run(softmax, X)
    assert "the kernel itself is in" in must_hit()


def test_must_hit_does_not_go_with_disabled_caches(own_caches: Caches) -> None:
    run(softmax, X)
    with inductor_config.patch(force_disable_caches=True):
        assert "TORCHINDUCTOR_FORCE_DISABLE_CACHES=1" in must_hit()


def test_a_missing_kernel_of_a_known_graph_is_an_error_too(own_caches: Caches) -> None:
    run(softmax, X)
    kernel_store().clear()
    assert "has no kernel at all" in must_hit()


def test_the_error_is_one_of_ours() -> None:
    assert "must-hit" in str(CacheMissError(what="a", why="b"))
