"""The driver that Triton sees: loading, launching, refusing what does not fit."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from torch._inductor.utils import get_gpu_dram_gbps
from triton.runtime.driver import driver as triton_driver

from inductor_npu import providers
from inductor_npu.simulator.triton_backend.driver import NpuDriver
from inductor_npu.simulator.triton_backend.errors import UnifiedBufferExceededError
from inductor_npu.simulator.triton_backend.kernel_file import DamagedKernelError, KernelFile
from inductor_npu.simulator.triton_backend.object_code import compile_object
from inductor_npu.triton_npu.launcher import make_launcher
from tests.processes import run_forked

# Adds 1 to element `program` of the only argument.
ADD_ONE = """
define i32 @add_one(ptr %args, i64 %begin, i64 %end, ptr %grid, ptr %scratch, ptr %context) {
entry:
  %data = load ptr, ptr %args
  br label %program
program:
  %i = phi i64 [%begin, %entry], [%next, %program]
  %at = getelementptr float, ptr %data, i64 %i
  %old = load float, ptr %at
  %new = fadd float %old, 1.0
  store float %new, ptr %at
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %program, label %done
done:
  ret i32 0
}
"""


@pytest.fixture
def active() -> NpuDriver:
    assert isinstance(triton_driver.active, NpuDriver)
    return triton_driver.active


def source(**signature: object) -> SimpleNamespace:
    return SimpleNamespace(signature=signature, constants={}, fn=SimpleNamespace(arg_names=list(signature)))


# ---- which device


def test_triton_finds_one_active_driver(active: NpuDriver) -> None:
    target = active.get_current_target()
    assert (target.backend, target.arch) == ("npu", "Ascend910B3")
    assert active.get_active_torch_device() == torch.device("npu", 0)
    assert active.get_device_interface() is torch.npu


def test_a_process_without_the_embedded_npu_has_no_such_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    for provider in ("none", "no such provider"):
        monkeypatch.setenv("INDUCTOR_NPU_PROVIDER", provider)
        assert not NpuDriver.is_active()


def test_the_current_device_and_stream_follow_torch(active: NpuDriver) -> None:
    assert active.get_current_device() == torch.npu.current_device()
    default = active.get_current_stream(0)
    with torch.npu.stream(torch.npu.Stream()):
        assert active.get_current_stream(0) != default
    assert active.get_current_stream(0) == default


@pytest.mark.skipif(not hasattr(triton, "knobs"), reason="this Triton's testing asks torch.cuda for the clock")
def test_inductor_knows_the_bandwidth_of_the_targets_memory(active: NpuDriver) -> None:
    """Without it Inductor takes each kernel to last no time, and overlaps nothing with it."""
    target = providers.current_target()
    bandwidth = target.device_bytes_per_cycle * target.vector_cores * target.clock
    assert get_gpu_dram_gbps() == pytest.approx(bandwidth / 1e9, rel=1e-3)


def test_making_a_driver_does_not_open_the_device() -> None:
    check = (
        "import torch\n"
        "from triton.runtime.driver import driver\n"
        "assert driver.active.get_current_target().backend == 'npu'\n"
        "assert driver.active.utils.get_device_properties(0)['max_shared_mem'] == 192 * 1024\n"
        "assert not torch.npu.is_initialized()\n"
    )
    assert run_forked(check).lines() == []


# ---- loading and launching


def test_a_loaded_function_runs(active: NpuDriver) -> None:
    kernel = KernelFile(compile_object(ADD_ONE, 2), "add_one", 0, 1, ()).pack()
    module, function, *_ = active.utils.load_binary("add_one", kernel, 0, 0)
    assert module
    launch = active.launcher_cls(source(x="*fp32"), footprint("add_one"))
    x = torch.arange(1000, dtype=torch.float32, device="npu")
    launch(10, 10, 10, active.get_current_stream(0), function, None, None, None, None, x)
    assert torch.equal(x.cpu(), torch.arange(1000) + 1.0)


def test_a_damaged_kernel_says_what_to_do(active: NpuDriver) -> None:
    with pytest.raises(DamagedKernelError, match=r"kernel k cannot be loaded.*Triton's cache directory"):
        active.utils.load_binary("k", b"garbage", 0, 0)


def footprint(name: str = "k", **given: Any) -> SimpleNamespace:
    """The metadata of a compiled kernel that say what it needs on chip."""
    tiles: dict[str, Any] = {"largest_tiles": [], "largest_in_l1": [], "largest_in_l0c": []}
    return SimpleNamespace(**{"name": name, "shared": 0, "l1": 0, "l0c": 0, "rows_shared": False, **tiles, **given})


@pytest.mark.parametrize(
    ("bytes_of", "tiles_of", "what"),
    [
        ({"shared": 196609}, "largest_tiles", "the Unified Buffer of .* Use smaller block sizes"),
        ({"shared": 196609, "rows_shared": True}, "largest_tiles", "has its share of the rows"),
        ({"l1": 524289}, "largest_in_l1", "L1, the buffer of dot operands, of .* Use a smaller block along K"),
        ({"l0c": 131073}, "largest_in_l0c", "L0C of .* Use smaller block sizes"),
    ],
)
def test_a_kernel_that_does_not_fit_is_refused(
    active: NpuDriver, bytes_of: dict[str, int], tiles_of: str, what: str
) -> None:
    metadata = footprint(**bytes_of, **{tiles_of: [[196609, "tensor<9xf32>", "k.py:1:2"]]})
    with pytest.raises(UnifiedBufferExceededError, match=what) as caught:
        active.launcher_cls(source(x="*fp32"), metadata)
    assert "196609 bytes  tensor<9xf32>  k.py:1:2" in str(caught.value)


def test_a_kernel_that_fits_exactly_is_accepted(active: NpuDriver) -> None:
    assert active.launcher_cls(source(x="*fp32"), footprint(shared=196608, l1=524288, l0c=131072))


# ---- signatures


def letters(described: SimpleNamespace) -> str:
    seen: list[str] = []
    make_launcher(lambda signature: seen.append(signature), described)
    return seen[0]


def test_every_type_has_a_letter() -> None:
    described = source(
        a="*fp16", b="i1", c="i8", d="i16", e="i32", f="i64", g="u8", h="u16", i="u32", j="u64",
        k="fp16", l="bf16", m="fp32", n="fp64", o="constexpr",
    )  # fmt: skip
    assert letters(described) == "pbchilCHILeyfd-"


def test_constants_are_skipped() -> None:
    described = source(x="*fp32", n="i32", block="constexpr")
    described.constants = {(1,): 1, (2,): 128}
    assert letters(described) == "p--"


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(TypeError, match="nvTmaDesc cannot be passed"):
        letters(source(x="nvTmaDesc"))


def test_tuples_are_taken_apart() -> None:
    calls: list[tuple] = []
    described = source(x="*fp32", pair=("i32", ("fp32", "constexpr")), n="i64")
    launch = make_launcher(lambda signature: lambda *args: calls.append((signature, args[9:])), described)
    launch(1, 1, 1, 0, 0, None, None, None, None, "x", (5, (2.5, 7)), 9)
    assert calls == [("pif-l", ("x", 5, 2.5, 7, 9))]


def test_tensor_descriptors_are_taken_apart() -> None:
    calls: list[tuple] = []
    described = source(d="tensordesc<fp16[64, 32]>", n="i32")
    launch = make_launcher(lambda signature: lambda *args: calls.append((signature, args[9:])), described)
    descriptor = SimpleNamespace(base="base", shape=[100, 50], strides=[50, 1], padding="zero")
    launch(1, 1, 1, 0, 0, None, None, None, None, descriptor, 3)
    assert calls == [("pllllblllli", ("base", 100, 50, 50, 1, False, 100, 50, 50, 1, 3))]


# ---- whole kernels


@triton.jit
def scale(x_ptr, y_ptr, factor, count, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < count)
    y = tl.load(y_ptr + offsets, mask=offsets < count)
    tl.store(y_ptr + offsets, x * factor + y, mask=offsets < count)


def test_a_kernel_over_the_unified_buffer_names_its_tiles() -> None:
    x = torch.zeros(1 << 16, device="npu")
    with pytest.raises(UnifiedBufferExceededError) as caught:
        scale[(1,)](x, x, 2.0, x.numel(), BLOCK=1 << 16)
    text = str(caught.value)
    assert "kernel scale" in text and "196608 bytes" in text and "tensor<65536xf32>" in text
    assert "test_driver.py" in text, "the largest tiles are named with their lines"


def test_an_autotuner_skips_what_does_not_fit() -> None:
    configs = [triton.Config({"BLOCK": block}) for block in (1 << 17, 256)]
    tuned = triton.autotune(configs=configs, key=["count"])(scale)
    x = torch.ones(1000, device="npu")
    y = torch.zeros(1000, device="npu")
    tuned[lambda meta: (triton.cdiv(1000, meta["BLOCK"]),)](x, y, 2.0, 1000)
    assert tuned.best_config.kwargs["BLOCK"] == 256
    y.zero_()
    tuned[lambda meta: (triton.cdiv(1000, meta["BLOCK"]),)](x, y, 2.0, 1000)
    assert torch.equal(y.cpu(), torch.full((1000,), 2.0))


def test_tritons_benchmark_runs(active: NpuDriver) -> None:
    x = torch.ones(1000, device="npu")
    assert triton.testing.do_bench(lambda: x.add_(1), warmup=1, rep=2) > 0


@pytest.mark.budget
def test_a_launch_from_python_costs_little_more_than_tritons_own_python() -> None:
    """docs/benchmarks.md has the time (about 5 us); here it is compared with Python's own speed on this machine."""
    x, y = torch.ones(64, device="npu"), torch.ones(64, device="npu")
    kernel = scale[(1,)]

    def microseconds(work: Callable[[], object], times: int = 200) -> float:
        start = time.perf_counter()
        for _ in range(times):
            work()
        elapsed = time.perf_counter() - start
        torch.npu.synchronize()
        return elapsed / times * 1e6

    def launch() -> None:
        kernel(x, y, 2.0, 64, BLOCK=64)

    def python() -> str:
        return "".join([str(number) for number in range(32)])

    launch()
    ratios = [microseconds(launch) / microseconds(python) for _ in range(50)]
    assert min(ratios) < 5
