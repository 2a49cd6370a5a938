"""The facts of the chips are those that the compiler itself goes by."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from inductor_npu.ascend.compilation import compile_kernels
from inductor_npu.ascend.environment import AscendEnvironment
from inductor_npu.ascend.toolchain.bishengir import BishengIR
from inductor_npu.ascend.toolchain.families import family_of
from inductor_npu.target import get_target
from tests.ascend.kernels import ADD

pytestmark = pytest.mark.ascend


def spec_of(hivm: str) -> dict[str, int]:
    """The numbers of the target spec in the final IR; sizes are in bits."""
    return {name: int(value) for name, value in re.findall(r'#dlti\.dl_entry<"(\w+)", (\d+) : i32>', hivm)}


@pytest.mark.slow
def test_facts_are_those_of_the_compilers_target_spec(ascend: AscendEnvironment, own_cache: Path, tmp_path: Path):
    (compiled,) = compile_kernels([ADD], "Ascend910B3")
    bishengir = BishengIR(ascend.programs, tmp_path)
    (tmp_path / "kernel.mlir").write_text(compiled.linalg)
    wrong = {}
    for name in ascend.targets:
        spec, chip = spec_of(bishengir.compile(tmp_path, name)), get_target(name)
        facts = {
            "AI_CORE_COUNT": chip.cube_cores,
            "CUBE_CORE_COUNT": chip.cube_cores,
            "VECTOR_CORE_COUNT": chip.vector_cores,
            "UB_SIZE": 8 * chip.unified_buffer,
            "UB_ALIGN_SIZE": 8 * chip.burst_bytes,
            "L1_SIZE": 8 * chip.l1,
            "L0A_SIZE": 8 * chip.l0a,
            "L0B_SIZE": 8 * chip.l0b,
            "L0C_SIZE": 8 * chip.l0c,
        }
        if differing := {key: (value, spec.get(key)) for key, value in facts.items() if spec.get(key) != value}:
            wrong[name] = differing
    assert wrong == {}


def test_every_chip_is_of_a_family(ascend: AscendEnvironment) -> None:
    families = {family_of(name).name for name in ascend.targets}
    assert families == {"910B and 910_93", "950"}
