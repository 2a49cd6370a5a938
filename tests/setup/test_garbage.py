"""Full garbage collections wait until a compile is over, and the process has its own settings back afterwards."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator

import pytest
import torch

from inductor_npu.setup import garbage

OWN = (600, 9, 8)
Graph = Callable[..., object]


@pytest.fixture(autouse=True)
def _own_settings(device: str) -> Iterator[None]:
    torch.empty(1, device=device)
    torch._dynamo.reset()  # which forgets all that is done when a compile begins
    garbage.wait_for_compiles()
    before = gc.get_threshold()
    gc.set_threshold(*OWN)
    yield
    gc.set_threshold(*before)


def settings_during_a_compile(change: Callable[[], None] = lambda: None) -> tuple[int, ...]:
    seen: list[tuple[int, ...]] = []

    def backend(graph: torch.fx.GraphModule, _: object) -> Graph:
        seen.append(gc.get_threshold())
        change()
        return graph.forward

    torch.compile(lambda x: x + 1, backend=backend)(torch.zeros(2))
    (during,) = seen
    return during


def test_only_full_collections_wait() -> None:
    during = settings_during_a_compile()
    assert during[:2] == OWN[:2]
    assert during[2] > 1_000_000
    assert gc.get_threshold() == OWN


def test_a_compile_that_fails_gives_the_settings_back() -> None:
    def fail() -> None:
        raise RuntimeError("no graph for you")

    with pytest.raises(RuntimeError, match="no graph for you"):
        settings_during_a_compile(fail)
    assert gc.get_threshold() == OWN


def test_settings_that_are_made_meanwhile_stay() -> None:
    settings_during_a_compile(lambda: gc.set_threshold(100, 5, 4))
    assert gc.get_threshold() == (100, 5, 4)


def test_a_collector_that_is_off_stays_off() -> None:
    gc.disable()
    try:
        settings_during_a_compile()
        assert not gc.isenabled()
    finally:
        gc.enable()
