"""A child compiles a graph's last kernels: nothing changes but the time, whatever becomes of the child."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch._functorch import config as functorch_config
from torch._inductor import config as inductor_config
from torch._inductor.utils import fresh_cache, run_and_get_code

import inductor_npu
from inductor_npu import providers
from inductor_npu.codegen.emit.npu_kernel import NpuKernel
from inductor_npu.codegen.scheduling import ahead_of_time as lookahead
from inductor_npu.codegen.scheduling.kernel_reuse import ReusableKernels
from models.zoo import build
from tests.codegen.scheduling.written_anew import every_repetition_written_anew
from tests.compile.helpers import check

OPERATORS = (torch.sin, torch.softmax, torch.cos, torch.relu, torch.exp, torch.tanh, torch.sigmoid, torch.cumsum)


def network(x: torch.Tensor, w: torch.Tensor, state: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """More different kernels than a child is worth, with products in between: loops, reductions, a scan, what is loaded
    by an index, what is written in place.
    """
    for number, function in enumerate(OPERATORS):
        x = function(x @ w, -1) if function in (torch.softmax, torch.cumsum) else function(x @ w) + number
    state.mul_(0.5).add_(x)
    return x[rows] @ w + state


def inputs(size: int = 24) -> tuple[torch.Tensor, ...]:
    return torch.randn(size, size), torch.randn(size, size) / size, torch.randn(size, size), torch.randperm(size)


class Children:
    """What the children of a test did: their process numbers, and how many kernels they sent."""

    def __init__(self) -> None:
        self.pids: list[int] = []
        self.kernels = 0
        self._go_first = False

    def go_first(self) -> None:
        """From now on the parent begins when its child has done what it can, so that a test does not depend on who is
        faster.
        """
        self._go_first = True

    def has_begun(self, pid: int) -> None:
        self.pids.append(pid)
        seconds, idle, until = -1.0, 0, time.monotonic() + 60
        while self._go_first and idle < 5 and time.monotonic() < until:
            time.sleep(0.05)
            state, now = _state(pid)
            # It has ended, or waits for somebody to read what it has sent.
            idle = 5 if state == "Z" else idle + 1 if (state, now) == ("S", seconds) else 0
            seconds = now

    def have_ended(self) -> bool:
        return not any(os.path.exists(f"/proc/{pid}") for pid in self.pids)


def _state(pid: int) -> tuple[str, float]:
    """What a process does (proc(5)), and the processor time that it has used, in ticks."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return fields[0], float(fields[11]) + float(fields[12])


@pytest.fixture
def children(monkeypatch: pytest.MonkeyPatch) -> Iterator[Children]:
    """The caches are on and empty, and each graph is compiled with one child."""
    seen = Children()
    fork, add = os.fork, ReusableKernels.add

    def counted_fork() -> int:
        pid = fork()
        if pid:
            seen.has_begun(pid)
        return pid

    def counted_add(self: ReusableKernels, *message: Any) -> None:
        seen.kernels += 1
        add(self, *message)

    monkeypatch.setattr(os, "fork", counted_fork)
    monkeypatch.setattr(ReusableKernels, "add", counted_add)
    monkeypatch.delenv("INDUCTOR_NPU_CACHE_DIR", raising=False)
    torch._dynamo.reset()
    with (
        fresh_cache(),
        inductor_config.patch(force_disable_caches=False, fx_graph_cache=False, compile_threads=2),
        functorch_config.patch(enable_autograd_cache=False),
    ):
        yield seen


@pytest.mark.slow
def test_the_code_is_the_same_as_without_a_child(children: Children) -> None:
    children.go_first()

    def code() -> list[str]:
        torch._dynamo.reset()
        moved = [value.npu() for value in made]
        with fresh_cache():
            _, (text,) = run_and_get_code(torch.compile(network, dynamic=False), *moved)
        return [line for line in text.splitlines() if not line.startswith(("# AOT ID", "# kernel path"))]

    made = inputs()
    with_child = code()
    assert children.kernels
    with inductor_config.patch(compile_threads=1):
        assert code() == with_child
    assert len(children.pids) == 1


@pytest.mark.slow
def test_kernels_of_children_are_as_if_written_here(children: Children) -> None:
    children.go_first()
    with every_repetition_written_anew() as repetitions:
        check(network, *inputs())
    assert children.kernels
    assert repetitions.taken >= children.kernels / 2
    assert repetitions.differences == []


@pytest.mark.slow
def test_kernels_of_children_count_as_compiled(children: Children) -> None:
    children.go_first()

    def times(threads: int) -> inductor_npu.CompileTimes:
        torch._dynamo.reset()
        made = [value.npu() for value in inputs()]
        with (
            fresh_cache(),
            inductor_config.patch(compile_threads=threads),
            inductor_npu.record_compile_times() as recorded,
        ):
            torch.compile(network, dynamic=False)(*made)
        return recorded

    alone, together = times(1), times(2)
    assert children.kernels
    assert (together.kernels_compiled, together.kernels_found) == (alone.kernels_compiled, 0)


