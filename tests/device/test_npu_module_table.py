"""docs/torch-npu-module.md: no name of torch.cuda or torch_npu is silently missing in torch.npu."""

from __future__ import annotations

import pytest
import torch

from inductor_npu.device.npu import absent
from tools import torch_npu_module as module


@pytest.mark.parametrize("name", sorted(module.OF_CUDA | module.OF_TORCH_NPU))
def test_each_name_is_there_or_says_why_not(name: str) -> None:
    if name in absent.REASONS:
        assert not hasattr(torch.npu, name)
        with pytest.raises(AttributeError, match=f"no attribute '{name}': .+"):
            getattr(torch.npu, name)
    else:
        assert module.has(name)


def test_the_names_of_this_torch_are_known() -> None:
    assert {*torch.cuda.__all__, *torch.cuda.memory.__all__} - module.OF_CUDA == set()


def test_no_reason_is_given_for_what_nobody_has() -> None:
    assert absent.REASONS.keys() - (module.OF_CUDA | module.OF_TORCH_NPU) == set()


def test_the_page_is_true() -> None:
    assert module.PAGE.read_text() == module.page(), "write it anew: python -m tools.torch_npu_module"
