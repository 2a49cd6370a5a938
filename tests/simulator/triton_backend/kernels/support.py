"""What the specifications of the Triton compiler share: small kernels, sample values, comparison by value and ulp."""

from __future__ import annotations

import functools
import itertools
import linecache
import os
from collections.abc import Callable, Mapping

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from hypothesis import HealthCheck, settings
from triton.language.extra import libdevice

from tests.triton_features import require

SIGNED = (torch.int8, torch.int16, torch.int32, torch.int64)
UNSIGNED = (torch.uint8, torch.uint16, torch.uint32, torch.uint64)
INTEGERS = SIGNED + UNSIGNED
HALVES = (torch.float16, torch.bfloat16)
FLOATS = (*HALVES, torch.float32, torch.float64)
NUMBERS = INTEGERS + FLOATS
DTYPES = (torch.bool, *NUMBERS)

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"

_TRITON_NAMES = {torch.bool: "int1", torch.float16: "float16", torch.bfloat16: "bfloat16"}
_source_numbers = itertools.count()


def triton_name(dtype: torch.dtype) -> str:
    """The dtype's name in `triton.language`."""
    return _TRITON_NAMES.get(dtype, str(dtype).removeprefix("torch."))


def bits(dtype: torch.dtype) -> int:
    return dtype.itemsize * 8


def dtypes(*choice: torch.dtype) -> list:
    """Parameters for the dtypes that the device under test computes in: the interpreter has no bfloat16 arithmetic."""
    lacking = pytest.mark.compiled
    return [
        pytest.param(dtype, id=triton_name(dtype), marks=[lacking] if dtype is torch.bfloat16 else [])
        for dtype in choice
    ]


def needs(attribute: str) -> pytest.MarkDecorator:
    """Skip where this Triton's language does not have `attribute` yet."""
    missing = not hasattr(tl, attribute)
    return pytest.mark.skipif(missing, reason=f"triton.language {triton.__version__} has no {attribute}")


# What a property test costs where each example may compile a kernel.
QUICK = settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

# ---- kernels from source text


def compile_source(source: str) -> dict[str, object]:
    """What `source` defines. It may use `triton`, `tl`, `libdevice`; Triton finds its functions' source."""
    filename = f"<kernel source {next(_source_numbers)}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    namespace: dict[str, object] = {"__name__": __name__, "triton": triton, "tl": tl, "libdevice": libdevice}
    exec(compile(source, filename, "exec"), namespace)
    return namespace


@functools.cache
def elementwise_kernel(expressions: tuple[str, ...], arity: int) -> Callable:
    """A kernel that loads `arity` tensors as x, y, z, ... and stores each expression to an output of its own."""
    names = "xyzw"[:arity]
    parameters = [f"{name}_ptr" for name in names] + [f"out{i}_ptr" for i in range(len(expressions))]
    loads = [f"    {name} = tl.load({name}_ptr + offsets, mask=mask)" for name in names]
    stores = [f"    tl.store(out{i}_ptr + offsets, {text}, mask=mask)" for i, text in enumerate(expressions)]
    source = [
        "@triton.jit",
        f"def kernel({', '.join(parameters)}, count, BLOCK: tl.constexpr):",
        "    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)",
        "    mask = offsets < count",
        *loads,
        *stores,
    ]
    return compile_source("\n".join(source) + "\n")["kernel"]


def evaluate_all(
    device: str, expressions: Mapping[str, torch.dtype], *inputs: torch.Tensor, block: int = 128, **options: object
) -> dict[str, torch.Tensor]:
    """Each expression of x, y, z, ... (the inputs, 1-D) computed by one kernel; results come back on the CPU.

    `options` are the compiler's.
    """
    if any(tensor.dtype is torch.float64 for tensor in inputs):
        require("masked loads of float64")
    count = inputs[0].numel()
    on_device = [tensor.to(device) for tensor in inputs]
    outputs = [torch.empty(count, dtype=dtype, device=device) for dtype in expressions.values()]
    kernel = elementwise_kernel(tuple(expressions), len(inputs))
    kernel[(triton.cdiv(count, block),)](*on_device, *outputs, count, BLOCK=block, **options)
    return {text: output.cpu() for text, output in zip(expressions, outputs)}


def evaluate(
    device: str, expression: str, *inputs: torch.Tensor, out: torch.dtype, block: int = 128, **options: object
) -> torch.Tensor:
    """One expression of x, y, z, ... (the inputs, 1-D), computed by a kernel; the result comes back on the CPU."""
    return evaluate_all(device, {expression: out}, *inputs, block=block, **options)[expression]


# ---- sample values


