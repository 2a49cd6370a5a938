"""Whether a compiled case behaves as in eager: results, gradients, writes into its inputs, and which results share
memory with an input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import torch

from fuzz.case import FLOATS, Case, is_float
from fuzz.rounding import RoundsOtherwise, integers_become_float64
from fuzz.vectors import vectors_of
from opinfo.comparison import difference

# How often each thread calls the compiled function.
_CALLS = 4

# How often eager is asked to round otherwise.
_ROUNDINGS = 8

# Of the widest to the narrowest: a result may be off by what the narrowest dtype of its program rounds.
_NARROWEST = tuple(getattr(torch, name) for name in ("bfloat16", "float16", "float32", "float64"))


@dataclass(frozen=True)
class Observation:
    """What a call did. `shared` are pairs (result, input) that have memory in common."""

    results: tuple[torch.Tensor, ...]
    inputs: tuple[torch.Tensor, ...]
    gradients: tuple[torch.Tensor | None, ...]
    shared: frozenset[tuple[int, int]]


def check(case: Case, device: str = "npu", elsewhere: bool = False) -> str:
    """Why `case`, compiled for `device`, is wrong; "" if it is right.

    elsewhere: what is compiled has the operators that other devices take, on the CPU, too.

    Raises what compiling or running it raises. A case that eager refuses is right.
    """
    torch._dynamo.reset()
    sizes_become_arguments = True if case.dynamic else None if case.more else False
    compiled = torch.compile(case.program(elsewhere=elsewhere), dynamic=sizes_become_arguments)
    with vectors_of(case.vectors):
        if why := _difference(case, compiled, device):
            return why
        if case.more and (why := _difference(case.grown(), compiled, device)):
            kind, _, rest = why.partition(": ")
            return f"{kind}: of the second call, {rest}"
    return ""


def _difference(case: Case, compiled: Callable[..., Any], device: str) -> str:
    """What `compiled` does otherwise than eager, given the inputs of `case`."""
    arguments = list(case.arguments())
    try:
        eager = observe(case.program(), arguments, case.gradients)
    except Exception:  # noqa: BLE001 - what eager does not do, nothing else has to
        return ""
    try:
        wide = [argument.double() if is_float(argument) else argument for argument in arguments]
        with integers_become_float64():
            reference = observe(case.program(wide=True), wide, case.gradients)
    except RuntimeError:  # dtypes that only agree as they are
        reference = None
    try:
        for actual in _observed(case, compiled, arguments, device):
            if why := _difference_of_call(case, arguments, actual, eager, reference):
                return why
    except RuntimeError as error:
        if "modified by an inplace operation" in str(error):  # gradients of all that leaves a graph are traced,
            return ""  # also those that eager, which would refuse them too, is never asked for
        raise
    return ""


def _observed(
    case: Case, compiled: Callable[..., Any], arguments: list[torch.Tensor], device: str
) -> Iterator[Observation]:
    """A call of `compiled`, then those of all threads at once."""

    def call(_number: int) -> Observation:
        return observe(compiled, arguments, case.gradients, device)

    yield call(0)
    if case.threads:
        with ThreadPoolExecutor(case.threads) as threads:
            calls = list(threads.map(call, range(_CALLS * case.threads)))
        yield from calls  # compared once no thread runs: the comparison changes the default dtype of all threads


def _difference_of_call(
    case: Case,
    arguments: list[torch.Tensor],
    actual: Observation,
    eager: Observation,
    reference: Observation | None,
) -> str:
    """What one call did otherwise than `eager`."""
    if case.gradients:
        actual = replace(actual, gradients=_as_absent(actual.gradients, eager.gradients))
    narrowest = _narrowest(case)
    for what in ("results", "gradients", "inputs"):
        best = None if reference is None else getattr(reference, what)
        ours, theirs = getattr(actual, what), getattr(eager, what)
        if difference(ours, theirs, best, narrowest):
            moved = _moved(case, arguments, what, theirs)
            if why := difference(ours, theirs, best, narrowest, moved):
                return f"{what}: {why}"
    if actual.shared != eager.shared:
        return f"(result, input) that share memory: {sorted(actual.shared)} instead of {sorted(eager.shared)}"
    return ""


def observe(
    program: Callable[..., Any], arguments: list[torch.Tensor], gradients: bool, device: str = "cpu"
) -> Observation:
    """Calls `program` with copies of `arguments` on `device` that keep their strides."""
    inputs = [_copy(argument, device) for argument in arguments]
    if gradients:
        inputs = [part.requires_grad_() if is_float(part) else part for part in inputs]
    results = program(*inputs)
    shared = frozenset(
        (place, other)
        for place, result in enumerate(results)
        for other, part in enumerate(inputs)
        if result.untyped_storage().data_ptr() == part.untyped_storage().data_ptr() and result.numel()
    )
    found: tuple[torch.Tensor | None, ...] = ()
    flowing = [result for result in results if result.requires_grad]
    leaves = [part for part in inputs if part.requires_grad and part.is_leaf]
    if flowing and leaves:
        weights = [_weights(result) for result in flowing]
        found = torch.autograd.grad(flowing, leaves, weights, allow_unused=True)
    return Observation(tuple(results), tuple(inputs), found, shared)


def _moved(
    case: Case, arguments: list[torch.Tensor], what: str, eager: tuple[torch.Tensor | None, ...]
) -> list[torch.Tensor | None]:
    """How far eager's elements move at most where its operations round otherwise; None where there is no tensor."""
    moved = [None if part is None else torch.zeros(part.shape, dtype=torch.float64) for part in eager]
    for seed in range(_ROUNDINGS):
        with RoundsOtherwise(seed):
            others = getattr(observe(case.program(), arguments, case.gradients), what)
        for farthest, part, other in zip(moved, eager, others):
            if farthest is not None and other is not None and other.shape == part.shape:
                one, wide = part.detach(), torch.complex128 if part.is_complex() else torch.float64
                apart = (other.detach().to(wide) - one.to(wide)).abs()
                torch.maximum(farthest, apart.nan_to_num(0, 0), out=farthest)
    return moved


def _as_absent(
    actual: tuple[torch.Tensor | None, ...], eager: tuple[torch.Tensor | None, ...]
) -> tuple[torch.Tensor | None, ...]:
    """`actual` with None in place of zeros where eager has no gradient at all: where a graph breaks, AOTAutograd gives
    the part before it zeros for what the part behind it makes no use of, on each device.
    """
    if len(actual) != len(eager):
        return actual
    return tuple(
        None if theirs is None and ours is not None and not ours.count_nonzero() else ours
        for ours, theirs in zip(actual, eager, strict=True)
    )


def _copy(tensor: torch.Tensor, device: str) -> torch.Tensor:
    """With the same strides, in memory of its own that has what lies between its elements, too."""
    size = tensor.untyped_storage().nbytes() // tensor.itemsize
    memory = tensor.as_strided((size,), (1,), 0).clone() if size else tensor.clone().reshape(-1)
    return memory.to(device).as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())


def _weights(result: torch.Tensor) -> torch.Tensor:
    """What the gradient of `result` is: of whole numbers, none alike its neighbours."""
    weights = torch.arange(result.numel(), dtype=torch.int64) * 7 % 5 - 2
    return weights.to(result.dtype).reshape(result.shape).to(result.device)


def _narrowest(case: Case) -> torch.dtype | None:
    named = {part.dtype for part in case.inputs} | {name for name in FLOATS if any(name in line for line in case.body)}
    return next((dtype for dtype in _NARROWEST if str(dtype).removeprefix("torch.") in named), None)
