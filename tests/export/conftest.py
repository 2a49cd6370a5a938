"""A package that several tests read."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import inductor_npu
from tests.export.models import Classifier


@pytest.fixture(scope="session")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> tuple[Classifier, Path]:
    """A model, and its package for batches of 1 to 64. Neither is to be changed."""
    torch.manual_seed(0)
    model = Classifier().eval()
    path = tmp_path_factory.mktemp("package") / "classifier.pt2"
    batch = torch.export.Dim("batch", min=1, max=64)
    inductor_npu.package(model, (torch.randn(4, 16),), path=path, dynamic_shapes=({0: batch},))
    return model, path
