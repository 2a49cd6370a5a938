"""What a package computes is what the model computes."""

from __future__ import annotations

import copy
import threading
from pathlib import Path

import pytest
import torch
from torch.utils._pytree import tree_map_only

import inductor_npu
from models import zoo
from tests.export.models import Classifier, Counter, Encoder, Flexible, Images, Operators, OwnKernel, Structured

pytestmark = pytest.mark.compiled

BATCH = torch.export.Dim("batch", min=1, max=64)


def on_npu(value):
    return tree_map_only(torch.Tensor, lambda tensor: tensor.to("npu"), value)


def expected(model: torch.nn.Module, *args, **kwargs):
    with torch.no_grad():
        return model(*args, **kwargs)


def assert_close(actual, wanted) -> None:
    torch.testing.assert_close(tree_map_only(torch.Tensor, torch.Tensor.cpu, actual), wanted, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("batch", [1, 3, 17, 64])
def test_any_batch_of_a_dynamic_size(classifier, batch: int):
    model, path = classifier
    x = torch.randn(batch, 16)
    assert_close(inductor_npu.load_package(path)(x.to("npu")), expected(model, x))


@pytest.mark.parametrize(
    ("model", "args"),
    [
        (Images, (torch.Size([2, 3, 32, 32]),)),
        (Operators, (torch.Size([6, 4]),)),
    ],
)
def test_kernels_and_operators(model, args, tmp_path: Path):
    model, inputs = model().eval(), tuple(torch.randn(size) for size in args)
    path = inductor_npu.package(model, inputs, path=tmp_path / "model.pt2", dynamic_shapes=({0: BATCH},))
    package = inductor_npu.load_package(path)
    assert_close(package(*on_npu(inputs)), expected(model, *inputs))
    others = tuple(torch.randn(5, *size[1:]) for size in args)
    assert_close(package(*on_npu(others)), expected(model, *others))


def test_a_layer_of_a_transformer(tmp_path: Path):
    model, tokens = Encoder().eval(), torch.randint(31, (2, 9))
    path = inductor_npu.package(model, (tokens,), path=tmp_path / "model.pt2")
    assert_close(inductor_npu.load_package(path)(tokens.to("npu")), expected(model, tokens))


@pytest.mark.parametrize("elements", [100, 1000])
def test_a_kernel_that_a_user_wrote(elements: int, tmp_path: Path):
    example = torch.randn(300, device="npu")
    program = torch.export.export(OwnKernel(), (example,), dynamic_shapes=({0: torch.export.Dim("n", min=2)},))
    package = inductor_npu.load_package(inductor_npu.package(program, path=tmp_path / "model.pt2"))
    x = torch.randn(elements)
    assert package(x.to("npu")).item() == 1 + (x > 0).sum().item()


def test_flex_attention(tmp_path: Path):
    inputs = [torch.randn(2, 2, 33, 16) for _ in range(3)]
    path = inductor_npu.package(Flexible(), tuple(inputs), path=tmp_path / "model.pt2")
    assert_close(inductor_npu.load_package(path)(*on_npu(inputs)), expected(Flexible(), *inputs))


def test_sizes_that_follow_from_others(tmp_path: Path):
    class Shifted(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return torch.cat([x[1:] + y, x])

    length = torch.export.Dim("length", min=2, max=50)
    x, y = torch.randn(5, 2), torch.randn(4, 2)
    path = inductor_npu.package(
        Shifted(), (x, y), path=tmp_path / "m.pt2", dynamic_shapes=({0: length + 1}, {0: length})
    )
    package = inductor_npu.load_package(path)
    x, y = torch.randn(9, 2), torch.randn(8, 2)
    assert_close(package(x.to("npu"), y.to("npu")), expected(Shifted(), x, y))
    with pytest.raises(ValueError, match="input y has size 9 in dimension 0, and other inputs say that it has to be 8"):
        package(x.to("npu"), x.to("npu"))


def test_sizes_in_arguments_of_operators(tmp_path: Path):
    class Resized(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            half = x.shape[0] // 2
            larger = torch.nn.functional.interpolate(
                x[None, None], size=(2 * x.shape[0], x.shape[1] + 1), mode="bicubic", antialias=True
            )
            return torch.topk(x, half, dim=0)[0], larger, torch.fft.rfft(x, n=x.shape[0] + 3).abs()

    half = torch.export.Dim("half", min=4, max=32)
    path = inductor_npu.package(
        Resized(), (torch.randn(10, 12),), path=tmp_path / "model.pt2", dynamic_shapes=({0: 2 * half},)
    )
    x = torch.randn(14, 12)
    assert_close(inductor_npu.load_package(path)(x.to("npu")), expected(Resized(), x))


def test_operators_without_a_result(tmp_path: Path):
    """Here what checks for errors."""

    class Inverse(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.inv(x.t() @ x + torch.eye(4, device=x.device))

    x = torch.randn(6, 4)
    path = inductor_npu.package(Inverse(), (x,), path=tmp_path / "model.pt2")
    assert_close(inductor_npu.load_package(path)(x.to("npu")), expected(Inverse(), x))


@pytest.mark.parametrize("options", [{"max_autotune": True}, {"triton.multi_kernel": 0, "epilogue_fusion": False}])
def test_settings_of_inductor(options, tmp_path: Path):
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 64)).eval()
    x = torch.randn(32, 64)
    path = inductor_npu.package(model, (x,), path=tmp_path / "model.pt2", options=options)
    assert_close(inductor_npu.load_package(path)(x.to("npu")), expected(model, x))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "t5", "vit"])
