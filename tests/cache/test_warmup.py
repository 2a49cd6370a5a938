"""Warming up: one process compiles, the others wait and load; and nothing else is changed by it."""

from __future__ import annotations

import subprocess
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch._dynamo.utils import counters

import inductor_npu
from inductor_npu.cache import turns, warmup
from inductor_npu.cache.entry import Key
from inductor_npu.cache.location import graph_store
from inductor_npu.errors import NoGradientError, NpuWarning
from tests.cache.conftest import forget
from tests.cache.programs import X, softmax
from tests.cache.together import holding, kernels_kept, run_together, total

pytestmark = pytest.mark.compiled


def model() -> torch.nn.Module:
    """A module with parameters, buffers that change in training, and random numbers."""
    layers = [torch.nn.Linear(16, 32), torch.nn.BatchNorm1d(32), torch.nn.GELU(), torch.nn.Dropout(0.5)]
    return torch.nn.Sequential(*layers, torch.nn.Linear(32, 4)).to("npu")


EXAMPLE = torch.linspace(-1, 1, 8 * 16).reshape(8, 16)

# ---- one process


def test_a_later_process_compiles_nothing(own_caches: Path, no_compiler: Callable[[], None]) -> None:
    first = inductor_npu.warmup(torch.compile(model()), EXAMPLE.to("npu"), backward=True)
    assert (first.graphs_compiled, first.graphs_loaded, first.kernels_loaded) == (2, 0, 0)
    assert first.kernels_compiled > 0
    forget()
    no_compiler()
    later = inductor_npu.warmup(torch.compile(model()), EXAMPLE.to("npu"), backward=True)
    assert (later.graphs_compiled, later.kernels_compiled) == (0, 0)
    assert (later.graphs_loaded, later.kernels_loaded) == (2, first.kernels_compiled)
    assert counters["aot_autograd"]["autograd_cache_hit"] == 1


def test_what_is_called_next_need_not_be_compiled(own_caches: Path) -> None:
    compiled = torch.compile(softmax)
    inductor_npu.warmup(compiled, X.to("npu"))
    with torch.compiler.set_stance("fail_on_recompile"):
        torch.testing.assert_close(compiled(X.to("npu")).cpu(), softmax(X))


def test_keywords_structures_and_shapes_that_vary(own_caches: Path) -> None:
    compiled = torch.compile(lambda pair, scale: {"sum": (pair[0] + pair[1]) * scale})
    for size in (40, 50):
        pair = (torch.ones(size, device="npu"), torch.ones(size, device="npu"))
        assert inductor_npu.warmup(compiled, pair, scale=2.0).graphs_compiled == 1
    pair = (torch.ones(60, device="npu"), torch.ones(60, device="npu"))
    with torch.compiler.set_stance("fail_on_recompile"):
        assert compiled(pair, scale=2.0)["sum"].sum().item() == 240


@pytest.mark.slow
def test_gradients_buffers_and_random_numbers_are_as_before(own_caches: Path) -> None:
    net, example = model(), EXAMPLE.to("npu").requires_grad_()
    net[0].weight.grad = torch.full_like(net[0].weight, 3.0)
    buffers = {name: buffer.cpu().clone() for name, buffer in net.named_buffers()}
    states = torch.get_rng_state(), torch.npu.get_rng_state()

    inductor_npu.warmup(torch.compile(net), example, backward=True)

    gradients = {name: parameter.grad for name, parameter in net.named_parameters()}
    assert gradients.pop("0.weight").eq(3.0).all()
    assert set(gradients.values()) == {None} and example.grad is None
    for name, buffer in net.named_buffers():
        assert torch.equal(buffer.cpu(), buffers[name]), name
    assert torch.equal(torch.get_rng_state(), states[0])
    assert torch.equal(torch.npu.get_rng_state(), states[1])


