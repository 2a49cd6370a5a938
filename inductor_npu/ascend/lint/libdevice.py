"""What Ascend's `triton.language.extra.libdevice` has, against the symbols in TTIR."""

from __future__ import annotations

import re
from collections.abc import Iterator

from inductor_npu.simulator.triton_backend.ttir.ir import Op

from .kernel import Kernel

# Functions of triton.language.extra.ascend.libdevice of triton-ascend 3.2.0 that do something.
ASCEND = frozenset(
    [
        "acos",
        "acosh",
        "asin",
        "asinh",
        "atan",
        "atanh",
        "copysign",
        "cosh",
        "cyl_bessel_i0",
        "erfinv",
        "expm1",
        "flip",
        "gamma",
        "hypot",
        "ilogb",
        "isinf",
        "isnan",
        "ldexp",
        "lgamma",
        "log10",
        "log1p",
        "nearbyint",
        "nextafter",
        "pow",
        "reciprocal",
        "relu",
        "round",
        "signbit",
        "sinh",
        "tan",
        "tanh",
        "trunc",
    ]
)
INEXACT = {
    "asinh": "wrong for negative numbers",
    "expm1": "exp(x) - 1, which has no digits left near 0",
    "log1p": "log(1 + x), which has no digits left near 0",
    "sinh": "by exp, which has no digits left near 0",
    "atanh": "by log, which has no digits left near 0",
}
_SYMBOL = re.compile(r"__(?:npu|nv|ocml)_(\w+?)(?:_(?:[iuf]\d+))?")


def called(kernel: Kernel) -> Iterator[tuple[str, Op]]:
    """Functions of a libdevice other than Ascend's that `kernel` calls, by their names there."""
    for op in kernel.named("tt.extern_elementwise"):
        match = _SYMBOL.fullmatch(str(op.attrs.get("symbol", "")))
        if match is None:
            continue
        name = match[1]
        yield (name[:-1] if name not in ASCEND and name[:-1] in ASCEND and name[-1] in "fd" else name), op
