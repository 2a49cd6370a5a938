"""Kernels as they are generated for an H100 become code for it, and keep their tiles in registers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._inductor.utils import run_and_get_code

from inductor_npu.cuda.triton_backend.compiler import largest_tile, warps_of
from inductor_npu.target import get_target
from tests.codegen.golden_programs import PROGRAMS, sources_of
from tests.cuda.cubins import Usage, compiled_text, usage_of

pytestmark = [pytest.mark.compiled, pytest.mark.usefixtures("for_h100")]

# Four programs of 8 warps have 64 registers a thread.
REGISTERS_OF_A_MULTIPROCESSOR = 64 * 1024
PROGRAMS_AT_ONCE = 4


QUICK = ("softmax", "gather")


@pytest.mark.parametrize(
    "name", [*QUICK, *(pytest.param(n, marks=pytest.mark.slow) for n in PROGRAMS if n not in QUICK)]
)
def test_golden_programs(name: str) -> None:
    sources = sources_of.__wrapped__(name)  # those that other tests keep are for another chip
    assert sources
    for source in sources:
        assert f"'npu_cores': {get_target('H100').most_programs}" in source
        kernel = compiled_text(source)
        usage, warps = usage_of(kernel.kernel), kernel.metadata.num_warps
        assert warps == warps_of(largest_tile(kernel.asm["ttir"]), get_target("H100"))
        assert usage == Usage(usage.registers, 0)
        assert PROGRAMS_AT_ONCE * 32 * warps * usage.registers <= REGISTERS_OF_A_MULTIPROCESSOR * 5 // 4


def test_a_sort_without_positions_is_no_stable_one() -> None:
    """Unless it is asked for, or another loop of the kernel wants the positions."""
    x = torch.randn(512, 256).npu()

    def functions_of(sort: Callable[[torch.Tensor], Any]) -> set[str]:
        _, sources = run_and_get_code(torch.compile(sort), x)
        return {name for source in sources for name in re.findall(r"device_functions\.(sort_\w+)", source)}

    assert functions_of(lambda x: x.sort(-1)[0]) == {"sort_values"}
    assert functions_of(lambda x: tuple(x.sort(-1))) == {"sort_with_index"}
    assert functions_of(lambda x: x.argsort(-1)) == {"sort_with_index"}
    assert functions_of(lambda x: torch.sort(x, dim=-1, stable=True)[0]) == {"sort_with_index"}
