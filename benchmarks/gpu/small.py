"""Calls with little work: one kernel, ten, a small model; and what the calling thread does for each launch."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch

from benchmarks.gpu.case import WORKERS, Case, Prepared, Setup
from benchmarks.gpu.measuring import (
    Call,
    device_turn,
    done_turn,
    host_turn,
    largest_difference,
    moved,
    separate,
    tensors_of,
)
from benchmarks.gpu.networks import MINILM, of_zoo
from benchmarks.host_time import ELEMENTS, chain_of
from benchmarks.operators import pointwise_chain

Made = tuple[Callable[..., Any], list[torch.Tensor]]

APART: dict[str, Any] = {"max_fusion_size": 1}  # no two steps become one kernel
CHAINS = (10, 100)
PRODUCTS = 20
TOLERANCE = 5e-2
ROUNDS = 2  # as many as of a device's times: a host that others use is slow for seconds at a time
LAUNCH = re.compile(r"^\s+\w+\.run\(", re.MULTILINE)  # in a generated module


def cases() -> Iterator[Case]:
    """Calls launched kernel by kernel and captured; then host times of launches."""
    made: dict[str, tuple[Callable[[Setup], Callable[[str], Made]], dict[str, Any]]] = {
        f"one kernel of {ELEMENTS} elements": (lambda setup: _one_kernel, {}),
        "ten kernels, one after the other": (lambda setup: partial(_chain, 10), APART),
        f"{PRODUCTS} products of 64 x 64, one after the other": (lambda setup: _products, {}),
        "MiniLM, 1 x 16 tokens": (_minilm, {}),
    }
    for name, (make_for, options) in made.items():
        yield Case("small", name, partial(_prepare, make_for, options, False))
        # What mode="reduce-overhead" sets; a mode and options are not taken together.
        captured = {**options, "triton.cudagraphs": True}
        yield Case("small", f"{name}, captured", partial(_prepare, make_for, captured, False))
        yield Case("small", f"{name}, captured by hand", partial(_prepare, make_for, options, True))
    yield Case("launches", f"chains of {CHAINS[0]} and {CHAINS[1]} kernels", _launches)


def _one_kernel(device: str) -> Made:
    torch.manual_seed(0)
    return pointwise_chain, moved([torch.randn(ELEMENTS) for _ in "xyz"], device)


def _chain(kernels: int, device: str) -> Made:
    return chain_of(kernels), moved([torch.linspace(0.5, 1, ELEMENTS)], device)


def _products(device: str) -> Made:
    """Calls of the library alone."""

    def multiply(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        for _ in range(PRODUCTS):
            x = x @ weight
        return x

    torch.manual_seed(0)
    return multiply, moved([torch.randn(64, 64).bfloat16(), torch.eye(64).bfloat16()], device)


def _minilm(setup: Setup) -> Callable[[str], Made]:
    torch.manual_seed(0)
    model, _, call = of_zoo("bert", MINILM, setup)
    model = model.eval().to(torch.bfloat16)
    ids = torch.randint(2, model.config.vocab_size, (1, 16))

    def make(device: str) -> Made:
        there = copy.deepcopy(model).to(device)

        def embed(ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return call(there, ids, mask)

        return embed, moved([ids, torch.ones_like(ids)], device)

    return make


def _prepare(
    make_for: Callable[[Setup], Callable[[str], Made]],
    options: dict[str, Any],
    by_hand: bool,
    setup: Setup,
    worker: str,
) -> Prepared:
    """Of each side: seconds until a call returns, until its work is done, and of one of many calls in a row. `by_hand`:
    a call is the replay of one graph, which the program captured.
    """
    make, turns, results = make_for(setup), {}, {}
    for side in WORKERS[worker]:
        device = setup.device(side)
        function, inputs = make(device)
        function = separate(function, side)
        compiled = function if side == "eager" else torch.compile(function, dynamic=False, options=options)
        call = _without_gradients(compiled, inputs)
        for _ in range(3):  # the third is captured where calls are
            results[side] = [tensor.clone() for tensor in tensors_of(call())]
        if by_hand and side != "eager" and device != "cpu":
            call = _captured(call, device)
            results[side] = [tensor.clone() for tensor in tensors_of(call())]
        turns[f"{side}_done"] = done_turn(setup, call, device)
        if side != "eager":
            turns[f"{side}_host"] = host_turn(setup, call, device)
            turns[f"{side}_in_a_row"] = device_turn(setup, call, device)
    if worker == "ours":
        return Prepared(turns, results=results["ours"], rounds=ROUNDS)

    def finish(numbers: Mapping[str, Any], ours: list[torch.Tensor]) -> dict[str, Any]:
        error = largest_difference(ours, results["eager"])
        return {"error": error, "differs": not error <= TOLERANCE}

    return Prepared(turns, finish=finish, rounds=ROUNDS)


def _captured(call: Call, device: str) -> Call:
    """Replays `call`, which has run before, with the tensors that it used."""
    module: Any = torch.get_device_module(device)
    graph = module.NPUGraph() if device == "npu" else module.CUDAGraph()
    with module.graph(graph):
        result = call()
    return partial(_replay, graph, result, call)


def _replay(graph: Any, result: Any, _captured: Call) -> Any:
    """`_captured` has the tensors that the graph reads."""
    graph.replay()
    return result


def _without_gradients(function: Callable[..., Any], inputs: list[torch.Tensor]) -> Call:
    def call() -> Any:
        with torch.no_grad():
            return function(*inputs)

    return call


def _launches(setup: Setup, worker: str) -> Prepared:
    """Seconds until a call returns, by the number of kernels; and what each further kernel adds."""
    turns, known = {}, {}
    for kernels in CHAINS:
        for side in set(WORKERS[worker]) - {"eager"}:
            device = setup.device(side)
            function, inputs = _chain(kernels, device)
            compiled = torch.compile(separate(function, f"{side}_{kernels}"), dynamic=False, options=APART)
            call = _without_gradients(compiled, inputs)
            known[f"{side}_{kernels}_launches"] = _launches_of(call)
            turns[f"{side}_{kernels}"] = host_turn(setup, call, device)

    def finish(numbers: Mapping[str, Any], ours: list[torch.Tensor]) -> dict[str, Any]:
        few, many = CHAINS
        return {
            side: (numbers[f"{side}_{many}"] - numbers[f"{side}_{few}"]) / (many - few) for side in ("ours", "stock")
        }

    return Prepared(turns, known, finish=finish, rounds=ROUNDS)


def _launches_of(call: Call) -> int:
    """How many kernels the generated module of the first `call` launches."""
    from torch._inductor.utils import run_and_get_code

    with torch._inductor.config.patch(force_disable_caches=True):
        _, modules = run_and_get_code(call)
    return sum(len(LAUNCH.findall(module)) for module in modules)
