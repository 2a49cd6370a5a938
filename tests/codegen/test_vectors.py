"""No emitted kernel divides a vector, and none starts more programs than there are cores."""

from __future__ import annotations

import ast
import re

import pytest

from corpus.check import program_names
from corpus.collecting import collect
from inductor_npu.providers import DEFAULT_TARGET, current_target
from tests.codegen.golden_programs import PROGRAMS, sources_of
from tests.codegen.vectors import divisions, is_tiled

KERNEL = """
import triton
@triton.jit
def kernel(in_ptr0, out_ptr0, xnumel, XBLOCK: tl.constexpr, R0_BLOCK: tl.constexpr):
    # tile [x, r0]: x 8 of 100; r0 all of 64
    for tile in range(tl.program_id(0), xnumel // 8, tl.num_programs(0)):
        y = tile % 4
        x = (tile // 4) * XBLOCK + tl.arange(0, XBLOCK)
        r0 = tl.arange(0, R0_BLOCK)
        tmp0 = tl.load(in_ptr0 + (r0[None, :] + 64 * x[:, None]), None)
        tmp1 = tl.sum(tmp0, 1)
        tmp2 = tl.load(in_ptr0 + y, None)
        STATEMENT
"""


@pytest.mark.parametrize(
    ("statement", "divides", "of_data"),
    [
        ("tmp3 = tl.load(in_ptr0 + (x // 2), None)", True, False),
        ("tmp3 = tl.load(in_ptr0 + (x[:, None] % 2 + r0[None, :]), None)", True, False),
        ("tmp3 = tmp1 % 7", True, True),
        ("tmp3 = triton_helpers.remainder_integer(tmp1, 7)", True, True),
        ("tmp3 = tl.where(x < 3, tmp1 // tmp2, 0)", True, True),
        ("tmp3 = tl.full([XBLOCK], 3, tl.int32) // 2", True, False),
        ("tmp3 = tmp1.to(tl.int32) // 2", True, True),
        ("tmp3 = tl.sum(tmp1, 0) // 7", False, False),
        ("tmp3 = tmp2 % 7 + y // 2", False, False),
        ("tmp3 = tl.load(in_ptr0 + (x + y % 2), None)", False, False),
        ("tmp3 = tmp0 / tmp1[:, None]", False, False),
    ],
)
def test_divisions_of_vectors_are_found_and_those_of_scalars_are_not(statement: str, divides: bool, of_data: bool):
    found = divisions(KERNEL.replace("STATEMENT", statement))
    assert [division.line for division in found] == [statement] * divides
    assert [division.of_data for division in found] == [of_data] * divides


def test_what_a_loop_carries_to_its_next_round_is_a_vector_there():
    text = "def kernel(p):\n    b = 0\n    for i in range(4):\n        a = b // 2\n        b = tl.arange(0, 4)\n"
    assert [division.line for division in divisions(text)] == ["a = b // 2"]


def test_what_is_a_vector_in_one_loop_may_be_walked_in_the_next():
    loops = (
        "    for tile in range(4):\n        x = tl.arange(0, 4)\n",
        "    for tile in range(4):\n        x = tile\n",
    )
    found = divisions(
        "def kernel(p):\n" + "".join(f"{loop}        {name} = x % 3\n" for loop, name in zip(loops, "ab"))
    )
    assert [division.line for division in found] == ["a = x % 3"]


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_small_program_divides_no_vector_and_has_the_grid_of_the_chip(name: str):
    kernels = sources_of(name)
    assert kernels
    for kernel in kernels:
        assert is_tiled(kernel) and divisions(kernel) == []
        assert metadata_of(kernel)["grid_type"] == "NpuGrid"
        assert metadata_of(kernel)["npu_cores"] == cores_for(kernel)


def cores_for(kernel: str) -> int:
    """How many cores of the chip run programs of a kernel: products are the cube cores'."""
    return current_target().cube_cores if "tl.dot(" in kernel else current_target().vector_cores


def metadata_of(module: str) -> dict[str, object]:
    """What a kernel's decorator says to the launcher."""
    (text,) = re.findall(r"^    inductor_meta=(\{.*\}),?(?: min_elem_per_thread=\d+)?$", module, re.MULTILINE)
    return ast.literal_eval(text)


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("sample", [True, pytest.param(False, marks=pytest.mark.sweep)], ids=["sample", "all"])
def test_no_kernel_of_the_corpus_divides_a_vector_or_starts_more_programs_than_cores(sample: bool):
    names = program_names(sample, DEFAULT_TARGET)
    programs = collect(names, DEFAULT_TARGET, jobs=2, on_done=lambda: None)
    kernels = [(program.program, kernel) for program in programs for kernel in program.collection.kernels]
    tiled = [(program, kernel) for program, kernel in kernels if is_tiled(kernel.source.text)]
    assert len(tiled) > len(names) / 2, "hardly a program has a kernel"

    grids = [(program, kernel.source, kernel.launch.grid) for program, kernel in tiled]
    too_many = [
        (program, source.name, grid)
        for program, source, grid in grids
        if grid[0] > cores_for(source.text) or grid[1:] != (1, 1)
    ]
    assert too_many == []

    assert [(program, division) for program, kernel in tiled for division in divisions(kernel.source.text)] == []
