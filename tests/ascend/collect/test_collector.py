"""What is kept of a program's launches."""

from __future__ import annotations

import inspect
from pathlib import Path
from types import SimpleNamespace

import numpy
import pytest
import torch
import triton
import triton.language as tl

from inductor_npu.ascend import kernel
from inductor_npu.ascend.collect.afresh import compiled_afresh
from inductor_npu.ascend.collect.collection import Activity, Collection
from inductor_npu.ascend.collect.collector import collecting
from inductor_npu.ascend.collect.source import kernel_source
from inductor_npu.ascend.kernel import TensorArgument
from inductor_npu.diagnostics.explanation.data import Arithmetic

pytestmark = pytest.mark.compiled


def scale_kernel():
    """A kernel that this process has not loaded: one loaded before is not seen."""

    @triton.jit
    def scale(source, target, count, factor, BLOCK: tl.constexpr, TYPE: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(target + i, (tl.load(source + i, mask=i < count) * factor).to(TYPE), mask=i < count)

    return scale


def collect(run, folder: Path, data_limit: int | None = None) -> Collection:
    with compiled_afresh(), collecting(folder, data_limit):
        run()
    return Collection.load(folder)


def test_a_users_kernel_with_its_grid_arguments_and_place(tmp_path: Path):
    x = torch.arange(200, dtype=torch.float32, device="npu")
    source, target = x[:100], x[100:]

    def run():
        scale = scale_kernel()
        for _ in range(3):
            scale[(2,)](source, target, 100, 0.5, BLOCK=64, TYPE=tl.float32)

    collection = collect(run, tmp_path)
    (found,) = collection.kernels
    assert found.launches == 3 and found.launch.grid == (2, 1, 1) and found.launch.data is None
    assert found.source.signature == {"source": "*fp32", "target": "*fp32", "count": "i32", "factor": "fp32"}
    assert found.source.constants == {"BLOCK": 64, "TYPE": "tl.float32"}
    assert found.source.divisible == ("source", "target")
    assert found.launch.arguments == {
        "source": TensorArgument("float32", (100,), (1,), 0, 0, 800),
        "target": TensorArgument("float32", (100,), (1,), 100, 0, 800),
        "count": 100,
        "factor": 0.5,
    }
    (line,) = found.origin.lines
    place, _, text = line.partition(": ")
    assert place.startswith("tests/ascend/collect/test_collector.py:") and text.startswith("def scale(source, target")
    assert collection.omissions == [] and collection.activity.used_npu
    assert kernel.load(tmp_path) == collection.kernels


def test_who_does_the_arithmetic_of_compiled_graphs(tmp_path: Path):
    x = torch.ones(16, 32, device="npu")
    collection = collect(lambda: torch.compile(lambda x: (x @ x.T, x.double() @ x.double().T))(x), tmp_path)
    product = 2 * 16 * 32 * 16
    assert collection.arithmetic == Arithmetic(product, product, 0, (("mm", 1),))
    assert Collection.load(tmp_path / "nowhere").arithmetic is None


def test_the_bytes_before_and_after_the_first_launch(tmp_path: Path):
    x, out = torch.arange(100, dtype=torch.float32, device="npu"), torch.zeros(100, device="npu")

    def run():
        scale = scale_kernel()
        for _ in range(2):
            scale[(2,)](x, out, 100, 2.0, BLOCK=64, TYPE=tl.float32)
            out.add_(1)

    (found,) = collect(run, tmp_path, data_limit=800).kernels
    with numpy.load(tmp_path / found.launch.data) as data:
        assert (data["before_0"].view(numpy.float32) == numpy.arange(100)).all()
        assert (data["before_1"].view(numpy.float32) == 0).all()
        assert (data["after_1"].view(numpy.float32) == 2 * numpy.arange(100)).all()
    (found,) = collect(run, tmp_path, data_limit=799).kernels
    assert found.launch.data is None


def test_kernels_of_two_graphs_that_differ_in_their_name_only_are_one(tmp_path: Path):
    x = torch.randn(1000, device="npu")

    def run():
        for _ in range(2):
            torch.compile(lambda x: (torch.sin(x) + 1).to(torch.float16))(x)
        torch.compile(lambda x: torch.stack([torch.exp(x).sum(), (torch.sin(x) + 1).to(torch.float16).sum()]))(x)

    kernels = collect(run, tmp_path).kernels
    sines = [found for found in kernels if found.origin.operators[0] == "aten.sin"]
    assert sines[0].launches == 2 and len({found.source.text for found in kernels}) == len(kernels)


def test_origins_name_operators_and_lines(tmp_path: Path):
    x = torch.randn(64, device="npu")
    (found,) = collect(lambda: torch.compile(lambda x: torch.nn.functional.gelu(x) * 2)(x), tmp_path).kernels
    assert found.origin.operators == ("aten.gelu", "aten.mul")
    assert found.origin.lines[0].startswith("tests/ascend/collect/test_collector.py:")


def test_candidates_that_inductor_times_are_not_the_programs_launches(tmp_path: Path):
    x = torch.randn(100_000, device="npu")
    options = {"max_autotune": True, "max_autotune_pointwise": True}

    def run():
        compiled = torch.compile(lambda x: torch.exp(x) + 1, options=options)
        for _ in range(4):
            compiled(x)

    (found,) = collect(run, tmp_path).kernels
    assert found.launches == 4


@triton.jit
def double(x):
    return x * 2


@pytest.mark.skipif(
    "Callable constexpr" in inspect.getsource(triton.runtime.jit), reason="this Triton takes no function as an argument"
)
def test_a_kernel_that_cannot_be_taken_out_is_named_and_runs(tmp_path: Path):
    out = torch.ones(1, device="npu")

    @triton.jit
    def apply(target, function: tl.constexpr):
        tl.store(target, function(tl.load(target)))

    collection = collect(lambda: apply[(1,)](out, double), tmp_path)
    (omission,) = collection.omissions
    assert collection.kernels == [] and "constant 'function' is a JITFunction" in omission.reason and out.item() == 2


def test_a_failing_program_keeps_what_was_collected(tmp_path: Path):
    x = torch.randn(64, device="npu")

    def run():
        scale_kernel()[(1,)](x, x, 64, 2.0, BLOCK=64, TYPE=tl.float32)
        raise ValueError("no luck")

    with pytest.raises(ValueError, match="no luck"):
        collect(run, tmp_path)
    assert [found.source.name for found in Collection.load(tmp_path).kernels] == ["scale"]


def test_advice_says_what_would_make_kernels():
    assert "Move model and inputs there" in Collection(activity=Activity(used_npu=False)).advice()
    assert "torch.compile(model)" in Collection(activity=Activity(used_npu=True)).advice()
    assert "matrix products" in Collection(activity=Activity(used_npu=True, graphs=1)).advice()


def test_sources_of_triton_32_have_names_and_attributes_of_its_own():
    function = scale_kernel()
    source = SimpleNamespace(
        fn=function,
        name="scale",
        signature={"source": "*fp32", "target": "*fp32", "count": "i32", "factor": "fp32"},
        constants={"count": 1, "BLOCK": 64, "TYPE": tl.float32},
        attrs=SimpleNamespace(arg_properties={"tt.divisibility": [1, 0], "tt.equal_to": [2]}),
    )
    found = kernel_source(source)
    assert found.signature == {"source": "*fp32", "target": "*fp32", "factor": "fp32"}
    assert found.constants == {"count": 1, "BLOCK": 64, "TYPE": "tl.float32"}
    assert found.divisible == ("source", "target")


NO_LIMIT = {"limit_auto_multi_buffer_of_local_buffer": "no-limit", "set_workspace_multibuffer": 2}


def tuned_kernel():
    return triton.autotune([triton.Config({"BLOCK": 64, **NO_LIMIT})], key=[])(scale_kernel())


@pytest.mark.parametrize("form", ["keywords of a launch", "configuration", "configuration, compiled"])
def test_what_a_launch_asks_of_ascends_compiler(form: str, tmp_path: Path):
    """Inductor drops the keywords of a launch that are no arguments; those of a configuration it has."""
    tuned = form != "keywords of a launch"
    scale = tuned_kernel() if tuned else scale_kernel()
    keywords = {"TYPE": tl.float32} if tuned else {"TYPE": tl.float32, "BLOCK": 64, **NO_LIMIT}

    def run(source):
        target = torch.empty_like(source)
        scale[(2,)](source, target, 100, 0.5, **keywords)
        return target

    run = torch.compile(run) if "compiled" in form else run
    (found,) = collect(lambda: run(torch.ones(100, device="npu")), tmp_path).kernels
    assert found.source.options == NO_LIMIT


def test_a_kernel_without_options_has_the_key_of_before():
    plain = kernel.KernelSource("k", "text", {}, {})
    assert plain.key == "abd3c1cdf18d0bcba41dcbd58145f26d"
    assert kernel.KernelSource("k", "text", {}, {}, (), NO_LIMIT).key != plain.key
