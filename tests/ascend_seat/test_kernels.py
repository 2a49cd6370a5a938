"""Kernels of ours, and of users, through Ascend's compiler onto torch_npu's streams."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch._inductor import config as inductor_config
from torch._inductor.utils import fresh_cache

from inductor_npu.cache import kernels
from inductor_npu.cache.store import Entry
from inductor_npu.runtime.autotuner import NpuAutotuner
from tests.ascend_seat.processes import run


@triton.autotune(configs=[triton.Config({"BLOCK": size}) for size in (65536, 1024)], key=["n"])
@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) + tl.load(y + i, i < n), i < n)


def added(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    add[lambda blocks: (triton.cdiv(x.numel(), blocks["BLOCK"]),)](x, y, out, x.numel())
    return out


@pytest.mark.parametrize("compiled", [False, True], ids=["by itself", "in a graph"])
def test_a_users_autotuner_skips_what_does_not_fit(
    compiled: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INDUCTOR_NPU_CACHE", "off")  # what is found there is not compiled
    x, y = torch.randn(2, 5000)
    function = torch.compile(added) if compiled else added
    assert torch.equal(function(x.npu(), y.npu()).cpu(), x + y)
    assert "Triton compilation failed" not in caplog.text


@triton.jit
def scale(x, out, n, factor, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) * factor, i < n)


def scaled(x: torch.Tensor, factor: float) -> torch.Tensor:
    out = torch.empty_like(x)
    scale[(1,)](x, out, x.numel(), factor, BLOCK=1024)
    return out


def test_numbers_that_are_no_integers_are_float32() -> None:
    """Inductor would pass them as float64, which Ascend's compiler does not take."""
    x = torch.randn(1000)
    assert torch.equal(torch.compile(scaled, fullgraph=True)(x.npu(), 2.5).cpu(), x * 2.5)
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        got = torch.compile(lambda a: a * a.sum().item(), fullgraph=True)(x.npu())
    torch.testing.assert_close(got.cpu(), x * x.sum().item())


@triton.jit
def scale_in_float64(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, (tl.load(x + i, i < n).to(tl.float64) * 0.1).to(tl.float32), i < n)


def test_what_the_compiler_refuses_is_one_line_with_its_words() -> None:
    def refused(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        scale_in_float64[(1,)](x, out, x.numel(), BLOCK=1024)
        return out

    with pytest.raises(Exception, match=r"scale_in_float64: .*unsupported datatype") as raised:
        torch.compile(refused, fullgraph=True)(torch.randn(1000).npu())
    (line,) = [line for line in str(raised.value).splitlines() if "scale_in_float64" in line]
    assert "AscendRefusalError" in line and "inductor-npu check" in line


def test_no_launcher_is_compiled_for_a_signature(capfd: pytest.CaptureFixture[str]) -> None:
    """Ascend's Triton takes a C++ compiler 6 to 10 s for each, prints that it does, and keeps the sources."""
    x = torch.randn(300)
    with fresh_cache():
        function = torch.compile(lambda a, b: a * b + 2.5, dynamic=True)
        for scale in (3.0, 4.0):
            torch.testing.assert_close(function(x.npu(), scale).cpu(), x * scale + 2.5)
        assert not list(Path(os.environ["TRITON_CACHE_DIR"]).rglob("launcher_*"))
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("queue", ["0", "1", "2"])
def test_launches_are_in_order_with_eager_operators(queue: str) -> None:
    """However torch_npu queues its operators, and on the device's streams, which begin their work late here."""
    finished = run(
        """
import torch
function = torch.compile(lambda a: a * 2 + 1)
a = b = torch.ones(300)
a = a.npu()
for _ in range(5):
    a, b = function(a) * 3, (b * 2 + 1) * 3
stream = torch.npu.Stream()
with torch.npu.stream(stream):
    c = function(a)
torch.npu.current_stream().wait_stream(stream)
d = function(c.to("npu:1"))
print(torch.equal(a.cpu(), b), torch.equal(d.cpu(), (b * 2 + 1) * 2 + 1))
""",
        TASK_QUEUE_ENABLE=queue,
    )
    assert finished.lines() == ["True True"]


def test_a_kernel_that_does_not_fit_is_planned_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Where the check of the Unified Buffer is wrong, the compiler is right."""
    precompile = NpuAutotuner._precompile_config
    blocks: list[int] = []

    def too_large_at_first(self: NpuAutotuner, cfg: triton.Config, **named: object) -> object:
        if not blocks:
            cfg.kwargs["XBLOCK"] = 65536
        blocks.append(cfg.kwargs["XBLOCK"])
        return precompile(self, cfg, **named)

    monkeypatch.setattr(NpuAutotuner, "_precompile_config", too_large_at_first)
    x = torch.randn(100_000)
    with fresh_cache():
        got = torch.compile(lambda a: F.gelu(a) + a * 2)(x.npu())
    torch.testing.assert_close(got.cpu(), F.gelu(x) + x * 2)
    assert len(blocks) == 2 and 256 <= blocks[1] < 65536  # planned again
    assert "Triton compilation failed" not in caplog.text


def six_kernels(a: torch.Tensor) -> list[torch.Tensor]:
    results = []
    for i in range(3):
        a = F.layer_norm(a.softmax(-1) * (i + 1), (a.shape[-1],)) @ torch.eye(70, device=a.device)
        results.append(a.sum(0))
    return results


def test_forked_processes_compile_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """CANN is closed to them; what they compile, this process loads."""
    found: list[bool] = []
    find = kernels._is_from_child

    def is_from_child(entry: Entry) -> bool:
        found.append(find(entry))
        return found[-1]

    monkeypatch.setattr(kernels, "_is_from_child", is_from_child)
    x = torch.randn(33, 70)
    with fresh_cache(), inductor_config.patch(compile_threads=3):
        got = torch.compile(six_kernels)(x.npu())
        for part, wanted in zip(got, six_kernels(x), strict=True):
            torch.testing.assert_close(part.cpu(), wanted)
    assert any(found)
