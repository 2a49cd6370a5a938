"""(a) Run time: the embedded NPU against eager PyTorch and against stock Inductor, both on the CPU with the same
threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch

from benchmarks.operators import OPERATIONS, Operation
from benchmarks.timing import Side, median_seconds
from models.zoo import MODELS, SMALL, build


@dataclass(frozen=True)
class RunTime:
    """Median seconds of one call on each side. `correct`: the NPU's values agree with those of eager on the CPU."""

    name: str
    npu: float
    eager: float
    inductor: float
    correct: bool

    @property
    def against_eager(self) -> float:
        """How many times faster than eager PyTorch on the CPU."""
        return self.eager / self.npu

    @property
    def against_inductor(self) -> float:
        """How many times faster than stock Inductor C++ on the CPU."""
        return self.inductor / self.npu

    def to_json(self) -> dict[str, Any]:
        """Everything, ratios included."""
        ratios = {"against_eager": self.against_eager, "against_inductor": self.against_inductor}
        return {**asdict(self), **ratios}


@dataclass(frozen=True)
class Case:
    """Something to run on both devices: `make(device)` gives a function without arguments, to be compiled or not."""

    name: str
    make: Callable[[str, bool], Callable[[], Any]]
    tolerance: float
    exact: bool = True


def cases(pattern: str) -> Iterator[Case]:
    """Operations, models in inference, and training steps, whose name contains `pattern`."""
    everything = [_operation_case(operation) for operation in OPERATIONS]
    everything += [_inference_case(name) for name in MODELS]
    everything += [_training_case(name) for name in ("bert", "llama", "resnet")]
    return (case for case in everything if pattern in case.name)


def measure(case: Case, rounds: int, device: str = "npu") -> RunTime:
    """Compiles `case` for both devices, compares the values, then times the three sides in turn."""
    torch._dynamo.reset()
    sides: dict[str, Side] = {
        "npu": (case.make(device, True), device),
        "eager": (case.make("cpu", False), "cpu"),
        "inductor": (case.make("cpu", True), "cpu"),
    }
    values = {name: sides[name][0]() for name in sides}
    seconds = median_seconds(sides, rounds, seconds_per_side=1.0)
    correct = not case.exact or _agree(values["npu"], values["eager"], case.tolerance)
    return RunTime(case.name, correct=correct, **seconds)


def _operation_case(operation: Operation) -> Case:
    def make(device: str, compiled: bool) -> Callable[[], Any]:
        torch.manual_seed(0)
        inputs = [value.to(device) for value in operation.inputs()]
        function = torch.compile(operation.function, dynamic=False) if compiled else operation.function
        return lambda: function(*inputs)

    return Case(operation.name, make, operation.tolerance, operation.exact)


def _inference_case(name: str) -> Case:
    def make(device: str, compiled: bool) -> Callable[[], Any]:
        model, inputs, call = build(name, SMALL)
        model = model.to(device)
        moved = [value.to(device) for value in inputs]
        ready = torch.compile(model, dynamic=False) if compiled else model

        def run() -> torch.Tensor:
            with torch.no_grad():
                return call(ready, *moved)

        return run

    return Case(f"{name} inference", make, tolerance=1e-3)


def _training_case(name: str) -> Case:
    """Forward and backward; the gradients are compared through their lengths."""

    def make(device: str, compiled: bool) -> Callable[[], Any]:
        model, inputs, call = build(name, SMALL)
        model = model.to(device).train()
        moved = [value.to(device) for value in inputs]
        ready = torch.compile(model, dynamic=False) if compiled else model

        def run() -> tuple[torch.Tensor, ...]:
            model.zero_grad()
            loss = call(ready, *moved).square().mean()
            loss.backward()
            gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
            return loss.detach(), torch.stack(torch._foreach_norm(gradients)).norm()

        return run

    return Case(f"{name} forward + backward", make, tolerance=1e-3)


def _agree(actual: Any, expected: Any, tolerance: float) -> bool:
    """Within `tolerance` of the largest expected value, for each tensor."""
    pairs = zip(_tensors(actual), _tensors(expected))
    return all(_close(left.detach().cpu(), right.detach(), tolerance) for left, right in pairs)


def _close(actual: torch.Tensor, expected: torch.Tensor, tolerance: float) -> bool:
    if not expected.is_floating_point():
        # Rounding may tip single elements, as of a quantisation, to their neighbour.
        return ((actual != expected).float().mean() <= tolerance).item() is True
    largest = expected.double().abs().nan_to_num(0, 0, 0).max().item()
    return torch.allclose(actual.double(), expected.double(), rtol=tolerance, atol=tolerance * largest, equal_nan=True)


def _tensors(value: Any) -> list[torch.Tensor]:
    return [value] if isinstance(value, torch.Tensor) else list(value)
