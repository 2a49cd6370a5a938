"""Run-time support for a kernel that is written as eager operators (see codegen/fallback/eager_kernel.py)."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch

from inductor_npu.errors import NpuWarning

Values = tuple[torch.Tensor, ...]


class EagerKernel:
    """Stands where a compiled kernel would: same name, same `run`, its body written with torch operators.

    Making one gives the warning, so that a graph that comes from the cache says again what it does not compile. Where
    Inductor itself leaves the operators to eager, as those on complex numbers, there is none.
    """

    def __init__(self, name: str, operators: str, reason: str, source: str, *, warns: bool = True) -> None:
        if warns:
            warnings.warn(
                f"kernel {name} does not compile for npu, so its operators ({operators}) run in eager: {reason}. "
                "INDUCTOR_NPU_STRICT=1 turns this into an error.",
                NpuWarning,
                stacklevel=3,
            )
        self._body = function_of(name, source)

    def run(self, *args: Any, stream: int = 0) -> None:
        """Runs the loops on the arguments that the compiled kernel would get. `stream` is the current one, which
        eager uses anyway.
        """
        self._body(*args)


def compiled_without(left_out: str, why: str) -> None:
    """Warns that a graph was compiled without what is optional. Its module calls this when it is loaded, so that a
    graph that comes from the cache says it again.
    """
    warnings.warn(
        f"a graph does not compile as it should for npu, and was compiled again without {left_out}: {why}. Please "
        "report it with the program. INDUCTOR_NPU_STRICT=1 turns this into an error.",
        NpuWarning,
        stacklevel=3,
    )


def function_of(name: str, source: str) -> Callable[..., None]:
    """The function called `name` of a stand-in's `source`, with all that it uses."""
    scope: dict[str, Any] = {"torch": torch, "math": math, "inf": math.inf, "nan": math.nan, **_HELPERS}
    exec(compile(source, f"<eager {name}>", "exec"), scope)
    return scope[name]


def flat(tensor: torch.Tensor) -> torch.Tensor:
    """The memory behind `tensor`, from its first element to the end of its storage, as one axis."""
    elements = tensor.untyped_storage().nbytes() // tensor.element_size() - tensor.storage_offset()
    return torch.as_strided(tensor, (elements,), (1,))


def axis(length: int, position: int, rank: int, device: torch.device) -> torch.Tensor:
    """0, 1, ..., length - 1 along axis `position` of a loop nest with `rank` axes."""
    return torch.arange(length, device=device).view([length if i == position else 1 for i in range(rank)])


def as_index(index: Any, device: torch.device) -> torch.Tensor:
    """An index expression's value as a tensor; a constant expression is a plain number."""
    return index if isinstance(index, torch.Tensor) else torch.tensor(index, device=device)


def gather(source: torch.Tensor, index: Any, masked: bool) -> torch.Tensor:
    """`source[index]`. Where `masked`, lanes outside of the source are allowed: their values are thrown away."""
    index = as_index(index, source.device)
    return source[index.clamp(0, max(0, source.numel() - 1)) if masked else index]


def scatter(target: torch.Tensor, index: Any, value: torch.Tensor, shape: Sequence[int], accumulate: bool) -> None:
    """`target[index] = value`, or `+=` with all duplicates, over a loop nest of `shape`."""
    index = as_index(index, target.device).expand(shape).reshape(-1)
    target.index_put_((index,), value.to(target.dtype).expand(shape).reshape(-1), accumulate=accumulate)


def memory_like(source: torch.Tensor) -> torch.Tensor:
    """A copy of what a kernel argument holds before the kernel runs."""
    return flat(source).clone()


def contraction(left: torch.Tensor, right: torch.Tensor, axes: int, dtype: torch.dtype) -> torch.Tensor:
    """The sum of `left * right` over the last `axes` axes, which become of length 1, in `dtype`; both have all axes, of
    length 1 where they do not vary.
    """
    every = list(range(left.ndim))
    total = torch.einsum(left.to(dtype), every, right.to(dtype), every, every[: left.ndim - axes])
    return total.reshape([*total.shape, *[1] * axes])


def fold(combine: Callable[[Values, Values], Values], values: Values, identity_free: int) -> Values:
    """Reduces the last `identity_free` axes of `values` to length 1 with `combine`, pairwise."""
    values = tuple(_merge_last(value, identity_free) for value in values)
    while values[0].shape[-1] > 1:
        even = values[0].shape[-1] // 2 * 2
        rest = tuple(value[..., even:] for value in values)
        merged = combine(
            tuple(value[..., 0:even:2] for value in values), tuple(value[..., 1:even:2] for value in values)
        )
        values = tuple(torch.cat(pair, -1) for pair in zip(merged, rest))
    return tuple(value.reshape([*value.shape[:-1], *[1] * identity_free]) for value in values)


