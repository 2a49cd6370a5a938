"""KernelBench's problems as published, in float32 and training mode without gradients, where their files are on this
disk (world/kernelbench/problems.py). A rehearsal has those that fit the embedded NPU.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from benchmarks.gpu.case import WORKERS, Case, Prepared, Setup
from benchmarks.gpu.measuring import device_turn, largest_difference, repeated
from benchmarks.timing import synchronize
from world import peak
from world.kernelbench import problems, scaling
from world.results import placed
from world.running import set_training

MADE = 16777259  # random numbers, a prime of them, so that rows are not alike
SAMPLE = 2**22  # elements of a large result that are compared one by one, of a step's distance
BLOCKS = 4096  # of a large result, whose mean sizes are compared besides
TOLERANCE = 1e-2  # of the largest element: convolutions of both sides are in TF32, as is PyTorch's default
_RANDOM = {torch.rand, torch.randn}


def cases() -> Iterator[Case]:
    """One for each problem; none without the files."""
    try:
        names = problems.names()
    except FileNotFoundError:
        return
    for name in names:
        yield Case("kernelbench", name, partial(_prepare, name))


def _prepare(name: str, setup: Setup, worker: str) -> Prepared:
    """Device seconds, bytes of a call, seconds of the first call; and from both processes samples of the results."""
    path = problems.path_of(name)
    module = problems.load(path, scaling.fitting(path).rewrite) if setup.is_rehearsal else problems.load(path)
    inputs = _inputs(module, setup.device(worker))
    turns: dict[str, Callable[[], float]] = {}
    known: dict[str, Any] = {}
    results: dict[str, list[torch.Tensor]] = {}
    for side in WORKERS[worker]:
        device = setup.device(side)
        model = problems.model_of(module)
        set_training(model)
        run = _call(placed(model, device), inputs, compiled=side != "eager")
        began = time.perf_counter()
        results[side] = _samples(run())
        synchronize(device)
        known[f"{side}_first"] = time.perf_counter() - began
        known[f"{side}_peak"] = peak.peak_of(run, device)
        turns[side] = device_turn(setup, run, device)
        if device != "cpu":
            torch.get_device_module(device).empty_cache()  # the other process needs room on the GPU, too
    if worker == "ours":
        return Prepared(turns, known, results["ours"])

    def finish(_: Mapping[str, Any], ours: list[torch.Tensor]) -> dict[str, Any]:
        errors = {side: _apart(actual, results["eager"]) for side, actual in {**results, "ours": ours}.items()}
        told = {"error": errors["ours"], "error_of_stock": errors["stock"]}
        return {**told, "differs": not errors["ours"] <= max(TOLERANCE, 2 * errors["stock"])}

    return Prepared(turns, known, finish=finish)


def _call(model: torch.nn.Module, inputs: list[Any], compiled: bool) -> Callable[[], Any]:
    function = torch.compile(model) if compiled else model

    def call() -> Any:
        with torch.no_grad():
            return function(*inputs)

    return call


def _inputs(module: Any, device: str) -> list[Any]:
    """The problem's inputs on `device`, of the same values on every device and in every process."""
    with _Drawn(device), torch.device(device):
        made = problems.inputs_of(module)
    return pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.to(device), made)


class _Drawn(TorchFunctionMode):
    """Inside, random tensors are drawn on the CPU, and large ones repeat what was drawn on `device`."""

    def __init__(self, device: str) -> None:
        self._device = device

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        options = {**(kwargs or {})}
        if function not in _RANDOM:
            return function(*args, **options)
        options["device"] = "cpu"
        shape = args[0] if len(args) == 1 and not isinstance(args[0], int) else args
        return repeated(lambda drawn: function(drawn, **options).to(self._device), tuple(shape), MADE)


def _samples(results: Any) -> list[torch.Tensor]:
    """Of each tensor, on the CPU: which elements are finite, their values, and of a large one blocks' mean sizes."""
    samples = []
    for tensor in pytree.tree_leaves(results):
        if not isinstance(tensor, torch.Tensor):
            continue
        flat = tensor.detach().reshape(-1)
        step = flat.numel() // SAMPLE | 1
        if step > 1 and flat.is_floating_point():
            blocks = flat[: flat.numel() // BLOCKS * BLOCKS].view(BLOCKS, -1)
            samples.append(torch.nan_to_num(blocks.abs().mean(1)).cpu())
        part = flat[::step].cpu()
        samples += [part.isfinite(), torch.nan_to_num(part, posinf=0, neginf=0)]
    return samples


def _apart(actual: list[torch.Tensor], expected: list[torch.Tensor]) -> float:
    """The largest difference of two results; infinite where they have other numbers of tensors."""
    if len(actual) != len(expected):
        return float("inf")
    pairs = [(one, other) for one, other in zip(actual, expected) if one.numel() or other.numel()]
    return largest_difference(*zip(*pairs)) if pairs else 0.0
