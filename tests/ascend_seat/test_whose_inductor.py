"""Who generates code for `npu` where torch_npu is installed: we, whatever a program imports first and asks for."""

from __future__ import annotations

import pytest

from tests.ascend_seat.processes import ours, run

RIGHT_AND_OURS = "True inductor_npu"


@pytest.mark.parametrize(
    "imports",
    [
        "import torch",
        "import torch, torch_npu",
        "import torch_npu, torch",
        "import inductor_npu, torch_npu",
        "import torch, torch._dynamo, torch_npu",
        "import torch, torch_npu._inductor",
        "import torch_npu, torch_npu._inductor",
        "import torch._inductor.compile_fx",
    ],
)
def test_ours_whatever_is_imported_first(imports: str) -> None:
    finished = run(f"{imports}\ncheck()\n")
    assert finished.lines() == [RIGHT_AND_OURS]
    assert ours(finished.stderr) == ""


def test_ours_after_each_mode() -> None:
    finished = run(
        """
import torch
for mode in (None, "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"):
    check(mode=mode)
    torch._dynamo.reset()
check(options={"npu_backend": "mlir"})
"""
    )
    assert finished.lines() == [RIGHT_AND_OURS] * 5
    assert finished.stderr.count("torch_npu's backend 'mlir'") == 1
    assert "INDUCTOR_NPU_PROVIDER=none" in finished.stderr


def test_a_variable_that_asks_for_another_backend_is_answered() -> None:
    finished = run("import torch\ncheck()\n", TORCHINDUCTOR_NPU_BACKEND="dvm")
    assert finished.lines() == [RIGHT_AND_OURS]
    assert finished.stderr.count("torch_npu's backend 'dvm'") == 1


def test_dynamo_and_inductor_ask_our_interface() -> None:
    finished = run(
        """
import torch
check()
from torch._dynamo.device_interface import get_interface_for_device
for device in ("npu", "npu:1"):
    interface = get_interface_for_device(device)
    properties = interface.Worker.get_device_properties(0)
    print(interface.is_triton_capable(), properties.multi_processor_count, properties.warp_size)
    print(interface.memory_allocated() > 0, interface.is_bf16_supported(), interface.device_count())
"""
    )
    x = ["True 40 32", "False True 2"]
    assert finished.lines()[1:] == [*x, *x]


def test_the_chip_decides_the_target() -> None:
    code = """
import torch
check()
from inductor_npu.providers import current_target
print(current_target().name, current_target().vector_cores)
"""
    assert run(code, STANDIN_SOC="Ascend910B1").lines()[1] == "Ascend910B1 48"
    asked = run(code, STANDIN_SOC="Ascend910B1", INDUCTOR_NPU_TARGET="Ascend910B4")
    assert asked.lines()[1] == "Ascend910B4 40"


def test_a_chip_that_we_do_not_know_is_one_line_and_eager_works() -> None:
    finished = run(
        """
import torch
print((torch.ones(3).npu() + 1).cpu().tolist())
try:
    check()
except Exception as error:
    print(str(error).splitlines()[0])
""",
        STANDIN_SOC="Ascend310P3",
    )
    values, message = finished.lines()
    assert values == "[2.0, 2.0, 2.0]"
    assert "UnknownChipError" in message and "'Ascend310P3'" in message and "INDUCTOR_NPU_TARGET" in message


@pytest.mark.parametrize("imports", ["import torch", "import torch_npu, torch"])
def test_the_embedded_npu_is_there_where_it_is_asked_for(imports: str) -> None:
    finished = run(
        f"""
{imports}
check()
import torch_npu
from inductor_npu.providers import current_provider
print(current_provider().name, torch_npu.npu is torch.npu, torch.npu.get_device_name())
""",
        INDUCTOR_NPU_PROVIDER="simulator",
    )
    assert finished.lines()[0] == RIGHT_AND_OURS
    assert finished.lines()[1].startswith("simulator True")
    assert ours(finished.stderr) == ""


@pytest.mark.parametrize("imports", ["import torch", "import torch_npu, torch"])
def test_torch_npu_is_as_it_was_where_nobody_is_to_provide(imports: str) -> None:
    finished = run(
        f"""
{imports}
import sys
ours = [name for name in sys.modules if name.startswith("inductor_npu.codegen")]
print((torch.ones(3).npu() + 1).cpu().tolist(), ours)
import torch_npu._inductor
from torch._dynamo.device_interface import get_interface_for_device
print(backend(), get_interface_for_device("npu").__module__.split(".")[0])
""",
        INDUCTOR_NPU_PROVIDER="none",
    )
    assert finished.lines() == ["[2.0, 2.0, 2.0] []", "torch_npu torch_npu"]


# Hides this package from a process: its entry point, and what its .pth put in front of all imports.
_WITHOUT_US = """
import importlib.metadata, sys
entry_points = importlib.metadata.entry_points
def others(**which):
    found = [entry for entry in entry_points(**which) if not entry.value.startswith("inductor_npu")]
    return importlib.metadata.EntryPoints(found)
importlib.metadata.entry_points = others
sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder).__name__ != "_BeforeTorchNpu"]
"""
# What torch.compile of torch_npu's gives, and what is registered and replaced where.
_STATE = """
import hashlib, sys
import torch
x = torch.randn(64, 300)
results = []
for function in (lambda a: a * 3 + 1, lambda a: a.softmax(-1), lambda a: a.sum(0)):
    try:
        results.append(torch.allclose(torch.compile(function)(x.npu()).cpu(), function(x), atol=1e-5))
    except Exception as error:
        results.append(type(error).__name__ + str(error).splitlines()[0])
print(results)
from torch._dynamo.device_interface import get_interface_for_device
from torch._inductor.codegen.common import device_codegens, device_op_overrides_dict
from torch._dynamo.backends.registry import list_backends
import torch._inductor.lowering, triton
print(device_codegens["npu"].scheduling, device_codegens["npu"].wrapper_codegen, get_interface_for_device("npu"))
print(type(device_op_overrides_dict.get("npu")), list_backends(exclude_tags=()), sorted(triton.backends.backends))
print(type(triton.runtime.driver.active), torch._TorchCompileInductorWrapper.__call__.__qualname__)
lowerings = torch._inductor.lowering.lowerings.items()
lowerings = sorted(f"{getattr(key, '__name__', key)} {value.__module__}" for key, value in lowerings)
print(hashlib.sha256(repr(lowerings).encode()).hexdigest(), len(lowerings))
print(sorted(name for name in sys.modules if name.startswith("inductor_npu.") and "import_hooks" not in name))
"""


def test_torch_npus_own_compiler_is_the_same_with_us_and_without() -> None:
    """Here that is an error: torch_npu 2.13's asks for a newer Triton of Ascend's than there is. One thread compiles:
    with more the error is another one once Inductor's pool of processes is up.
    """
    with_us = run(_STATE, INDUCTOR_NPU_PROVIDER="none", TORCHINDUCTOR_COMPILE_THREADS="1").lines()
    without_us = run(_WITHOUT_US + _STATE, TORCHINDUCTOR_COMPILE_THREADS="1").lines()
    assert with_us[:-1] == without_us[:-1]
    assert without_us[-1] == "[]" and "codegen" not in with_us[-1]
