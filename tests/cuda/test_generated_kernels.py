"""Kernels as they are generated for an H100 become code for it, and keep their tiles in registers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._inductor import config as inductor_config
from torch._inductor.utils import run_and_get_code

from inductor_npu.codegen.scheduling import npu_scheduling
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


@pytest.mark.parametrize("step", [2, 4, 8])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.int8, torch.bool])
def test_elements_at_a_distance_of_a_power_of_two_are_split_from_a_tile(step: int, dtype: torch.dtype) -> None:
    """Not gathered; each of the first ones, of rows that do not fill the last tile."""
    x = torch.randint(-9, 9, (37, 100 * step)).to(dtype)
    for first in {0, 1, step - 1}:
        result, (source,) = run_and_get_code(
            torch.compile(lambda x, f=first: x[:, f::step] * 3, dynamic=False), x.npu()
        )
        torch.testing.assert_close(result.cpu(), x[:, first::step] * 3, rtol=0, atol=0)
        assert "device_functions.every(" in source and "device_functions.gather(" not in source


@pytest.mark.parametrize(("kernel", "step", "gathers"), [(2, 2, False), (3, 2, False), (4, 4, False), (3, 3, True)])
def test_pools(kernel: int, step: int, gathers: bool) -> None:
    """Windows side by side are split where their size is a power of two."""
    x = torch.randn(3, 5, 36, 48)

    def pool(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.nn.functional.max_pool2d(x, kernel, step), torch.nn.functional.avg_pool2d(x + 1, kernel, step)

    results, sources = run_and_get_code(torch.compile(pool), x.npu())
    for result, expected in zip(results, pool(x), strict=True):
        torch.testing.assert_close(result.cpu(), expected)
    assert any("device_functions.gather(" in source for source in sources) is gathers


def test_what_is_larger_than_l2_and_only_read_may_leave_it_first() -> None:
    def hints(function: Callable[..., Any], *rows: int) -> list[bool]:
        found = []
        for each in rows:
            x = torch.ones(each, 1024, device="npu")
            result, sources = run_and_get_code(torch.compile(function, dynamic=False), x)
            torch.testing.assert_close(result.cpu(), function(torch.ones(each, 1024)))
            found.append(any("eviction_policy='evict_first'" in source for source in sources))
        return found

    large = get_target("H100").l2 // 4096 + 1
    assert hints(lambda x: x.sum(0), large, large - 1) == [True, False]
    assert hints(lambda x: x.sum(1), large) == [True]
    assert hints(lambda x: x * 2, large) == [False]  # results would take its place


@pytest.mark.parametrize(("heads", "width"), [(8, 64), (5, 6)])
def test_subdomains_that_read_the_same_share_a_loop(heads: int, width: int) -> None:
    """Both halves of a rotation; not the parts of a concatenation of different tensors."""
    x, table = torch.randn(2, 40, heads, width), torch.randn(1, 40, 1, width)

    def rotated(x: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
        first, second = x.chunk(2, dim=-1)
        return x * table.cos() + torch.cat((-second, first), dim=-1) * table.sin()

    def joined(x: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
        return torch.cat((x.flatten(0, 2) + 1, table.flatten(0, 2) * 2))

    for function, loops in ((rotated, 1), (joined, 2)):
        result, (source,) = run_and_get_code(torch.compile(function, dynamic=False), x.npu(), table.npu())
        torch.testing.assert_close(result.cpu(), function(x, table))
        assert source.count("for tile in range(") == loops


@pytest.mark.parametrize("length", [9000, pytest.param(32768, marks=pytest.mark.slow)])
def test_long_rows_that_loops_would_read_again_stay_in_registers(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written for a GPU; the embedded NPU does not hold such rows, and has the kernel written again."""
    written: list[str] = []
    compile_in_process = npu_scheduling.compile_in_process

    def kept(name: str, source: str) -> Exception | None:
        written.append(source)
        return compile_in_process(name, source)

    monkeypatch.setattr(npu_scheduling, "compile_in_process", kept)
    x = torch.randn(2 * get_target("H100").vector_cores, length)
    with inductor_config.patch(force_disable_caches=True):
        result = torch.compile(lambda x: torch.softmax(x, -1), dynamic=False)(x.npu())
    torch.testing.assert_close(result.cpu(), torch.softmax(x, -1))
    kernel = compiled_text(f"{written[0]}\n# for a GPU").kernel  # the module of the same text is in use
    assert "in a loop inside the tile" not in written[0]
    assert usage_of(kernel).spilled == 0


def test_columns_are_summed_in_narrow_tiles() -> None:
    """As wide as what a warp reads at once; a transpose is as wide as before on both sides."""
    x = torch.randn(2048, 512).npu()
    _, sources = run_and_get_code(torch.compile(lambda x: x.sum(0)), x)
    assert all("'npu_blocks': {'XBLOCK': 32" in source for source in sources)
    _, (source,) = run_and_get_code(torch.compile(lambda x: x.t().contiguous() * 2), torch.randn(4096, 4096).npu())
    assert "'npu_blocks': {'XBLOCK': 64, 'YBLOCK': 64}" in source


def test_threads_wait_for_each_other_before_one_overwrites_what_several_load() -> None:
    """An operand of each row that the result of the row overwrites; what each thread loads alone needs no wait."""

    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        of_rows, of_elements = y.cumsum(0), x.cumsum(0)
        return (x * of_rows[:, None]).sum(1) + of_rows, of_elements.sin()

    x, y = torch.randn(64, 256), torch.randn(64)
    result, (source,) = run_and_get_code(torch.compile(function), x.npu(), y.npu())
    torch.testing.assert_close(result[0].cpu(), function(x, y)[0], rtol=1e-4, atol=1e-4)
    stores = [line for line in source.splitlines() if "tl.store(in_out_ptr" in line or "debug_barrier" in line]
    assert [("barrier" in line) for line in stores] == [True, False, False], stores
