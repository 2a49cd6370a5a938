"""What we call of torch_npu is in each version that the README names: read from the wheels, which are not installed."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import filelock
import pytest

from tests.ascend_seat import symbols
from tests.ascend_seat.seat import BUILT, package

VERSIONS = ("2.11.0", "2.12.0", "2.13.0", "2.14.0")


@pytest.fixture(scope="module", params=VERSIONS)
def torch_npu(request: pytest.FixtureRequest) -> Path:
    """The package's folder, from its wheel."""
    folder = BUILT / "wheels" / request.param
    folder.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(folder / "lock"):
        if not (folder / "whole").exists():
            options = ["--no-deps", "--quiet", "--dest", str(folder)]
            command = [sys.executable, "-m", "pip", "download", *options, f"torch_npu=={request.param}"]
            subprocess.run(command, check=True)
            zipfile.ZipFile(next(folder.glob("*.whl"))).extractall(folder)
            (folder / "whole").touch()
    return folder / "torch_npu"


def defined(library: Path) -> str:
    command = ["nm", "-D", "--defined-only", str(library)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_its_inductor_can_be_switched_off(torch_npu: Path) -> None:
    source = (torch_npu / "utils" / "_dynamo.py").read_text()
    assert "def disable_register_inductor_npu(" in source
    assert (torch_npu / "_inductor" / "__init__.py").is_file()


def test_it_registers_its_interface_before_it_imports_the_trace_rules(torch_npu: Path) -> None:
    assert (torch_npu / "dynamo" / "trace_rule.py").is_file()
    assert "class NpuInterface(" in (torch_npu / "utils" / "_dynamo_device.py").read_text()


def test_launches_find_what_they_call(torch_npu: Path) -> None:
    takes = "RunOpApiV2ERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEERKSt8functionIFivEEb"
    assert f"_ZN6at_npu6native9OpCommand10{takes}" in defined(torch_npu / "lib" / "libtorch_npu.so")
    bindings = [*torch_npu.glob("_C*.so"), torch_npu / "lib" / "libtorch_npu.so"]
    assert any(b"_npu_getCurrentRawStreamNoWait" in path.read_bytes() for path in bindings)


def test_the_stand_in_can_be_built_for_it(torch_npu: Path) -> None:
    wanted = symbols.wanted(torch_npu, package("torch"))
    assert {"aclInit", "aclrtSetDevice", "aclrtMalloc"} & set(wanted.symbols)
    assert "libascendcl.so" in wanted.libraries