def scan(combine: Callable[[Values, Values], Values], values: Values, axes: int) -> Values:
    """Inclusive scan along the last `axes` axes (as one) with `combine`, in logarithmically many steps."""
    shape = values[0].shape
    values = tuple(_merge_last(value, axes) for value in values)
    step = 1
    while step < values[0].shape[-1]:
        merged = combine(tuple(value[..., :-step] for value in values), tuple(value[..., step:] for value in values))
        values = tuple(torch.cat((value[..., :step], new), -1) for value, new in zip(values, merged))
        step *= 2
    return tuple(value.reshape(shape) for value in values)


def sort(values: Values, axes: int, stable: bool, descending: bool) -> Values:
    """Sorts the first of `values` along the last `axes` axes (as one) and orders the others alike."""
    shape = values[0].shape
    values = tuple(_merge_last(value, axes) for value in values)
    keys, order = torch.sort(values[0], dim=-1, stable=stable, descending=descending)
    return tuple(value.reshape(shape) for value in (keys, *(torch.gather(value, -1, order) for value in values[1:])))


def _merge_last(value: torch.Tensor, axes: int) -> torch.Tensor:
    return value.reshape([*value.shape[: value.dim() - axes], -1])


def argument(value: torch.Tensor, axes: int, largest: bool, known: torch.Tensor | None = None) -> torch.Tensor:
    """Position of the extreme along the last `axes` axes as one; the first of equals, NaN beyond every number. `known`
    has the position of each element where that is not its place here.
    """
    merged = _merge_last(value, axes)
    if known is None:
        positions = merged.argmax(-1) if largest else merged.argmin(-1)
    else:
        best = merged.amax(-1, keepdim=True) if largest else merged.amin(-1, keepdim=True)
        is_best = (merged == best) | merged.isnan()
        positions = torch.where(is_best, _merge_last(known, axes), torch.iinfo(torch.int64).max).amin(-1)
    return positions.reshape([*positions.shape, *[1] * axes])


def softmax_parts(value: torch.Tensor, axes: tuple[int, ...]) -> Values:
    """The maximum over `axes`, and the sum of exp(value - maximum); a row of -inf sums to 0."""
    top = torch.amax(value, axes, keepdim=True)
    shifted = torch.where(top == -math.inf, -math.inf, value - top)
    return top, torch.exp(shifted).sum(axes, keepdim=True)


def bucket(
    values: torch.Tensor, edges: torch.Tensor, count: int, stride: int, first: torch.Tensor, right: bool
) -> torch.Tensor:
    """How many of `count` sorted edges, `stride` apart and starting at `first`, lie below each value; NaN is last."""
    below = torch.zeros_like(first + values.isnan())
    for position in range(count):
        edge = edges[first + position * stride]
        below = below + ((values >= edge if right else values > edge) | values.isnan())
    return below


def welford(value: torch.Tensor, axes: int) -> Values:
    """Mean, sum of squared differences and count over the last `axes` axes."""
    merged = _merge_last(value, axes)
    mean = merged.mean(-1, keepdim=True)
    squares = (merged - mean).square().sum(-1, keepdim=True)
    count = torch.full_like(mean, merged.shape[-1])
    return tuple(part.reshape([*part.shape[:-1], *[1] * axes]) for part in (mean, squares, count))


def welford_step(left: Values, right: Values) -> Values:
    """Combines two groups of (mean, sum of squared differences, count); an empty group changes nothing."""
    (mean_a, squares_a, count_a), (mean_b, squares_b, count_b) = left, right
    count = count_a + count_b
    ratio = torch.where(count == 0, torch.zeros_like(count), count_b / count)
    difference = mean_b - mean_a
    return mean_a + difference * ratio, squares_a + squares_b + difference.square() * count_a * ratio, count


def check(condition: torch.Tensor, message: str) -> None:
    """Raises RuntimeError with `message` unless `condition` holds in every lane."""
    if not bool(condition.all()):
        raise RuntimeError(message)


def smallest(*values: Any) -> Any:
    """min() of index expressions, each a number or a tensor."""
    return _extreme(torch.minimum, min, values)


def largest(*values: Any) -> Any:
    """max() of index expressions, each a number or a tensor."""
    return _extreme(torch.maximum, max, values)


def _extreme(of_tensors: Callable[..., Any], of_numbers: Callable[..., Any], values: tuple[Any, ...]) -> Any:
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    if not tensors:
        return of_numbers(values)
    device = tensors[0].device
    return next(
        itertools.islice(
            itertools.accumulate((as_index(value, device) for value in values), of_tensors), len(values) - 1, None
        )
    )


_HELPERS = {
    function.__name__: function
    for function in (
        argument, as_index, axis, bucket, check, contraction, flat, fold, gather, largest, memory_like, scan, scatter,
        smallest, softmax_parts, sort, welford, welford_step,
    )
}  # fmt: skip
