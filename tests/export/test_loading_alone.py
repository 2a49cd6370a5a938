"""A process that loads a package needs neither Triton, nor LLVM, nor the code generator."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import inductor_npu
from tests.export.models import Images
from tests.processes import run_python

pytestmark = pytest.mark.compiled

PROGRAM = """
    import sys
    {before}
    import torch
    import inductor_npu
    package = inductor_npu.load_package({path!r})
    print(package(torch.ones(2, 16, device="npu")).sum().item())
    names = ("triton", "llvmlite", "torch._inductor", "torch._dynamo", "inductor_npu.codegen", "inductor_npu.lowering",
             "inductor_npu.runtime", "inductor_npu.simulator.triton_backend.codegen",
             "inductor_npu.simulator.triton_backend.compiler", "inductor_npu.simulator.triton_backend.object_code",
             "inductor_npu.export.packaging")
    print([name for name in sys.modules if name.startswith(names)])
"""


@pytest.fixture
def wanted(classifier) -> float:
    with torch.no_grad():
        return classifier[0](torch.ones(2, 16)).sum().item()


def test_it_imports_none_of_them(classifier, wanted: float):
    total, imported = run_python(PROGRAM.format(before="", path=str(classifier[1]))).lines()
    assert float(total) == pytest.approx(wanted, abs=1e-4)
    assert imported == "[]"


def test_it_runs_where_they_cannot_be_imported(classifier, wanted: float):
    absent = 'sys.modules.update(dict.fromkeys(("triton", "llvmlite", "torch._inductor.compile_fx")))'
    total, _ = run_python(PROGRAM.format(before=absent, path=str(classifier[1]))).lines()
    assert float(total) == pytest.approx(wanted, abs=1e-4)


def test_on_another_device(classifier):
    model, path = classifier
    program = f"""
        import torch, inductor_npu
        first, second = (inductor_npu.load_package({str(path)!r}, device=index) for index in range(2))
        x = torch.ones(2, 16, device="npu:1")
        result = second(x)
        print(result.device, second.weights()["scale"].device, result.sum().item())
        print(first(x.to("npu:0")).device)
        try:
            first(x)
        except ValueError as error:
            print(error)
    """
    lines = run_python(program, INDUCTOR_NPU_SIM_DEVICES="2").lines()
    with torch.no_grad():
        wanted = model(torch.ones(2, 16)).sum().item()
    *devices, total = lines[0].split()
    assert devices == ["npu:1", "npu:1"] and float(total) == pytest.approx(wanted, abs=1e-4)
    assert lines[1] == "npu:0"
    assert lines[2].startswith("input x is on npu:1, and this package was loaded onto npu:0")


@pytest.mark.slow
@pytest.mark.quick
def test_pytorchs_own_loader(classifier, tmp_path: Path):
    """torch._inductor.aoti_load_package, which looks for a runner for npu that somebody registered."""
    pytest.importorskip(
        "torch", minversion="2.12", reason="torch 2.11 has no runners without a library of its own kind"
    )
    model, path = classifier
    program = f"""
        import torch
        from torch._inductor import aoti_load_package
        package = aoti_load_package({str(path)!r})
        x = torch.ones(2, 16, device="npu")
        print(package(x).sum().item(), sorted(package.get_constant_fqns())[:2])
        package.load_constants({{"scale": torch.zeros((), device="npu")}}, check_full_update=False)
        print(package(x).sum().item())
        whole = open({str(path)!r}, "rb").read()
        with open({str(tmp_path / "model.pt2")!r}, "wb") as file:
            file.write(whole.replace(b"instructions", b"Instructions"))
        try:
            aoti_load_package({str(tmp_path / "model.pt2")!r})
        except RuntimeError as error:
            print(error)
    """
    first, second, damaged = run_python(program).lines()
    assert damaged == "its member data/aotinductor/model/program.json is damaged: the checksum does not match"
    with torch.no_grad():
        assert float(first.split()[0]) == pytest.approx(model(torch.ones(2, 16)).sum().item(), abs=1e-4)
    assert first.endswith("['first.bias', 'first.weight']")
    assert float(second) == pytest.approx(2 * model.offset.sum().item(), abs=1e-4)


def test_kernels_that_call_the_runtime(tmp_path: Path):
    """A sort is a function of the runtime's, which the kernel's library finds by its name."""

    class Sorted(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.sort(-1).values * 2

    x = torch.randn(3, 16)
    path = inductor_npu.package(Sorted(), (x,), path=tmp_path / "model.pt2")
    torch.testing.assert_close(inductor_npu.load_package(path)(x.to("npu")).cpu(), x.sort(-1).values * 2)


@pytest.mark.slow
def test_images_in_a_process_of_their_own(tmp_path: Path):
    model = Images().eval()
    path = inductor_npu.package(model, (torch.randn(1, 3, 16, 16),), path=tmp_path / "model.pt2")
    program = f"""
        import torch, inductor_npu
        print(inductor_npu.load_package({str(path)!r})(torch.ones(1, 3, 16, 16, device="npu")).tolist()[0])
    """
    (line,) = run_python(program).lines()
    with torch.no_grad():
        wanted = model(torch.ones(1, 3, 16, 16))[0]
    torch.testing.assert_close(torch.tensor(eval(line)), wanted, rtol=1e-4, atol=1e-5)
