"""A package that several tests read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.export.models import Classifier, packaged_classifier


@pytest.fixture(scope="session")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> tuple[Classifier, Path]:
    """A model, and its package for batches of 1 to 64. Neither is to be changed."""
    return packaged_classifier(tmp_path_factory.mktemp("package"))
