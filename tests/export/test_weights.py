"""Weights: updated in place, beside the package, folded."""

from __future__ import annotations

import copy
import json
import struct
import threading
import zipfile
from pathlib import Path

import pytest
import torch

import inductor_npu
from inductor_npu.errors import PackageError
from tests.export.models import MODEL, Classifier, Folding

pytestmark = pytest.mark.compiled


def member(path: Path, name: str) -> bytes:
    with zipfile.ZipFile(path) as archive:
        return archive.read(f"{path.stem}/{MODEL}{name}")


def close(package, model: torch.nn.Module, x: torch.Tensor) -> None:
    with torch.no_grad():
        torch.testing.assert_close(package(x.to("npu")).cpu(), model(x), rtol=2e-5, atol=2e-5)


def test_updated_in_place(classifier):
    model, path = copy.deepcopy(classifier[0]), classifier[1]
    package, x = inductor_npu.load_package(path), torch.randn(5, 16)
    before = {name: tensor.data_ptr() for name, tensor in package.weights().items()}
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
    package.update_weights(model.state_dict())
    close(package, model, x)
    package.update_weights({"scale": torch.tensor(0.0, device="npu")})
    torch.testing.assert_close(package(x.to("npu")).cpu(), model.offset.expand(5, 8))
    assert {name: tensor.data_ptr() for name, tensor in package.weights().items()} == before


def test_a_run_sees_all_of_an_update_or_nothing(classifier):
    model, path = classifier
    package, x = inductor_npu.load_package(path), torch.randn(5, 16)
    states = [model.state_dict(), {name: 2 * value for name, value in model.state_dict().items()}]
    other = copy.deepcopy(model)
    other.load_state_dict(states[1])
    with torch.no_grad():
        wanted = [model(x), other(x)]
    wrong: list[torch.Tensor] = []
    done = threading.Event()

    def call() -> None:
        with torch.npu.stream(torch.npu.Stream()):
            moved = x.to("npu")
            while not done.is_set():
                result = package(moved).cpu()
                if not any(torch.allclose(result, each, atol=1e-5) for each in wanted):
                    wrong.append(result)

    threads = [threading.Thread(target=call) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(40):
        package.update_weights(states[number % 2])
    done.set()
    for thread in threads:
        thread.join()
    assert not wrong


def test_an_update_that_does_not_fit_changes_nothing(classifier):
    model, path = classifier
    package, x = inductor_npu.load_package(path), torch.randn(5, 16)
    zeros = torch.zeros_like(model.last.bias)
    for wrong, message in (
        ({"last.bias": zeros, "other": zeros}, "this package has no weight other"),
        ({"last.bias": zeros[1:]}, r"weight last\.bias is float32 of sizes \[8\], and cannot become float32 of sizes"),
        ({"last.bias": zeros.double()}, "cannot become float64"),
    ):
        with pytest.raises(ValueError, match=message):
            package.update_weights(wrong)
    close(package, model, x)


def test_what_depends_on_weights_alone_is_computed_once_and_after_updates(tmp_path: Path):
    model, x = Folding(), torch.randn(3, 16)
    path = inductor_npu.package(model, (x,), path=tmp_path / "model.pt2")
    program = json.loads(member(path, "program.json"))
    assert [step["operator"] for step in program["folding"]["instructions"] if step["do"] == "call"]
    assert [step["do"] for step in program["program"]["instructions"]].count("launch") == 1  # the product
    package = inductor_npu.load_package(path)
    close(package, model, x)
    with torch.no_grad():
        model.length.mul_(3)
        model.direction.normal_()
    package.update_weights(model.state_dict())
    close(package, model, x)


def test_weights_that_are_compressed_stay_compressed(tmp_path: Path):
    class Compressed(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("weight", torch.randint(-128, 127, (16, 8), dtype=torch.int8))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ (self.weight.float() * 0.01)

    path = inductor_npu.package(Compressed(), (torch.randn(3, 16),), path=tmp_path / "model.pt2")
    assert json.loads(member(path, "program.json"))["folding"]["outputs"] == []


def test_tied_weights_are_stored_once(tmp_path: Path):
    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.head = torch.nn.Embedding(11, 16), torch.nn.Linear(16, 11, bias=False)
            self.head.weight = self.embedding.weight

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            return self.head(self.embedding(tokens))

    model, tokens = Tied(), torch.randint(11, (2, 3))
    package = inductor_npu.load_package(inductor_npu.package(model, (tokens,), path=tmp_path / "model.pt2"))
    (weight,) = package.manifest["weights"]["list"]
    assert sorted(weight["names"]) == ["embedding.weight", "head.weight"]
    close(package, model, tokens)


def test_beside_the_package(tmp_path: Path):
    model, x = Classifier().eval(), torch.randn(4, 16)
    path = inductor_npu.package(model, (x,), path=tmp_path / "model.pt2", weights="beside")
    beside = tmp_path / "model.safetensors"
    (length,) = struct.unpack("<Q", beside.read_bytes()[:8])
    assert json.loads(beside.read_bytes()[8 : 8 + length])["first.weight"]["shape"] == [32, 16]
    close(inductor_npu.load_package(path), model, x)
    elsewhere = beside.rename(tmp_path / "elsewhere.bin")
    with pytest.raises(PackageError, match=r"its weights are in a file beside it, .*model\.safetensors.*No such file"):
        inductor_npu.load_package(path)
    close(inductor_npu.load_package(path, weights=elsewhere), model, x)
    elsewhere.write_bytes(elsewhere.read_bytes()[:-1] + b"?")
    with pytest.raises(PackageError, match="it is damaged, the checksum does not match"):
        inductor_npu.load_package(path, weights=elsewhere)
