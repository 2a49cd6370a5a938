"""Models that a package cannot hold: an error when it is made, with the operator and the user's line."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

import inductor_npu
from inductor_npu.errors import NoCompilerError, NoCppWrapperError, UnpackableError
from tests.export.models import Classifier

pytestmark = pytest.mark.compiled


class Branching(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))


class Custom(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.tests_export.twice(x) + 1


def line_of(function) -> int:
    return inspect.getsourcelines(function)[1] + 1


def test_control_flow(tmp_path: Path):
    with pytest.raises(UnpackableError, match=r"control flow, torch\.ops\.higher_order\.cond") as refused:
        inductor_npu.package(Branching(), (torch.randn(3),), path=tmp_path / "model.pt2")
    assert str(refused.value).endswith(f"({__file__}:{line_of(Branching.forward)})")
    assert not list(tmp_path.iterdir())


def test_operators_that_python_defines(tmp_path: Path):
    @torch.library.custom_op("tests_export::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    twice.register_fake(torch.empty_like)
    with pytest.raises(UnpackableError, match=r"it calls tests_export\.twice\.default") as refused:
        inductor_npu.package(Custom(), (torch.randn(3),), path=tmp_path / "model.pt2")
    assert str(refused.value).endswith(f"({__file__}:{line_of(Custom.forward)})")


def test_results_whose_type_a_file_cannot_name(tmp_path: Path):
    class Result(NamedTuple):
        sum: torch.Tensor

    class Summing(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Result:
            return Result(x.sum())

    with pytest.raises(UnpackableError, match=r"a type that a file cannot name: .*Result"):
        inductor_npu.package(Summing(), (torch.randn(3),), path=tmp_path / "model.pt2")


def test_without_a_linker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CXX", "/nonexistent")
    with pytest.raises(NoCompilerError):
        inductor_npu.package(Classifier().eval(), (torch.randn(4, 16),), path=tmp_path / "model.pt2")


def test_aotinductor_names_ours(tmp_path: Path):
    """torch's own packages need code in C++."""
    program = torch.export.export(torch.nn.Linear(4, 4).to("npu"), (torch.randn(2, 4, device="npu"),))
    with pytest.raises(Exception, match=r"inductor_npu\.package") as refused:
        torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "model.pt2"))
    assert NoCppWrapperError.__name__ in str(refused.value)
