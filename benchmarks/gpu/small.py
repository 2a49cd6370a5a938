"""Calls with little work: one kernel, ten, a small model; and what the calling thread does for each launch."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from benchmarks.gpu.case import Case, Setup
from benchmarks.gpu.measuring import (
    Call,
    Sides,
    device_seconds,
    done_seconds,
    host_seconds,
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
TOLERANCE = 5e-2
LAUNCH = re.compile(r"^\s+\w+\.run\(", re.MULTILINE)  # in a generated module


def cases() -> Iterator[Case]:
    """Calls launched kernel by kernel and captured; then host times of launches."""
    made: dict[str, tuple[Callable[[Setup], Callable[[str], Made]], dict[str, Any]]] = {
        f"one kernel of {ELEMENTS} elements": (lambda setup: _one_kernel, {}),
        "ten kernels, one after the other": (lambda setup: partial(_chain, 10), APART),
        "MiniLM, 1 x 16 tokens": (_minilm, {}),
    }
    for name, (make_for, options) in made.items():
        yield Case("small", name, partial(_measure, make_for, options))
        # What mode="reduce-overhead" sets; a mode and options are not taken together.
        yield Case("small", f"{name}, captured", partial(_measure, make_for, {**options, "triton.cudagraphs": True}))
    yield Case("launches", f"chains of {CHAINS[0]} and {CHAINS[1]} kernels", _launches)


def _one_kernel(device: str) -> Made:
    torch.manual_seed(0)
    return pointwise_chain, moved([torch.randn(ELEMENTS) for _ in "xyz"], device)


def _chain(kernels: int, device: str) -> Made:
    return chain_of(kernels), moved([torch.linspace(0.5, 1, ELEMENTS)], device)


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


def _measure(
    make_for: Callable[[Setup], Callable[[str], Made]], options: dict[str, Any], setup: Setup
) -> dict[str, Any]:
    """Of each side: seconds until a call returns, until its work is done, and of one of many calls in a row."""
    make, sides = make_for(setup), {}
    for name, device in (("ours", setup.ours), ("stock", setup.stock), ("eager", setup.stock)):
        function, inputs = make(device)
        function = separate(function, name)
        compiled = function if name == "eager" else torch.compile(function, dynamic=False, options=options)
        sides[name] = _without_gradients(compiled, inputs), device
    error = _error(sides, setup.stock)
    host, done, row = host_seconds(setup, sides), done_seconds(setup, sides), device_seconds(setup, sides)
    return {
        **{f"{name}_host": seconds for name, seconds in host.items()},
        **{f"{name}_done": seconds for name, seconds in done.items()},
        **{f"{name}_in_a_row": seconds for name, seconds in row.items()},
        "error": error,
        "differs": not error <= TOLERANCE,
    }


def _without_gradients(function: Callable[..., Any], inputs: list[torch.Tensor]) -> Call:
    def call() -> Any:
        with torch.no_grad():
            return function(*inputs)

    return call


def _error(sides: Sides, stock: str) -> float:
    """Of the third call of ours, which is captured where calls are, against eager on the same GPU."""
    results = {}
    for name, (call, _) in sides.items():
        for _ in range(3):
            result = call()
        results[name] = moved(tensors_of(result), stock)
    return largest_difference(results["ours"], results["eager"])


def _launches(setup: Setup) -> dict[str, Any]:
    """Seconds until a call returns, by the number of kernels; `_each`: what each further kernel adds."""
    told: dict[str, Any] = {}
    for kernels in CHAINS:
        sides = {}
        for name, device in (("ours", setup.ours), ("stock", setup.stock)):
            function, inputs = _chain(kernels, device)
            compiled = torch.compile(separate(function, f"{name}_{kernels}"), dynamic=False, options=APART)
            call = _without_gradients(compiled, inputs)
            told[f"{name}_{kernels}_launches"] = _launches_of(call)
            sides[name] = call, device
        told |= {f"{name}_{kernels}": seconds for name, seconds in host_seconds(setup, sides).items()}
    few, many = CHAINS
    for name in ("ours", "stock"):
        told[name] = (told[f"{name}_{many}"] - told[f"{name}_{few}"]) / (many - few)
    return told


def _launches_of(call: Call) -> int:
    """How many kernels the generated module of the first `call` launches."""
    from torch._inductor.utils import run_and_get_code

    with torch._inductor.config.patch(force_disable_caches=True):
        _, modules = run_and_get_code(call)
    return sum(len(LAUNCH.findall(module)) for module in modules)
