"""Whole programs, whose kernels are those of an aarch64 host; and the C++ that is built there."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch.utils.cpp_extension import include_paths

from inductor_npu.device import build
from tests.aarch64 import emulator, machine
from tests.codegen.golden_programs import PROGRAMS, Golden
from tests.compile.helpers import check

SOURCES = sorted(path for folder in build._FOLDERS for path in folder.rglob("*.cpp"))


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The object code that the emulated process loads."""
    codes: list[bytes] = []
    load = emulator.Emulator.load

    def noted(self: emulator.Emulator, code: bytes, *names: str) -> tuple[int, bytes]:
        codes.append(code)
        return load(self, code, *names)

    monkeypatch.setattr(emulator.Emulator, "load", noted)
    return codes


def inputs(program: Golden) -> list[torch.Tensor]:
    """Random numbers whose products do not cancel to nothing, so that errors of long sums stay relative; indices are
    smaller than the first tensor's rows.
    """
    return [
        torch.randint(program.shapes[0][0], tuple(shape)) if isinstance(shape, list) else torch.rand(shape) + 0.25
        for shape in program.shapes
    ]


@pytest.mark.parametrize("name", PROGRAMS)
def test_golden_programs(name: str, loaded: list[bytes]) -> None:
    program = PROGRAMS[name]
    check(program.function, *inputs(program), dynamic=program.dynamic or None)
    assert loaded and all(code.startswith(b"\x7fELF") and code[18] == 183 for code in loaded), "EM_AARCH64 is 183"


def test_training_step() -> None:
    def loss(x: torch.Tensor, weight: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(F.gelu(F.layer_norm(x, (40,))) @ weight, labels)

    x, weight = torch.randn(33, 40, requires_grad=True), torch.randn(40, 7, requires_grad=True)
    check(loss, x, weight, torch.randint(7, (33,)), backward=True)


def test_sorts_and_random_numbers() -> None:
    check(lambda x: x.sort(-1), torch.randn(5, 300))
    x = torch.ones(10_000, device="npu")
    kept = torch.compile(lambda x: F.dropout(x, 0.25))(x).count_nonzero().item()
    assert abs(kept - 7500) < 200


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_c_plus_plus_compiles(source: Path, tmp_path: Path) -> None:
    """With this machine's headers of torch and Python; nothing in them asks for the processor but by its macros."""
    flags = [flag for flag in build._COMPILE_FLAGS if flag != "-O2"]
    ours = [*build._FOLDERS, build.include_directory()]
    includes = [f"-I{path}" for path in [*ours, *include_paths(), sysconfig.get_paths()["include"]]]
    machine.compile_cpp(tmp_path / "object.o", "-c", "-O0", *flags, *includes, str(source))
