"""What PyTorch itself does since which version: tests that show it are left out with older ones, and those of what
stands in for it with newer ones.
"""

from __future__ import annotations

import pytest
import torch
from torch.torch_version import TorchVersion

_TORCH = TorchVersion(torch.__version__)


def needs_torch(version: str, what: str) -> pytest.MarkDecorator:
    """Skips a test of `what` with a PyTorch before `version`."""
    return pytest.mark.skipif(version > _TORCH, reason=f"PyTorch before {version} {what}")


def before_torch(version: str, what: str) -> pytest.MarkDecorator:
    """Skips a test of what is there for PyTorch before `version` only, which does `what` itself."""
    return pytest.mark.skipif(version <= _TORCH, reason=f"PyTorch from {version} on {what}")
