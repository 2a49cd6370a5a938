"""Accuracy mode: a kernel that computes something else than its operators is named, and can be run again."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import inductor_npu.config
from inductor_npu.codegen.emit.overrides import NpuKernelOverrides
from inductor_npu.errors import AccuracyError
from tests.compile.helpers import check

pytestmark = pytest.mark.slow


@pytest.fixture
def accuracy_mode(tmp_path: Path) -> Iterator[Path]:
    """The folder that torch's debugging files go to."""
    torch._dynamo.reset()
    with inductor_npu.config.patch(accuracy=True), torch._dynamo.config.patch(debug_dir_root=str(tmp_path)):
        yield tmp_path
    torch._dynamo.reset()


def _network(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.layer_norm(x, (w.shape[0],), w).softmax(-1).var(0)


def _moves(x: torch.Tensor, index: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = torch.cat([x, x.flip(0)])
    y[1:3] = 5
    return y, x.index_add(0, index, x), torch.sort(x, dim=1)[1], x.argmax(1), x.cumsum(1)


def _half(x: torch.Tensor) -> torch.Tensor:
    return (x * 1.001 + x.exp()).sum(1)


def _sum_that_is_not_kept(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Its memory would be that of the first `cumsum`, but the kernel stores what follows from the sum alone."""
    summed = x.cumsum(0) + x.exp().cumsum(0) + x.sin().cumsum(0)
    masked = (summed < 0.5) * summed
    return masked * masked.mean(1, True), masked.cos() * masked.amax(1, True)


def test_right_kernels_are_left_alone(accuracy_mode: Path) -> None:
    x, w = torch.randn(7, 300, requires_grad=True), torch.randn(300, requires_grad=True)
    check(_network, x, w, backward=True)
    check(_moves, torch.randn(5, 60), torch.tensor([1, 0, 2, 2, 2]))
    check(_half, torch.randn(8, 500).half())
    check(_sum_that_is_not_kept, torch.randn(7, 300) / 8)
    assert list(accuracy_mode.iterdir()) == []


def test_the_first_kernel_that_differs_is_named(accuracy_mode: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NpuKernelOverrides, "tanh", staticmethod(lambda x: f"({x} * 0.999)"))
    x = torch.randn(40, 50).to("npu")

    def wrong(x: torch.Tensor) -> torch.Tensor:
        y = torch.exp(x).sum(1)
        return torch.tanh(y)  # the line to name

    with pytest.raises(AccuracyError) as raised:
        torch.compile(wrong)(x)
    fields = raised.value.fields
    assert "aten.tanh" in fields["operators"]
    assert "return torch.tanh(y)" in fields["lines"] and Path(__file__).name in fields["lines"]
    assert (fields["dtype"], fields["different"], fields["elements"]) == (torch.float32, 40, 40)
    folder = fields["folder"]
    assert folder.is_relative_to(accuracy_mode.resolve())
    done = subprocess.run(
        [sys.executable, folder / "reproduce.py"], capture_output=True, text=True, timeout=120, check=False
    )
    assert f"different={fields['different']}, elements=40" in done.stdout, done.stderr


def test_without_it_no_kernel_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    from inductor_npu.codegen.fallback import accuracy

    compared: list[object] = []
    monkeypatch.setattr(accuracy, "compare", lambda *args: compared.append(args))
    check(lambda x: torch.tanh(x) + 1, torch.randn(30))
    assert compared == []
