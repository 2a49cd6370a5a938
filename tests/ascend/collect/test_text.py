"""A kernel's text: complete by itself, and the same kernel."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from inductor_npu.ascend.collect.text import module_text
from inductor_npu.errors import UncollectableKernelError
from tests.ascend.collect import other_kernels
from tests.ascend.collect.other_kernels import through_helper

pytestmark = pytest.mark.compiled

SCALE = tl.constexpr(3)
OFFSET = tl.constexpr(-math.inf)
TYPE = tl.float32
SETTINGS = {"a": 1}


@triton.jit
def helper(x):
    return x * SCALE


@triton.jit
def kernel_of_helpers(source, target, N: tl.constexpr):
    i = tl.arange(0, N)
    ä = tl.load(source + i).to(TYPE)  # positions in a line count bytes, not letters
    own, other = helper(ä), other_kernels.helper(ä) + through_helper(ä)
    largest = tl.maximum(own + other, OFFSET) + other_kernels.SCALE
    tl.store(target + i, largest + math.pi * libdevice.exp(ä))


@triton.jit
def kernel_of_a_dictionary(target):
    tl.store(target, SETTINGS["a"])


def load(text: str, folder: Path) -> ModuleType:
    """The module that `text` is, loaded without anything of this one."""
    path = folder / "text.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location("text", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(kernel: Any) -> torch.Tensor:
    x = torch.linspace(-1, 1, 64, device="npu")
    out = torch.empty_like(x)
    kernel[(1,)](x, out, N=64)
    return out.cpu()


@pytest.mark.skipif(
    not hasattr(triton.runtime.jit, "get_full_name"),
    reason="this Triton takes functions of one name in two modules for the same function",
)
def test_a_kernel_with_helpers_constants_and_modules_is_the_same_kernel_elsewhere(tmp_path: Path):
    text = module_text(kernel_of_helpers)
    assert "other_kernels" not in text and "tests." not in text
    x = torch.linspace(-1, 1, 64)
    expected = 3 * x + 5 * x + (5 * x + 1) + 5 + math.pi * x.exp()
    torch.testing.assert_close(run(kernel_of_helpers), expected)
    assert torch.equal(run(load(text, tmp_path).kernel_of_helpers), run(kernel_of_helpers))


def test_two_things_of_one_name_get_two_names():
    text = module_text(kernel_of_helpers)
    assert "SCALE = triton.language.constexpr(3)" in text and "SCALE_2 = triton.language.constexpr(5)" in text
    assert text.count("def helper(x)") == 1 and text.count("def helper_2(x)") == 1
    assert 'OFFSET = triton.language.constexpr(float("-inf"))' in text


def test_a_variable_of_an_enclosing_function_is_written_as_its_value(tmp_path: Path):
    def make(factor: int) -> Any:
        amount = tl.constexpr(factor)

        @triton.jit
        def scale(source, target, N: tl.constexpr):
            i = tl.arange(0, N)
            tl.store(target + i, tl.load(source + i) * amount)

        return scale

    seven = load(module_text(make(7)), tmp_path).scale
    torch.testing.assert_close(run(seven), 7 * torch.linspace(-1, 1, 64))


def test_what_has_no_text_is_named():
    with pytest.raises(UncollectableKernelError, match=r"kernel_of_a_dictionary .* 'SETTINGS' stands for a dict"):
        module_text(kernel_of_a_dictionary)
