"""What the Triton of this environment can do, tried on its front end: a test of what it cannot is skipped, by name.

Ascend's Triton 3.2 is older than upstream's, and refuses what its chips do not have. Features are tried, not concluded
from a version, and only the front end is asked: it is Triton's own, so a fault of this project never skips a test.
"""

from __future__ import annotations

import functools
import linecache
import os
from typing import Any

import pytest
import triton
import triton.language as tl

_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"

# name: the kernel that says it, with the types of its arguments
FEATURES: dict[str, tuple[str, dict[str, str]]] = {
    "masked loads of float64": ("tl.store(p, tl.load(p, mask=n > 0))", {"p": "*fp64", "n": "i32"}),
    "products of float64 tiles": (
        "at = p + tl.arange(0, 16)[:, None] + tl.arange(0, 16); x = tl.load(at); tl.dot(x, x, out_dtype=tl.float64)",
        {"p": "*fp64"},
    ),
    "high half of 64-bit products": ("tl.store(p, tl.umulhi(n, n))", {"p": "*u64", "n": "u64"}),
    "atomic_cas of unsigned integers": ("tl.atomic_cas(p, n, n)", {"p": "*u32", "n": "u32"}),
    "atomic_cas of float64": ("tl.atomic_cas(p, n, n)", {"p": "*fp64", "n": "fp64"}),
    "gather of wide integers": (
        "i = tl.arange(0, 16); tl.store(p + i, tl.gather(tl.load(p + i), i, 0))",
        {"p": "*i64"},
    ),
    "tuples in variables": (
        "at = (n, n); tl.store(tl.make_block_ptr(p, (n, n), (n, 1), at, (8, 8), (1, 0)), tl.zeros((8, 8), tl.float32))",
        {"p": "*fp32", "n": "i32"},
    ),
    "tensor descriptors": (
        "d = tl.make_tensor_descriptor(p, [n, n], [n, 1], [8, 8]); d.store([0, 0], d.load([0, 0]) + 1)",
        {"p": "*fp32", "n": "i32"},
    ),
    "masks of device_assert": ("tl.device_assert(n > 0, 'negative', mask=n > 1)", {"n": "i32"}),
    "masks of histogram": (
        "i = tl.arange(0, 16); tl.store(p + i, tl.histogram(i, 16, mask=i < n))",
        {"p": "*i32", "n": "i32"},
    ),
    "functions that call themselves": ("tl.store(p, power(n, 2))", {"p": "*i32", "n": "i32"}),
    "arithmetic of float8": ("tl.store(p, tl.load(p) + tl.load(p))", {"p": "*fp8e5"}),
    "sums of small integers in int32": (
        "tl.static_assert(tl.sum(tl.load(p + tl.arange(0, 16)), 0).dtype == tl.int32)",
        {"p": "*i8"},
    ),
}

_HELPERS = """
@triton.jit
def power(x, N: tl.constexpr):
    if N == 0:
        return x * 0 + 1
    else:
        return x * power(x, N - 1)
"""


def forget(kernel: triton.JITFunction) -> None:
    """Lets `kernel` ask Triton's cache on disk, or compile, at its next launch."""
    in_memory = kernel.device_caches if hasattr(kernel, "device_caches") else kernel.cache  # the name before 3.3
    in_memory.clear()


def needs_feature(name: str) -> pytest.MarkDecorator:
    """Skips a test where the front end does not have the feature `name`, a key of FEATURES."""
    return pytest.mark.skipif(not has(name), reason=_reason(name))


def require(name: str) -> None:
    """Skips the running test where the front end does not have the feature `name`."""
    if not has(name):
        pytest.skip(_reason(name))


def _reason(name: str) -> str:
    return f"this Triton ({triton.__version__}) has no {name}"


@functools.cache
def has(name: str) -> bool:
    """Whether the front end takes the kernel of feature `name`."""
    statement, signature = FEATURES[name]
    if _INTERPRETED:
        return True
    try:
        ttir(f"@triton.jit\ndef kernel({', '.join(signature)}):\n    {statement}\n{_HELPERS}", signature)
    except (triton.CompilationError, AssertionError, RecursionError):
        return False
    return True


def ttir(source: str, signature: dict[str, str]) -> str:
    """The text of the TTIR that the front end makes of the function `kernel` in `source`, for target `npu`.

    `source` may use `triton`, `tl` and `libdevice`; `signature` has the type of each argument.
    """
    from triton.compiler import ASTSource
    from triton.language.extra import libdevice

    from inductor_npu.simulator.triton_backend.front_end import ttir_of

    filename = f"<source {hash(source)}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    names: dict[str, Any] = {"__name__": __name__, "triton": triton, "tl": tl, "libdevice": libdevice}
    exec(compile(source, filename, "exec"), names)
    return ttir_of(ASTSource(names["kernel"], signature), "Ascend910B3")
