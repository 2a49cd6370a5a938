"""Times on a device of one GPU, and how far values of two are apart."""

from __future__ import annotations

import gc
import math
import statistics
import time
import types
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from benchmarks.gpu.case import Setup
from benchmarks.timing import synchronize

Call = Callable[[], Any]
Turn = Callable[[], float]

CALLS = 200  # in a round at most: what is queued must not fill the GPU's queue of launches for long
FEWEST_CALLS = 20  # of which the median is a number of the host
BLOCK = 2**24  # elements compared at once: the comparison is in float64


class Stopwatch:
    """Seconds on a device between `start` and `stop`: by its events, on the CPU by the clock."""

    def __init__(self, device: str) -> None:
        self._device = device
        module = torch.get_device_module(device)
        self._events = [] if device == "cpu" else [module.Event(enable_timing=True) for _ in range(2)]
        self._began = 0.0

    def start(self) -> None:
        if self._events:
            self._events[0].record()
        self._began = time.perf_counter()

    def stop(self) -> float:
        """Waits for the device."""
        if not self._events:
            return time.perf_counter() - self._began
        self._events[1].record()
        synchronize(self._device)
        return self._events[0].elapsed_time(self._events[1]) / 1e3


def device_turn(setup: Setup, call: Call, device: str) -> Turn:
    """A round of calls one after the other without a wait between them: seconds that the device takes for each."""
    watch, calls = Stopwatch(device), 0

    def seconds(calls: int) -> float:
        call()  # the caches hold what the other side used
        watch.start()
        for _ in range(calls):
            call()
        return watch.stop() / calls

    def turn() -> float:
        nonlocal calls
        if not calls:
            seconds(1)  # warms up
            calls = min(CALLS, max(3, round(setup.seconds / max(seconds(3), 1e-9))))
        return seconds(calls)

    return turn


def host_turn(setup: Setup, call: Call, device: str) -> Turn:
    """The median of the calls of a round: seconds until a call returns, when the device has nothing else to do."""
    return partial(_median_of_a_round, setup, call, device, until_done=False)


def done_turn(setup: Setup, call: Call, device: str) -> Turn:
    """Seconds until a call's work is done, likewise."""
    return partial(_median_of_a_round, setup, call, device, until_done=True)


def _median_of_a_round(setup: Setup, call: Call, device: str, until_done: bool) -> float:
    call()
    synchronize(device)
    times: list[float] = []
    while len(times) < FEWEST_CALLS or sum(times) < setup.seconds:
        start = time.perf_counter()
        call()
        if until_done:
            synchronize(device)
        times.append(time.perf_counter() - start)
        synchronize(device)
    return statistics.median(times)


def separate(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """`function` with a code object of its own: Dynamo keeps what it compiled by code object, and tries the guards of
    all of one's entries in turn.
    """
    assert isinstance(function, types.FunctionType)
    code = function.__code__.replace(co_name=f"{function.__name__}_{name}")
    return types.FunctionType(code, function.__globals__, name, function.__defaults__, function.__closure__)


def repeated(make: Callable[[tuple[int, ...]], torch.Tensor], shape: tuple[int, ...], made: int) -> torch.Tensor:
    """`make(shape)`, of which at most `made` elements are made, and then repeated: the CPU draws billions slowly."""
    count = math.prod(shape)
    if count <= made:
        return make(shape)
    return make((made,)).repeat(-(-count // made))[:count].view(shape)


def moved(tensors: list[torch.Tensor], device: str) -> list[torch.Tensor]:
    """Copies on `device`, by way of the CPU."""
    return [tensor.detach().clone() if tensor.device.type == device else tensor.cpu().to(device) for tensor in tensors]


def in_more_bits(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """Floats in a type that makes them a reference: float64 of float32, float32 of what is shorter."""
    return [_in_more_bits(tensor) for tensor in tensors]


def _in_more_bits(tensor: torch.Tensor) -> torch.Tensor:
    if not tensor.is_floating_point():
        return tensor.clone()
    return tensor.to(torch.float64 if tensor.dtype is torch.float32 else torch.float32)


def tensors_of(value: Any) -> list[torch.Tensor]:
    """The tensors of a function's result."""
    return [value] if isinstance(value, torch.Tensor) else [each for each in value if isinstance(each, torch.Tensor)]


def largest_difference(actual: Any, expected: Any) -> float:
    """Of floats the largest difference, as a share of the largest expected value; of whole numbers the share of
    elements that differ. The larger of two tensors counts. Infinite where one has a NaN or another shape.
    """
    return max(_difference(left, right) for left, right in zip(tensors_of(actual), tensors_of(expected), strict=True))


def _difference(actual: torch.Tensor, expected: torch.Tensor) -> float:
    if actual.shape != expected.shape:
        return float("inf")
    (actual,) = moved([actual], expected.device.type)
    actual, expected = actual.reshape(-1), expected.detach().reshape(-1)
    pieces = list(zip(actual.split(BLOCK), expected.split(BLOCK)))
    if not expected.is_floating_point():
        return sum((left != right).sum().item() for left, right in pieces) / max(1, expected.numel())
    differences = torch.stack([(left.double() - right.double()).abs().max() for left, right in pieces])
    largest = torch.stack([right.double().abs().max() for _, right in pieces])
    share = (differences.max() / largest.max().clamp_min(1e-30)).item()
    return share if share == share else float("inf")  # NaN is unequal to itself


def distance(actual: Any, expected: Any) -> float:
    """The length of the difference, as a share of the expected tensor's; of all tensors together."""
    squares = [0.0, 0.0]
    for left, right in zip(tensors_of(actual), tensors_of(expected), strict=True):
        (left,) = moved([left], right.device.type)
        pairs = zip(left.reshape(-1).split(BLOCK), right.detach().reshape(-1).split(BLOCK))
        for one, other in pairs:
            squares[0] += (one.double() - other.double()).square().sum().item()
            squares[1] += other.double().square().sum().item()
    share = (squares[0] / max(squares[1], 1e-30)) ** 0.5
    return share if share == share else float("inf")


def differs_in_distribution(actual: Any, expected: Any) -> float:
    """Of random results: how far mean and deviation are apart, as a share of the expected deviation."""
    (left,), (right,) = tensors_of(actual), tensors_of(expected)
    (left,) = moved([left], right.device.type)
    left, right = left.float(), right.float()
    deviation = right.std()
    return (torch.maximum((left.mean() - right.mean()).abs(), (left.std() - deviation).abs()) / deviation).item()


def release(device: str) -> None:
    """Gives back what a case has taken: compiled graphs, and memory of the device, whose GPU the other side shares."""
    torch._dynamo.reset()
    gc.collect()
    synchronize(device)
    if device != "cpu":
        torch.get_device_module(device).empty_cache()
