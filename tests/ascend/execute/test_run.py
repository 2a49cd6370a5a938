"""What Ascend's compiler made of a kernel is executed on what the kernel got, and compared with the embedded NPU."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from inductor_npu.ascend.collect.collector import collecting
from inductor_npu.ascend.compilation import compile_kernels
from inductor_npu.ascend.environment import AscendEnvironment
from inductor_npu.ascend.execute import Agreement, RunVerdict, run_kernel, run_kernels
from inductor_npu.ascend.kernel import CollectedKernel
from tests.ascend.execute import kernels

pytestmark = [pytest.mark.ascend, pytest.mark.compiled]

TARGET = "Ascend910B3"
N = 1000
GRID = (4,)
_DATA_LIMIT = 1 << 26


def floats(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape).to(dtype).npu()


def integers(low: int, high: int, *shape: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    return torch.randint(low, high, shape, dtype=dtype).npu()


def like(tensor: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(tensor)


def launch_good_kernels() -> None:
    """A launch of a kernel of each kind; every kernel is told apart by its argument types too."""
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        x = floats(N, dtype=dtype)
        kernels.add[GRID](x, floats(N, dtype=dtype), like(x), N, BLOCK=256)
        kernels.gelu[GRID](x, like(x), N, BLOCK=256)
    for dtype in (torch.int8, torch.int16, torch.int32, torch.int64):
        x = integers(-50, 50, N, dtype=dtype)
        kernels.add[GRID](x, x, like(x), N, BLOCK=256)
        kernels.divide[GRID](x, integers(1, 50, N, dtype=dtype), like(x), N, BLOCK=256)
    x = floats(N)
    kernels.select[GRID](x, torch.rand(N).gt(0.5).npu(), like(x), N, BLOCK=256)
    x = torch.linspace(0.56, 0.58, 100_000).npu()  # where two functions' errors are all that is left
    kernels.cancel[(40,)](x, like(x), 100_000, BLOCK=4096)
    x = floats(37, 100)
    kernels.softmax[(10,)](x, like(x), 37, 100, ROWS=4, COLUMNS=128)
    x = floats(16, 64)
    kernels.best[(1,)](x, floats(16), integers(0, 1, 16), ROWS=16, COLUMNS=64)
    kernels.scan[(1,)](x, like(x), ROWS=16, COLUMNS=64, REVERSE=False)
    kernels.scan[(1,)](x, like(x), ROWS=16, COLUMNS=64, REVERSE=True)
    kernels.sort[(1,)](x, like(x), ROWS=16, COLUMNS=64)
    kernels.transpose[(1,)](x, floats(64, 16), ROWS=16, COLUMNS=64)
    kernels.sums_of_rows[(1,)](x, floats(64), 16, COLUMNS=64)
    index = integers(0, 50, N, dtype=torch.int64)
    kernels.gather[GRID](floats(50), index, floats(N), N, BLOCK=256)
    kernels.count[GRID](index, integers(0, 1, 50), N, BLOCK=256)
    kernels.accumulate[GRID](floats(N), torch.zeros(1).npu(), N, BLOCK=256)
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        a, b = floats(32, 16, dtype=dtype), floats(16, 64, dtype=dtype)
        kernels.matmul[(1,)](a, b, floats(32, 64), ROWS=32, COLUMNS=64, DEPTH=16)


def collect(folder: Path, launch: object, *arguments: object, **constants: object) -> list[CollectedKernel]:
    """The kernels of what `launch` launches: a function, or a kernel bound to its grid."""
    with collecting(folder, _DATA_LIMIT) as collector:
        launch(*arguments, **constants)  # type: ignore[operator]
    return collector.collection().kernels


def run(folder: Path, kernel: CollectedKernel, ascend: AscendEnvironment) -> Agreement:
    return run_kernel(kernel, compile_kernels([kernel.source], TARGET)[0], folder, environment=ascend)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[CollectedKernel]]:
    folder = tmp_path_factory.mktemp("good")
    torch.manual_seed(0)
    return folder, collect(folder, launch_good_kernels)


@pytest.mark.slow
def test_good_kernels_of_every_kind_agree(good: tuple[Path, list[CollectedKernel]], ascend: AscendEnvironment) -> None:
    folder, collected = good
    seen: list[int] = []
    compilations = compile_kernels([kernel.source for kernel in collected], TARGET)
    agreements = run_kernels(
        collected, compilations, folder, environment=ascend, jobs=2, on_done=lambda index, _: seen.append(index)
    )
    assert [(a.kernel, a.verdict.value, a.message) for a in agreements if a.verdict is not RunVerdict.AGREES] == []
    assert {a.level for a in agreements} == {"middle end"}
    assert len(collected) >= 26 and sorted(seen) == list(range(len(collected)))
    assert [a.kernel for a in agreements] == [kernel.source.name for kernel in collected]


def test_a_mask_the_wrong_way_round_writes_out_of_bounds(tmp_path: Path, ascend: AscendEnvironment) -> None:
    (kernel,) = collect(tmp_path, kernels.reversed_mask[GRID], floats(N), floats(N), N, BLOCK=256)
    agreement = run(tmp_path, kernel, ascend)
    assert agreement.verdict is RunVerdict.OUT_OF_BOUNDS and agreement.overruns == "writes"
    assert "program 3 writes" in agreement.message
    assert "of out, whose storage ends at element 999" in agreement.message


def test_a_mask_that_depends_on_data_writes_out_of_bounds(tmp_path: Path, ascend: AscendEnvironment) -> None:
    (kernel,) = collect(tmp_path, kernels.data_dependent_mask[GRID], floats(N), floats(N), N, BLOCK=256)
    agreement = run(tmp_path, kernel, ascend)
    assert agreement.verdict is RunVerdict.OUT_OF_BOUNDS and agreement.overruns == "writes"
    assert "out" in agreement.message


def test_random_numbers_differ(tmp_path: Path, ascend: AscendEnvironment) -> None:
    (kernel,) = collect(tmp_path, kernels.random[GRID], floats(N), 3, N, BLOCK=256)
    agreement = run(tmp_path, kernel, ascend)
    assert agreement.verdict is RunVerdict.DIFFERS and agreement.departs == "front end"
    assert agreement.difference is not None and agreement.difference.argument == "out"
    assert agreement.difference.count > N / 2


def test_division_of_large_integers_differs(tmp_path: Path, ascend: AscendEnvironment) -> None:
    x = torch.arange(N, dtype=torch.int32).npu()
    x[3] = 2**24 + 1
    (kernel,) = collect(tmp_path, kernels.divide[GRID], x, torch.ones_like(x), like(x), N, BLOCK=256)
    agreement = run(tmp_path, kernel, ascend)
    assert agreement.verdict is RunVerdict.DIFFERS and agreement.departs == "middle end"
    difference = agreement.difference
    assert difference is not None
    assert (difference.argument, difference.index, difference.coordinates) == ("out", 3, (3,))
    assert (difference.expected, difference.found, difference.count) == (2**24 + 1, 2**24, 1)
    assert "out[3] is 16777217 on the embedded NPU and 16777216 by Ascend's compiler" in agreement.message


def test_unsigned_shift_of_a_negative_number_differs(tmp_path: Path, ascend: AscendEnvironment) -> None:
    x = integers(-100, 100, N)
    (kernel,) = collect(tmp_path, kernels.shift_unsigned[GRID], x, like(x), N, BLOCK=256)
    agreement = run(tmp_path, kernel, ascend)
    assert agreement.verdict is RunVerdict.DIFFERS and agreement.departs == "middle end"


def test_reading_beyond_an_argument_is_said_and_the_run_goes_on(tmp_path: Path, ascend: AscendEnvironment) -> None:
    out = torch.zeros(1024).npu()  # room for the whole tile, which is what the mask makes it write
    (kernel,) = collect(tmp_path, kernels.reversed_mask[GRID], floats(N), out, N, BLOCK=256)
    agreement = run(tmp_path, kernel, ascend)
    assert agreement.verdict is RunVerdict.AGREES and agreement.overruns == "reads"
    assert "of x, whose storage ends at element 999" in agreement.message


def test_one_bad_kernel_costs_no_other_its_result(tmp_path: Path, ascend: AscendEnvironment) -> None:
    def launch() -> None:
        kernels.reversed_mask[GRID](floats(N), floats(N), N, BLOCK=256)
        kernels.add[GRID](floats(N), floats(N), floats(N), N, BLOCK=256)

    collected = collect(tmp_path, launch)
    compilations = compile_kernels([kernel.source for kernel in collected], TARGET)
    agreements = run_kernels(collected, compilations, tmp_path, environment=ascend, jobs=1)
    assert [a.verdict for a in agreements] == [RunVerdict.OUT_OF_BOUNDS, RunVerdict.AGREES]


def test_a_wrong_result_is_found_where_it_is(good: tuple[Path, list[CollectedKernel]], ascend: AscendEnvironment,
                                             tmp_path: Path) -> None:  # fmt: skip
    folder, collected = good
    kernel = next(kernel for kernel in collected if kernel.source.name == "softmax")
    assert kernel.launch.data is not None
    with np.load(folder / kernel.launch.data) as data:
        arrays = {name: data[name].copy() for name in data.files}
    arrays["after_1"].view(np.float32)[2 * 100 + 7] *= 1.001
    np.savez(tmp_path / "changed.npz", **arrays)
    agreement = run(tmp_path, replace(kernel, launch=replace(kernel.launch, data="changed.npz")), ascend)
    assert agreement.verdict is RunVerdict.DIFFERS
    assert agreement.difference is not None and agreement.difference.coordinates == (2, 7)
    assert agreement.difference.count == 1 and agreement.difference.elements == 3700


def test_kernels_that_cannot_be_run_say_why(
    good: tuple[Path, list[CollectedKernel]], ascend: AscendEnvironment
) -> None:
    folder, collected = good
    kernel = collected[0]
    compilation = compile_kernels([kernel.source], TARGET)[0]
    refused = replace(compilation, linalg=None, message="no such function")
    without = replace(kernel, launch=replace(kernel.launch, data=None))
    unknown = replace(compilation, linalg=(compilation.linalg or "").replace("memref.copy", "hivm.hir.sorcery", 1))
    agreements = run_kernels(
        [kernel, without, kernel], [refused, compilation, unknown], folder, environment=ascend, jobs=1
    )
    assert [a.verdict for a in agreements] == [RunVerdict.CANNOT_EXECUTE] * 3
    assert "refused it: no such function" in agreements[0].message
    assert "collected without data" in agreements[1].message
    assert "bishengir-opt" in agreements[2].message


def test_a_kernel_that_runs_away_is_ended(good: tuple[Path, list[CollectedKernel]], ascend: AscendEnvironment) -> None:
    folder, collected = good
    kernel = next(kernel for kernel in collected if kernel.source.name == "sums_of_rows")
    far = replace(kernel.launch, arguments={**kernel.launch.arguments, "n": 2**31 - 1})
    agreement = run(folder, replace(kernel, launch=far), ascend)
    # It reads row after row, until there are no more.
    assert agreement.verdict is RunVerdict.OUT_OF_BOUNDS and agreement.overruns == "reads"


def test_agreements_have_a_json_form(good: tuple[Path, list[CollectedKernel]], ascend: AscendEnvironment) -> None:
    folder, collected = good
    agreement = run(folder, collected[0], ascend)
    assert Agreement.from_json(agreement.to_json()) == agreement
