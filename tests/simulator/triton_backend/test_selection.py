"""Which of several backends Triton takes: the embedded NPU, where it provides the device."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.processes import Finished, run_forked, run_python

KERNEL = """
import torch
import triton
import triton.language as tl


@triton.jit
def fill_kernel(target, N: tl.constexpr):
    tl.store(target + tl.arange(0, N), 7.0)


out = torch.zeros(64, device="npu")
fill_kernel[(1,)](out, N=64)
print(triton.runtime.driver.active.get_current_target().backend, out.sum().item())
"""

ANOTHER_ACTIVE_DRIVER = """
import triton.backends as discovered
from triton.backends.driver import DriverBase


class AnotherDriver(DriverBase):
    @classmethod
    def is_active(cls):
        return True


class AnotherCompiler:
    @staticmethod
    def supports_target(target):
        return target.backend == "another"


discovered.backends["another"] = discovered.Backend(compiler=AnotherCompiler, driver=AnotherDriver)
"""


ANOTHER_COMPILER_FOR_NPU = ANOTHER_ACTIVE_DRIVER.replace('"another"\n', '"npu"\n')


# What the end of `import torch` does, at a moment of the test's choosing.
THEN_TORCH = "import torch\ntorch._import_device_backends()\n"
WITHOUT_AUTOLOAD = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}


def run(tmp_path: Path, source: str, run_code: Callable[..., Finished] = run_forked, **environment: str) -> str:
    """What `source` prints in a process of its own. It is in a file, where Triton reads kernels."""
    script = tmp_path / "program.py"
    script.write_text(source)
    code = f"exec(compile(open({str(script)!r}).read(), {str(script)!r}, 'exec'))"
    return "\n".join(run_code(code, **environment).lines())


def test_another_active_driver_does_not_stop_the_embedded_npu(tmp_path):
    source = "import torch\n" + ANOTHER_ACTIVE_DRIVER + KERNEL
    assert run(tmp_path, source, INDUCTOR_NPU_PROVIDER="simulator") == "npu 448.0"


def test_triton_may_be_imported_before_torch(tmp_path):
    source = "import triton\n" + ANOTHER_ACTIVE_DRIVER + KERNEL
    assert run(tmp_path, source, run_python, INDUCTOR_NPU_PROVIDER="simulator") == "npu 448.0"


def test_another_compiler_for_the_same_target_steps_aside(tmp_path):
    """As Ascend's does where triton-ascend is installed without torch_npu."""
    install = THEN_TORCH + "from inductor_npu.simulator.triton_backend import selection\nselection.install()\n"
    source = "import triton\n" + ANOTHER_COMPILER_FOR_NPU + install + KERNEL
    assert run(tmp_path, source, INDUCTOR_NPU_PROVIDER="simulator", **WITHOUT_AUTOLOAD) == "npu 448.0"


def test_where_the_embedded_npu_is_not_the_provider_nothing_is_taken_out(tmp_path):
    source = "import triton\n" + ANOTHER_COMPILER_FOR_NPU + THEN_TORCH + "print(sorted(discovered.backends))"
    assert "another" in run(tmp_path, source, INDUCTOR_NPU_PROVIDER="none", **WITHOUT_AUTOLOAD)


def test_a_triton_that_reads_no_entry_points_finds_the_backend(tmp_path):
    """As Triton 3.2 does; later ones do so where they are told to look at their own backends only."""
    environment = {"INDUCTOR_NPU_PROVIDER": "simulator", "TRITON_BACKENDS_IN_TREE": "1"}
    assert run(tmp_path, "import torch\n" + KERNEL, **environment) == "npu 448.0"


def test_an_unknown_target_does_not_stop_the_import_of_triton(tmp_path):
    source = "import torch, triton\nprint('imported')"
    assert run(tmp_path, source, INDUCTOR_NPU_TARGET="none such").endswith("imported")


def test_importing_torch_does_not_import_triton(tmp_path):
    source = "import sys, torch\nprint('triton' in sys.modules)"
    assert run(tmp_path, source, INDUCTOR_NPU_PROVIDER="simulator") == "False"
