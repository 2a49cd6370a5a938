"""KernelBench's problems are found, and their numbers cut down."""

from __future__ import annotations

from pathlib import Path

import pytest

from world.kernelbench import problems, scaling

PROBLEM = """
import torch
from torch import nn

batch_size, unused = 128, 0
features = 4096
num_groups = 64
kernel_size = 3

class Model(nn.Module):
    def __init__(self, features, groups):
        super().__init__()
        self.norm = nn.GroupNorm(groups, features)
        self.scale = 4096
    def forward(self, x):
        return self.norm(x)

batch_size = 128

def get_inputs():
    return [torch.rand(batch_size, features)]

def get_init_inputs():
    return [features, num_groups]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "KernelBench" / "level1").mkdir(parents=True)
    for name in ("2_Norm", "10_Norm"):
        (tmp_path / "KernelBench" / "level1" / f"{name}.py").write_text(PROBLEM)
    monkeypatch.setenv(problems.FOLDER_VARIABLE, str(tmp_path))
    return tmp_path


def test_problems_are_listed_by_number(folder: Path) -> None:
    assert problems.names() == ["level1/2_Norm", "level1/10_Norm"]


def test_sizes_are_cut_down_outside_of_the_model_alone(folder: Path) -> None:
    path = problems.path_of("level1/2_Norm")
    scale = scaling.fitting(path)
    module = problems.load(path, scale.rewrite)
    assert (module.batch_size, module.features, module.num_groups, module.kernel_size) == (4, 64, 8, 3)
    assert problems.inputs_of(module)[0].shape == (4, 64)
    assert problems.model_of(module).scale == 4096


@pytest.mark.parametrize(("value", "most", "smaller"), [(4096, 64, 64), (48, 64, 48), (96, 64, 48), (1023, 64, 63)])
def test_numbers_are_halved_and_stay_odd(value: int, most: int, smaller: int) -> None:
    halved = scaling.halved(value, most)
    assert (halved <= most and halved % 2 == value % 2) or halved == smaller


def test_where_there_are_none_the_error_says_how_to_get_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(problems.FOLDER_VARIABLE, str(tmp_path))
    with pytest.raises(FileNotFoundError, match="ScalingIntelligence/KernelBench"):
        problems.names()