def test_models_of_transformers(name: str, tmp_path: Path):
    model, inputs, call = zoo.build(name)

    class Called(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
            return call(self.model, *inputs)

    path = inductor_npu.package(Called().eval(), inputs, path=tmp_path / "model.pt2")
    torch.testing.assert_close(
        inductor_npu.load_package(path)(*on_npu(inputs)).cpu(), expected(call, model, *inputs), rtol=1e-4, atol=1e-4
    )


def test_arguments_and_results_keep_their_structure(tmp_path: Path):
    pair = (torch.randn(3, 4), torch.randn(3, 4))
    options = {"times": 3, "flag": False, "name": "other", "bias": None}
    path = inductor_npu.package(Structured(), (pair,), options, path=tmp_path / "model.pt2")
    package = inductor_npu.load_package(path)
    reversed_options = dict(reversed(options.items()))
    assert_close(package(on_npu(pair), **reversed_options), expected(Structured(), pair, **options))
    with pytest.raises(ValueError, match="the arguments have the structure"):
        package(on_npu(pair[0]), **options)


def test_an_exported_program_stays_where_it_is(tmp_path: Path):
    model, x = Classifier().eval(), torch.randn(4, 16)
    program = torch.export.export(model, (x,))
    path = inductor_npu.package(program, path=tmp_path / "model.pt2")
    assert {tensor.device.type for tensor in program.state_dict.values()} == {"cpu"}
    assert_close(program.module()(x), model(x))
    assert_close(inductor_npu.load_package(path)(x.to("npu")), expected(model, x))


def test_what_the_model_writes_is_written(tmp_path: Path):
    """Buffers from call to call, and an argument, also one that is no view that kernels can take."""
    model = Counter()
    package = inductor_npu.load_package(
        inductor_npu.package(copy.deepcopy(model), (torch.randn(3, 4),), path=tmp_path / "model.pt2")
    )
    for _ in range(2):
        x = torch.randn(4, 3)
        moved = x.to("npu")
        assert_close(package(moved.t()), expected(model, x.t()))
        assert_close(moved, x)
    assert_close(package.weights()["count"], torch.full((4,), 2.0))


def test_inputs_with_other_strides_or_places_in_memory_are_copied(classifier):
    model, path = classifier
    package = inductor_npu.load_package(path)
    whole = torch.randn(16 * 16 + 1)
    for x in (
        torch.randn(16, 16).t(),
        whole[1:].view(16, 16),
        torch.randn(4, 32)[:, ::2],
        torch.randn(16).expand(3, 16),
    ):
        assert_close(
            package(x.to("npu") if x.storage_offset() == 0 else whole.to("npu")[1:].view(16, 16)), expected(model, x)
        )
    strided = torch.randn(4, 32).to("npu")[:, ::2]
    assert_close(package(strided), expected(model, strided.cpu()))


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (
            lambda: torch.randn(65, 16, device="npu"),
            "input x has size 65 in dimension 0: the model was exported for 1 to 64",
        ),
        (lambda: torch.randn(4, 15, device="npu"), "input x has size 15 in dimension 1, and has to have 16"),
        (lambda: torch.randn(4, device="npu"), "input x has 1 dimensions, and has to have 2"),
        (
            lambda: torch.randn(4, 16),
            "input x is on cpu, and this package was loaded onto npu:0: move it there, with .to",
        ),
        (
            lambda: torch.zeros(4, 16, dtype=torch.int64, device="npu"),
            "input x is of type int64, and has to be of float32",
        ),
    ],
)
def test_inputs_that_do_not_fit_are_named(classifier, x, message: str):
    package = inductor_npu.load_package(classifier[1])
    with pytest.raises(ValueError, match=message):
        package(x())
    package(torch.randn(4, 16, device="npu"))


def test_two_packages_in_one_process(classifier, tmp_path: Path):
    model, path = classifier
    other, image = Images().eval(), torch.randn(1, 3, 32, 32)
    packages = [
        inductor_npu.load_package(path),
        inductor_npu.load_package(inductor_npu.package(other, (image,), path=tmp_path / "other.pt2")),
        inductor_npu.load_package(path),
    ]
    x = torch.randn(7, 16)
    results = [package(image.to("npu") if i == 1 else x.to("npu")) for i, package in enumerate(packages)]
    assert_close(results, [expected(model, x), expected(other, image), expected(model, x)])
    assert packages[0].weights()["scale"].data_ptr() != packages[2].weights()["scale"].data_ptr()


def test_four_threads_share_a_package(classifier):
    model, path = classifier
    package = inductor_npu.load_package(path)
    inputs = [torch.randn(1 + 5 * i, 16) for i in range(4)]
    wanted = [expected(model, x) for x in inputs]
    failures: list[BaseException] = []

    def call(number: int) -> None:
        try:
            with torch.npu.stream(torch.npu.Stream()):
                for _ in range(50):
                    x = inputs[number].to("npu")
                    assert_close(package(x), wanted[number])
        except BaseException as failure:  # noqa: BLE001 - raised below, in the test's thread
            failures.append(failure)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]


def test_a_run_is_queued_on_the_current_stream(classifier):
    package = inductor_npu.load_package(classifier[1])
    stream, x = torch.npu.Stream(), torch.randn(4, 16, device="npu")
    torch.npu.synchronize()
    with torch.npu.stream(stream):
        result = package(x)
    stream.synchronize()
    assert_close(result, package(x).cpu())


def test_the_same_model_gives_the_same_file(classifier, tmp_path: Path):
    model, path = classifier
    again = inductor_npu.package(
        model, (torch.randn(4, 16),), path=tmp_path / "classifier.pt2", dynamic_shapes=({0: BATCH},)
    )
    assert again.read_bytes() == path.read_bytes()
