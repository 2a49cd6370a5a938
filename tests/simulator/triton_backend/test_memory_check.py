"""Checked mode: planted faults are found and named, and what is right is left alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from inductor_npu.simulator.triton_backend.codegen import CodegenOptions
from inductor_npu.simulator.triton_backend.codegen.kernel.function import generate_kernel
from inductor_npu.simulator.triton_backend.compiler import NpuBackend
from inductor_npu.simulator.triton_backend.ttir import parser
from tests.simulator.triton_backend import planted_faults

Findings = dict[str, dict[str, Any] | None]

RIGHT = (
    "copy_within_bounds",
    "reversed_within_bounds",
    "a_view_ends_where_its_storage_does",
    "atomic_within_bounds",
    "one_program_writes_a_byte",
    "atomics_on_one_byte",
    "programs_ordered_by_an_atomic",
    "read_of_what_a_kernel_wrote",
    "read_of_what_operators_wrote",
    "compiled_code",
)
# The error of each, the argument, and the byte where it begins.
WRONG = {
    "load_behind_the_end": ("OutOfBoundsError", "source", 4000),
    "store_behind_the_end": ("OutOfBoundsError", "target", 4000),
    "load_of_a_whole_block_at_the_end": ("OutOfBoundsError", "source", 4000),
    "reversed_before_the_begin": ("OutOfBoundsError", "source", -4),
    "scalar_far_away": ("OutOfBoundsError", "source", 1 << 30),
    "load_behind_the_end_of_a_view": ("OutOfBoundsError", "source", 3996),
    "atomic_behind_the_end": ("OutOfBoundsError", "bins", 252),
    "freed_memory": ("OutOfBoundsError", "source", 0),
    "two_programs_write_a_byte": ("RaceError", "target", 0),
    "a_program_reads_what_the_next_one_writes": ("RaceError", "x", 512),
    "a_store_beside_atomics": ("RaceError", "total", 0),
    "read_of_empty_memory": ("UnwrittenReadError", "source", 0),
    "read_of_memory_that_was_another_tensor_s": ("UnwrittenReadError", "source", 0),
    "read_of_one_element_more_than_a_kernel_wrote": ("UnwrittenReadError", "source", 3996),
    "atomic_on_empty_memory": ("UnwrittenReadError", "bins", 0),
    "read_of_empty_memory_by_compiled_code": ("UnwrittenReadError", "in_ptr0", 0),
}


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the programs' kernels are kept: nowhere that another test could have left any."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def findings(cache: Path) -> Findings:
    return find_faults(cache)


def find_faults(cache: Path, *programs: str) -> Findings:
    """What checked mode finds in `programs`, or in all."""
    # Inductor itself sets Triton's variable in a process that has compiled: kernels of another checkout may lie there,
    # whose files are gone.
    caches = {"TORCHINDUCTOR_CACHE_DIR": str(cache), "TRITON_CACHE_DIR": str(cache / "triton")}
    environment = {**os.environ, "INDUCTOR_NPU_CHECKED": "1", **caches}
    command = [sys.executable, "-m", planted_faults.__name__, *programs]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_every_program_is_expected_to_be_right_or_wrong() -> None:
    assert {*RIGHT, *WRONG} == set(planted_faults.PROGRAMS)


@pytest.mark.slow
@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_is_left_alone(name: str, findings: Findings) -> None:
    assert findings[name] is None


@pytest.mark.slow
@pytest.mark.parametrize("name", WRONG)
def test_a_planted_fault_is_found_and_named(name: str, findings: Findings) -> None:
    found = findings[name]
    assert found is not None
    assert (found["error"], found["argument"].removeprefix("argument "), int(found["offset"])) == WRONG[name]


@pytest.mark.slow
def test_a_finding_says_which_kernel_program_and_line(findings: Findings) -> None:
    found = findings["store_behind_the_end"]
    assert found["kernel"] == "copy_kernel"
    assert found["program"] == "(7, 0, 0)"
    assert found["room"] == "whose storage has 4000 bytes from there on"
    assert planted_faults.__file__ in found["where"]
    assert "tl.store(target + i, tl.load(source + i, mask=i < limit), mask=i < limit)" in found["where"]
    race = findings["two_programs_write_a_byte"]
    assert (race["program"], race["other"], race["other_access"]) == ("(1, 0, 0)", "program (0, 0, 0)", "stored to")
    compiled = findings["read_of_empty_memory_by_compiled_code"]
    assert "aten.relu" in compiled["operators"]


@pytest.mark.slow
def test_a_finding_in_a_kernel_from_the_cache_says_the_same(findings: Findings, cache: Path) -> None:
    name = "read_of_empty_memory_by_compiled_code"
    assert find_faults(cache, name) == {name: findings[name]}


COPY = """
module {
  tt.func public @copy(%from: !tt.ptr<f32>, %to: !tt.ptr<f32>) {
    %0 = tt.load %from : !tt.ptr<f32>
    tt.store %to, %0 : !tt.ptr<f32>
    tt.return
  }
}
"""


def test_code_without_checks_has_no_trace_of_them() -> None:
    plain = generate_kernel(parser.parse(COPY), CodegenOptions())
    checked = generate_kernel(parser.parse(COPY), CodegenOptions(checked=True))
    assert "check" not in plain.llvm_ir and plain.accesses == []
    assert checked.llvm_ir.count("call void @npu_check_access") == 2
    assert [(access.kind, access.argument) for access in checked.accesses] == [("load", 0), ("store", 1)]


def test_checked_kernels_have_their_own_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    from triton.backends.compiler import GPUTarget

    backend = NpuBackend(GPUTarget("npu", "Ascend910B3", 32))
    monkeypatch.delenv("INDUCTOR_NPU_CHECKED", raising=False)
    plain = backend.parse_options({})
    monkeypatch.setenv("INDUCTOR_NPU_CHECKED", "1")
    checked = backend.parse_options({})
    assert checked.checked and not plain.checked
    assert checked.hash() != plain.hash()
