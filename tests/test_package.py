"""The built package: what it ships, what it announces, what it requires."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel that `pip install` would build."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    # A copy: setuptools leaves build folders in its source.
    startup = ("setup.py", "inductor_npu.pth", "inductor_npu_startup.py")
    for name in ("pyproject.toml", "README.md", "LICENSE", "inductor_npu", *startup):
        (source / name).symlink_to(ROOT / name)
    options = ["--no-deps", "--no-build-isolation", "--quiet", "--wheel-dir", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, str(source)], check=True)
    return zipfile.ZipFile(next(folder.glob("*.whl")))


def read(wheel: zipfile.ZipFile, name: str) -> str:
    path = next(path for path in wheel.namelist() if path.endswith(f".dist-info/{name}"))
    return wheel.read(path).decode()


@pytest.mark.slow
def test_the_wheel_has_all_modules_and_the_devices_sources(wheel: zipfile.ZipFile) -> None:
    package = ROOT / "inductor_npu"
    expected = {
        path.relative_to(ROOT).as_posix() for pattern in ("*.py", "*.cpp", "*.h") for path in package.rglob(pattern)
    }
    assert expected - set(wheel.namelist()) == set()


def test_a_process_starts_with_what_sees_torch_npu_come(wheel: zipfile.ZipFile) -> None:
    line = wheel.read("inductor_npu.pth").decode().strip()
    assert line == "import inductor_npu_startup"
    assert wheel.read("inductor_npu_startup.py").decode() == (ROOT / "inductor_npu_startup.py").read_text()


def test_torch_and_triton_find_the_package(wheel: zipfile.ZipFile) -> None:
    lines = read(wheel, "entry_points.txt").split("\n")
    assert lines[lines.index("[torch.backends]") + 1] == "inductor_npu = inductor_npu:_autoload"
    assert lines[lines.index("[triton.backends]") + 1] == "npu = inductor_npu.simulator.triton_backend"


def test_it_requires_neither_torch_nor_triton(wheel: zipfile.ZipFile) -> None:
    """Several builds share these names; a requirement could replace the one that a machine needs."""
    required = Parser().parsestr(read(wheel, "METADATA")).get_all("Requires-Dist", [])
    always = [line for line in required if "extra ==" not in line]
    assert not [line for line in always if line.startswith(("torch", "triton"))]


def test_the_license_is_apache(wheel: zipfile.ZipFile) -> None:
    assert Parser().parsestr(read(wheel, "METADATA"))["License-Expression"] == "Apache-2.0"
    assert "Apache License" in read(wheel, "licenses/LICENSE")