def edges(dtype: torch.dtype) -> list:
    """The values of a dtype at which implementations go wrong."""
    if dtype is torch.bool:
        return [False, True]
    if dtype.is_floating_point:
        info = torch.finfo(dtype)
        finite = [0.0, 1.0, 0.5, 1.5, 2.5, 3.0, info.tiny, info.tiny * info.eps, info.max, 1.0 + info.eps, 100.25]
        return [sign * value for value in finite for sign in (1.0, -1.0)] + [float("inf"), float("-inf"), float("nan")]
    info = torch.iinfo(dtype)
    small = [0, 1, 2, 3, 7, 10]
    return small + [info.max, info.max - 1, info.max // 2] + ([-1, -2, -7, info.min, info.min + 1] if info.min else [])


def random_values(dtype: torch.dtype, count: int, seed: int = 0) -> torch.Tensor:
    """Values spread over the dtype's magnitudes, finite."""
    generator = np.random.default_rng(seed)
    if dtype is torch.bool:
        return torch.from_numpy(generator.integers(0, 2, count).astype(bool))
    if dtype.is_floating_point:
        values = generator.standard_normal(count) * np.exp(generator.uniform(-5, 5, count))
        return torch.from_numpy(values).to(dtype)
    numpy_dtype = getattr(np, triton_name(dtype))
    full = generator.integers(0, 2**64, count, dtype=np.uint64)
    shifts = generator.integers(0, bits(dtype), count).astype(np.uint64)
    wide = full.astype(numpy_dtype)
    return torch.from_numpy(wide >> shifts.astype(numpy_dtype))


def tensor_of(values: list, dtype: torch.dtype) -> torch.Tensor:
    if dtype in UNSIGNED:
        return torch.from_numpy(np.array(values, dtype=getattr(np, triton_name(dtype))))
    return torch.tensor(values, dtype=dtype)


def samples(dtype: torch.dtype, count: int = 150, seed: int = 0) -> torch.Tensor:
    """All edge values, then random ones."""
    return torch.cat([tensor_of(edges(dtype), dtype), random_values(dtype, count, seed)])


def sample_pairs(dtype: torch.dtype, count: int = 150) -> tuple[torch.Tensor, torch.Tensor]:
    """Every pair of edge values, then random pairs."""
    pairs = list(itertools.product(edges(dtype), repeat=2))
    left = tensor_of([x for x, _ in pairs], dtype)
    right = tensor_of([y for _, y in pairs], dtype)
    return (
        torch.cat([left, random_values(dtype, count, seed=1)]),
        torch.cat([right, random_values(dtype, count, seed=2)]),
    )


# ---- comparison


def as_float64(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().cpu().to(torch.float64).numpy()


def assert_same(actual: torch.Tensor, expected: torch.Tensor, signed_zero: bool = True) -> None:
    """The same dtype, shape and values; NaN equals NaN; +0 differs from -0 unless `signed_zero` is off."""
    actual, expected = actual.detach().cpu(), expected.detach().cpu()
    assert actual.dtype == expected.dtype and actual.shape == expected.shape
    if not actual.dtype.is_floating_point:
        np.testing.assert_array_equal(actual.numpy(), expected.numpy())
        return
    left, right = as_float64(actual), as_float64(expected)
    np.testing.assert_array_equal(left, right)
    if signed_zero:
        zero = right == 0
        np.testing.assert_array_equal(np.signbit(left[zero]), np.signbit(right[zero]), err_msg="sign of zero")


def assert_within_ulps(actual: torch.Tensor, expected: np.ndarray | torch.Tensor, ulps: float) -> None:
    """`actual` is within `ulps` units in the last place of its dtype from `expected`, given in a wider type."""
    wide = np.longdouble if actual.dtype is torch.float64 else np.float64
    reference = np.asarray(expected.numpy() if isinstance(expected, torch.Tensor) else expected).astype(wide)
    values = as_float64(actual).astype(wide)
    info = torch.finfo(actual.dtype)
    with np.errstate(all="ignore"):
        overflows = np.abs(reference) > info.max * (1 + info.eps / 4)
        special = ~np.isfinite(reference) | overflows
        rounded = np.where(overflows, np.copysign(np.inf, reference), reference)
        np.testing.assert_array_equal(values[special], rounded[special], err_msg="NaN, infinity or overflow")
        _, exponent = np.frexp(np.maximum(np.abs(reference), info.tiny))
        unit = np.ldexp(np.asarray(info.eps, wide), exponent - 1)
        error = np.where(special, 0, np.abs(values - np.where(special, 0, reference)) / np.where(special, 1, unit))
    worst = int(np.argmax(error)) if error.size else 0
    assert error.size == 0 or error.flat[worst] <= ulps, (
        f"{error.flat[worst]:.2f} ulps at {worst}: got {values.flat[worst]!r}, expected {reference.flat[worst]!r}"
    )