def test_modules_compiled_in_place_and_their_parts(own_caches: Path) -> None:
    class Layer(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return softmax(x)

    layer, model_of_layers = Layer(), torch.nn.Sequential(Layer())
    layer.compile()
    assert inductor_npu.warmup(layer, X.to("npu")).graphs_compiled == 1
    forget()
    model_of_layers[0].compile()
    assert inductor_npu.warmup(model_of_layers, X.to("npu")).graphs_loaded == 1


def test_what_was_not_compiled_is_said(own_caches: Path) -> None:
    with pytest.warns(NpuWarning, match="softmax was compiled for device npu: give warmup"):
        inductor_npu.warmup(softmax, X.to("npu"))
    compiled = torch.compile(softmax)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        inductor_npu.warmup(compiled, X.to("npu"))
        assert inductor_npu.warmup(compiled, X.to("npu")).graphs_compiled == 0  # it is ready already


def test_going_backward_needs_something_to_go_through(own_caches: Path) -> None:
    with pytest.raises(NoGradientError, match=r"softmax.*no tensor that it returns needs a gradient"):
        inductor_npu.warmup(torch.compile(softmax), X.to("npu"), backward=True)


def test_the_record_can_be_read(own_caches: Path) -> None:
    told = str(inductor_npu.warmup(torch.compile(softmax), X.to("npu")))
    assert told.startswith("compiled 1 graphs and 1 kernels, loaded 0 and 0, in ")


# ---- which piece of work it is


def named(function: Callable[..., object], *examples: object, backward: bool = False) -> dict[str, str]:
    return warmup._fields(function, examples, {}, backward)


def test_the_same_work_has_the_same_name() -> None:
    x = torch.ones(3, 4)
    assert named(softmax, x) == named(torch.compile(softmax), torch.zeros(3, 4))
    assert named(model()) == named(torch.compile(model()))


def test_other_work_has_another_name() -> None:
    x = torch.ones(3, 4)

    def doubled(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, -1) * 3

    other_names = [
        named(doubled, x),
        named(softmax, torch.ones(4, 3)),
        named(softmax, x.double()),
        named(softmax, torch.ones(4, 3).t()),
        named(softmax, x.to("npu")),
        named(softmax, torch.ones(3, 4, requires_grad=True)),
        named(softmax, x, 1),
        named(softmax, [x]),
        named(softmax, x, backward=True),
    ]
    with torch.no_grad():
        other_names.append(named(softmax, x))
    assert named(softmax, x) not in other_names
    assert len({tuple(fields.items()) for fields in other_names}) == len(other_names)


def test_layers_and_their_sizes_name_the_work() -> None:
    names = [named(torch.nn.Sequential(layer)) for layer in (torch.nn.Linear(2, 3), torch.nn.Linear(2, 4))]
    names += [named(torch.nn.Sequential(layer)) for layer in (torch.nn.ReLU(), torch.nn.GELU())]
    assert len({tuple(fields.items()) for fields in names}) == 4


# ---- several processes

TRAINING = """
import dataclasses, inductor_npu
torch.manual_seed(0)
layers = [torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.LayerNorm(32), torch.nn.Linear(32, 4)]
on_host = torch.nn.Sequential(*layers)
x = torch.linspace(-1, 1, 8 * 16).reshape(8, 16)
on_host(x).square().sum().backward()
gradients = [parameter.grad for parameter in on_host.parameters()]
on_host.zero_grad()
net = on_host.to("npu")
compiled = torch.compile(net)
begin_together()
record = inductor_npu.warmup(compiled, x.to("npu"), backward=True)
with torch.compiler.set_stance("fail_on_recompile"):
    compiled(x.to("npu")).square().sum().backward()
for parameter, expected in zip(net.parameters(), gradients):
    torch.testing.assert_close(parameter.grad.cpu(), expected)
tell(**dataclasses.asdict(record), traced=counters["aot_autograd"]["autograd_cache_miss"])
"""


@pytest.mark.slow
def test_one_process_compiles_and_the_others_load(tmp_path: Path) -> None:
    processes = 6
    found = run_together(TRAINING, processes, tmp_path / "caches")
    compiled = [each for each in found if each["kernels_compiled"]]
    assert len(compiled) == 1
    assert compiled[0]["kernels_compiled"] == kernels_kept(tmp_path / "caches") > 0
    assert total(found, "graphs_compiled") == compiled[0]["graphs_compiled"] == 2
    assert total(found, "graphs_loaded") == 2 * (processes - 1)
    assert total(found, "kernels_loaded") == compiled[0]["kernels_compiled"] * (processes - 1)
    assert total(found, "traced") == 1  # nobody else had AOTAutograd do anything
    assert sum(each["waited"] > 0 for each in found) >= processes // 2
    assert not any(each["timed_out"] for each in found)


CONNECTED = """
import dataclasses, inductor_npu
group = torch.distributed
meeting = {"init_method": "file://" + os.environ["GATE"] + ".group", "rank": int(os.environ["RANK"])}
group.init_process_group("gloo", world_size=int(os.environ["WORLD_SIZE"]), **meeting)
before, after = torch.compile(lambda x: x.sin() + x), torch.compile(lambda x: torch.softmax(x, -1))

def step(x):
    both = before(x).cpu()
    group.all_reduce(both)  # returns when all ranks have come so far
    return after(both.to("npu"))

x = torch.linspace(-1, 1, 60).reshape(6, 10)
begin_together()
record = inductor_npu.warmup(step, x.to("npu"), wait=300)
expected = torch.softmax((x.sin() + x) * group.get_world_size(), -1)
torch.testing.assert_close(step(x.to("npu")).cpu(), expected)
tell(**dataclasses.asdict(record))
group.destroy_process_group()
"""


@pytest.mark.slow
def test_ranks_may_wait_for_each_other_within_the_call(tmp_path: Path) -> None:
    found = run_together(CONNECTED, 3, tmp_path / "caches")
    assert total(found, "graphs_compiled") == 2
    assert total(found, "graphs_loaded") == 2 * 2
    assert total(found, "kernels_compiled") == kernels_kept(tmp_path / "caches") == 2
    assert max(each["seconds"] for each in found) < 300


# ---- when the first one does not end


@pytest.fixture
def holder(own_caches: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that seems to be compiling what `softmax` of X needs, for ever."""
    with holding(graph_store(), Key(turns.KIND, named(torch.compile(softmax), X.to("npu")))) as process:
        yield process


def test_who_waits_too_long_compiles_for_itself(holder: subprocess.Popen[str]) -> None:
    record = inductor_npu.warmup(torch.compile(softmax), X.to("npu"), wait=0.5)
    assert record.timed_out and 0.5 <= record.waited < 10
    assert record.kernels_compiled == 1


def test_the_next_takes_over_from_one_that_dies(holder: subprocess.Popen[str]) -> None:
    threading.Timer(1.0, holder.kill).start()
    began = time.monotonic()
    record = inductor_npu.warmup(torch.compile(softmax), X.to("npu"))
    assert time.monotonic() - began < 60
    assert record.waited > 0.5 and not record.timed_out
    assert record.kernels_compiled == 1


def test_one_that_fails_leaves_no_mark(own_caches: Path) -> None:
    def fails(x: torch.Tensor) -> torch.Tensor:
        softmax(x)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        inductor_npu.warmup(torch.compile(fails), X.to("npu"))
    assert not [listed for listed in graph_store().listed() if listed.kind == turns.KIND]


def test_where_files_cannot_be_locked_nobody_waits(own_caches: Path) -> None:
    graph_store().folder.mkdir(parents=True)
    (graph_store().folder / "locks").touch()
    record = inductor_npu.warmup(torch.compile(softmax), X.to("npu"))
    assert record.kernels_compiled == 1 and record.waited == 0
