"""Packages with the real torch_npu: made, loaded in this process and in one that compiles nothing, and refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import inductor_npu
from inductor_npu.errors import NoCppProgramsError
from inductor_npu.export.cpp import cmake_arguments
from tests.ascend_seat.processes import run
from tests.export.models import Classifier, Encoder, Folding, Operators, OwnKernel, packaged_classifier
from tests.export.test_packages import assert_close, expected, on_npu
from tests.export.test_refusals import altered, refusal, with_manifest

BATCH = torch.export.Dim("batch", min=1, max=64)


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> tuple[Classifier, Path]:
    return packaged_classifier(tmp_path_factory.mktemp("package"))


@pytest.mark.parametrize("batch", [1, 17, 64])
def test_any_batch_of_a_dynamic_size(classifier, batch: int) -> None:
    model, path = classifier
    x = torch.randn(batch, 16)
    assert_close(inductor_npu.load_package(path)(x.to("npu")), expected(model, x))


def test_operators_between_kernels(tmp_path: Path) -> None:
    model, x = Operators(), torch.randn(6, 4)
    path = inductor_npu.package(model, (x,), path=tmp_path / "model.pt2", dynamic_shapes=({0: BATCH},))
    assert_close(inductor_npu.load_package(path)(x.to("npu")), expected(model, x))


def test_a_layer_of_a_transformer(tmp_path: Path) -> None:
    model, tokens = Encoder().eval(), torch.randint(31, (2, 9))
    path = inductor_npu.package(model, (tokens,), path=tmp_path / "model.pt2")
    assert_close(inductor_npu.load_package(path)(tokens.to("npu")), expected(model, tokens))


def test_a_kernel_that_a_user_wrote(tmp_path: Path) -> None:
    example = torch.randn(300, device="npu")
    program = torch.export.export(OwnKernel(), (example,), dynamic_shapes=({0: torch.export.Dim("n", min=2)},))
    package = inductor_npu.load_package(inductor_npu.package(program, path=tmp_path / "model.pt2"))
    x = torch.randn(1000)
    assert package(x.to("npu")).item() == 1 + (x > 0).sum().item()


def test_weights_are_updated_and_what_is_computed_of_them(tmp_path: Path) -> None:
    model, other, x = Folding(), Folding(), torch.randn(5, 16)
    package = inductor_npu.load_package(inductor_npu.package(model, (x,), path=tmp_path / "model.pt2"))
    assert_close(package(*on_npu((x,))), expected(model, x))
    package.update_weights(other.state_dict())
    assert_close(package(*on_npu((x,))), expected(other, x))


def test_a_process_without_triton_and_the_code_generator(classifier) -> None:
    model, path = classifier
    program = f"""
import sys
sys.modules["triton"] = None  # an import of it fails
import torch, inductor_npu
package = inductor_npu.load_package({str(path)!r}, device="npu:1")
result = package(torch.ones(2, 16, device="npu:1"))
print(result.device, result.sum().item())
names = ("inductor_npu.codegen", "inductor_npu.lowering", "inductor_npu.export.packaging")
print([name for name in sys.modules if name.startswith(names)])
"""
    place, imported = run(program).lines()
    device, total = place.split()
    assert device == "npu:1" and imported == "[]"
    assert float(total) == pytest.approx(expected(model, torch.ones(2, 16)).sum().item(), abs=1e-4)


def test_a_call_is_captured(classifier) -> None:
    model, path = classifier
    package, x = inductor_npu.load_package(path), torch.randn(8, 16).npu()
    package(x)
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        y = package(x)
    for _ in range(2):
        x.copy_(torch.randn(8, 16))
        graph.replay()
        assert_close(y, expected(model, x.cpu()))


def test_what_does_not_fit_is_refused(classifier, tmp_path: Path) -> None:
    path, facts = classifier[1], {"vector_cores": 1, "max_grid": 1, "memory": None}
    for changes, message in (
        (
            {"provider": "simulator"},
            "it is for provider simulator, and device npu of this process is provided by torch_npu",
        ),
        (
            {"target": {"name": "Ascend310B4", **facts}},
            "it is for target Ascend310B4, and device npu of this process is",
        ),
    ):
        assert refusal(with_manifest(path, tmp_path / "model.pt2", **changes)).startswith(message)

    def damage(members: dict[str, bytes]) -> None:
        (name, *_) = [name for name in members if name.endswith(".npubin")]
        members[name] = members[name][:-1] + bytes([members[name][-1] ^ 1])

    assert "damaged: the checksum does not match" in refusal(altered(path, tmp_path / "model.pt2", damage))
    inductor_npu.load_package(path)(torch.randn(2, 16, device="npu"))


def test_a_loader_that_cannot_be_built_says_what_it_needs(classifier, tmp_path: Path) -> None:
    program = f"""
import torch, inductor_npu
try:
    inductor_npu.load_package({str(classifier[1])!r})
except inductor_npu.errors.PackageRuntimeBuildError as error:
    print(str(error).splitlines()[0])
print(torch.ones(3).npu().sum().item())
"""
    message, total = run(program, INDUCTOR_NPU_CACHE_DIR=str(tmp_path / "empty"), CXX="false").lines()
    assert message.startswith("building what loads packages with torch_npu failed. It needs a compiler with C++20")
    assert total == "3.0"


def test_programs_in_cpp_are_for_the_embedded_npu() -> None:
    with pytest.raises(NoCppProgramsError, match="torch_npu's library needs Python"):
        cmake_arguments()