@pytest.mark.slow
def test_several_children_share_what_there_is(children: Children) -> None:
    children.go_first()
    codegen, here = NpuKernel.codegen_body, []

    def counted(self: NpuKernel) -> None:
        here.append(self)
        codegen(self)

    with inductor_config.patch(compile_threads=8), patch.object(NpuKernel, "codegen_body", counted):
        check(network, *inputs())
    assert len(children.pids) == providers.SIMULATOR.most_children
    assert children.kernels >= len(OPERATORS)
    assert len(set(here)) == 1  # the first, which nobody has ahead


@pytest.mark.slow
def test_children_have_ended_with_the_graph(children: Children) -> None:
    with inductor_config.patch(compile_threads=8):
        check(network, *inputs())
    assert len(children.pids) == providers.SIMULATOR.most_children
    assert children.have_ended()


def raises() -> None:
    raise RuntimeError


def exits() -> None:
    os._exit(1)


def hangs() -> None:
    time.sleep(3600)


@pytest.mark.slow
@pytest.mark.parametrize("fate", [raises, exits, hangs])
def test_a_child_that_does_nothing_changes_nothing(
    fate: Callable[[], None], children: Children, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookahead, "_leave_the_parent_alone", fate)
    check(network, *inputs())
    assert (len(children.pids), children.kernels) == (1, 0)
    assert children.have_ended()


@pytest.mark.slow
def test_a_system_that_has_no_process_left_changes_nothing(children: Children, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> int:
        raise BlockingIOError("Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", refuse)
    check(network, *inputs())


def test_an_error_ends_the_child(children: Children) -> None:
    def fails(*_: object) -> None:
        raise ValueError("no kernel")

    moved = [value.npu() for value in inputs()]
    with (
        patch("inductor_npu.codegen.emit.npu_kernel.NpuKernel.codegen_kernel", fails),
        pytest.raises(torch._inductor.exc.InductorError, match="no kernel"),
    ):
        torch.compile(network)(*moved)
    assert len(children.pids) == 1
    assert children.have_ended()


def test_the_child_says_nothing(children: Children, capfd: pytest.CaptureFixture[str]) -> None:
    def loud() -> None:
        leave()
        print("printed")
        os.write(1, b"written")
        raise RuntimeError("raised")

    leave = lookahead._leave_the_parent_alone
    with patch.object(lookahead, "_leave_the_parent_alone", loud):
        check(network, *inputs())
    said = capfd.readouterr()
    assert "printed" not in said.out
    assert "written" not in said.out
    assert "raised" not in said.err


def test_a_child_that_is_ended_leaves_nothing_locked(children: Children) -> None:
    """tqdm's lock, under which torch.fx interprets graphs, is one for all processes."""

    def end(*_: object) -> None:
        tqdm.get_lock().acquire()
        os._exit(0)

    tqdm = pytest.importorskip("tqdm").tqdm
    tqdm.get_lock()
    with patch.object(lookahead, "_begin_at", end):
        check(network, *inputs())
    assert len(children.pids) == 1
    lock = tqdm.get_lock().mp_lock
    assert lock.acquire(timeout=5)
    lock.release()


@pytest.mark.parametrize(
    "settings",
    [{"compile_threads": 1}, {"force_disable_caches": True}, {"max_autotune": True}],
    ids=["one thread", "no caches", "max-autotune"],
)
def test_there_is_no_child_where_it_is_not_wanted(settings: dict[str, object], children: Children) -> None:
    with inductor_config.patch(settings):
        check(network, *inputs())
    assert children.pids == []


def test_there_is_no_child_for_a_few_kernels(children: Children) -> None:
    check(lambda x: torch.softmax(x, -1) + 1, torch.randn(9, 9))
    assert children.pids == []


@pytest.mark.slow
def test_sizes_that_vary_are_written_by_the_parent(children: Children, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is decided of them while a kernel is written would not be known to the parent."""
    compiled = torch.compile(network, dynamic=True)
    for size in (24, 36):
        made = inputs(size)
        expected = network(*(value.clone() for value in made))
        torch.testing.assert_close(compiled(*(value.npu() for value in made)).cpu(), expected)
    assert len(children.pids) == 1
    assert children.kernels == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bert", "llama", "t5", "resnet"])  # without a child: all (test_kernel_reuse.py)
def test_a_model_is_compiled_as_without_a_child(name: str, device: str, children: Children) -> None:
    model, examples, call = build(name)
    model = model.to(device).train()
    with every_repetition_written_anew() as repetitions:
        call(torch.compile(model), *(value.to(device) for value in examples)).square().mean().backward()
    assert children.kernels
    assert children.have_ended()
    assert repetitions.differences == []
