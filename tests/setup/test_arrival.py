"""A provider's package that is half installed: torch works, one line says what is missing. It may come late, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes import run_python

# Nobody asks for a device: what is found decides.
UNASKED = {"INDUCTOR_NPU_PROVIDER": ""}

# What of torch.compile asks for devices: Dynamo, and Inductor's passes, whose import takes longest.
DYNAMO = """
import torch
print(torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2)).tolist())
import torch._inductor.utils
"""
PASSES = "import torch._inductor.compile_fx\n"
DEVICES = 'print(torch._inductor.utils.get_gpu_type(), hasattr(torch, "npu"))\n'
COMPILE = DYNAMO + PASSES + DEVICES


@pytest.mark.slow
def test_a_folder_without_code_is_no_provider(tmp_path: Path) -> None:
    (tmp_path / "torch_npu").mkdir()

    finished = run_python(COMPILE, path=tmp_path, **UNASKED)

    assert finished.lines() == ["[2.0, 2.0]", "npu True"]
    assert finished.stderr == ""


@pytest.mark.parametrize("passes", ["", pytest.param(PASSES, marks=pytest.mark.slow)], ids=["Dynamo", "Inductor"])
@pytest.mark.parametrize(
    ("source", "imports_it"), [("import what_is_not_there", False), ("import what_is_not_there", True), ("", True)]
)
def test_a_package_that_brings_no_device_leaves_torch_usable(
    tmp_path: Path, source: str, imports_it: bool, passes: str
) -> None:
    (tmp_path / "torch_npu").mkdir()
    (tmp_path / "torch_npu" / "__init__.py").write_text(source)
    begin = "try:\n    import torch_npu\nexcept ImportError:\n    print('not imported')\n" if imports_it else ""

    finished = run_python(begin + DYNAMO + passes + DEVICES, path=tmp_path, **UNASKED)

    assert finished.lines()[-2:] == ["[2.0, 2.0]", "cuda False"]
    assert finished.stderr.count("NpuWarning") == 1
    for part in (str(tmp_path / "torch_npu" / "__init__.py"), "import torch_npu", "INDUCTOR_NPU_PROVIDER=simulator"):
        assert part in finished.stderr


@pytest.fixture
def late(tmp_path: Path) -> Path:
    """A folder with a package that imports Dynamo, as torch_npu does, before it brings the device: here the embedded
    NPU, which is built for its own provider only.
    """
    (tmp_path / "torch_npu.py").write_text(
        """
import os, torch, torch._dynamo
from inductor_npu.device import npu
os.environ["INDUCTOR_NPU_PROVIDER"] = "simulator"
npu.install()
npu.get_device_name = lambda device=None: "Ascend910B3"
os.environ["INDUCTOR_NPU_PROVIDER"] = ""
"""
    )
    return tmp_path


@pytest.mark.slow
def test_a_package_may_use_dynamo_before_it_brings_the_device(late: Path) -> None:
    finished = run_python("import torch_npu" + COMPILE, path=late, **UNASKED)

    assert finished.lines() == ["[2.0, 2.0]", "npu True"]
    assert finished.stderr == ""


@pytest.mark.slow
def test_a_package_may_come_after_the_first_compile(late: Path) -> None:
    finished = run_python(
        f"""{COMPILE}
from torch._dynamo.device_interface import get_registered_device_interfaces
print("npu" in dict(get_registered_device_interfaces()))
import torch_npu
print(torch._inductor.utils.get_gpu_type(), "npu" in dict(get_registered_device_interfaces()))
print(torch._inductor.codegen.common.get_scheduling_for_device("npu").__name__)
""",
        path=late,
        **UNASKED,
    )

    assert finished.lines()[2:] == ["False", "npu True", "NpuScheduling"]
