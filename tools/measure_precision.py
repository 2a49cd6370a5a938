"""Writes docs/precision.md: the largest error of every math function and of compiled operators, measured here.

f32: every 997th bit pattern, numbers of ordinary size, numbers near 1, special values; against NumPy and SciPy in f64.
f64: random numbers of all sizes against mpmath. Run `python -m tools.measure_precision` from the root; takes a minute.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import mpmath as mp
import numpy as np

from inductor_npu.simulator.triton_backend.mathlib import build_function
from tests.precision import operators as compiled
from tests.simulator.triton_backend.mathlib_harness import evaluate
from tests.simulator.triton_backend.mathlib_reference import BINARY, LOG_DOMAIN, MP_UNARY, UNARY, inputs_f32, ulp_errors

OUTPUT = Path(__file__).parent.parent / "docs/precision.md"
HEADER = """# Precision

## The embedded NPU's math functions

`python -m tools.measure_precision` measures these errors, in units in the last place (ulp) of the exact result, over
all finite and special inputs. Denormals, infinities, NaN and signed zeros give what C's functions give. 0.5 is correct
rounding.

- *vector*: our own vector code, without fast-math assumptions.
- *lanes*: the C library's f64 function, called lane by lane (an f32 result is rounded once from f64). An empty f64
  column means that the error is the C library's own, not measured here.
- *vector, rare lanes*: vector code that leaves rare arguments (huge ones, huge quotients) to the C library.

Arithmetic, conversions, integer functions and rounding modes of libdevice are exact, or rounded once as their names
say. Arithmetic on 16-bit and 8-bit floats is computed in float32 and rounded once. The `fast_` functions are the
accurate ones. Values beyond the range of fp8:

| Type | Triton kernels of your own | Compiled graphs (as eager) |
|---|---|---|
| e5m2 | infinity | infinity |
| e4m3fn | the largest number | the largest number (NaN before torch 2.13) |
| fnuz types | refused | NaN; eager operators run these loops |

Products of tiles (`tl.dot`) sum in float32, int8 ones in int32, exactly. Products of two 16-bit or 8-bit floats are
exact. Of bf16 on hosts with AVX512-BF16, denormal operands count as zero and denormal sums become zero, as in PyTorch's
products on such a CPU, which use the same instruction; elsewhere, and for other types, denormals are kept.

| function | f32, ulp | how | f64, ulp | how |
|---|---|---|---|---|
"""
OPERATORS_HEADER = """
## Operators in compiled code

The table compares `torch.compile` on npu in float32 with PyTorch in float64 on the CPU, and beside it eager PyTorch in
float32 on the CPU. Where Ascend's compiler has no vector code for a function, compiled code computes it from operations
that the compiler vectorises (`inductor_npu/runtime/device_functions`), which is a few units less exact than the C
library. *Other kind* counts the elements that are infinite, NaN or of another sign where the exact result is not. What
PyTorch decomposes (sigmoid, gelu, ...) loses what its formula loses, in eager as well. Reductions of half types
accumulate in float32. `tests/precision` holds the bounds.

More digits would cost more operations per element:

- `tan` is the quotient of sine and cosine. An error within 2 units needs its own reduction and polynomial, and still
  these two for huge arguments: about 1.7 times as many operations.
- `erfc` within 2 units needs an exponential of a sum of two numbers in place of `exp`: 95 operations instead of 59.
- `lgamma` of negative numbers adds logarithms that cancel near its zeros. As many digits as eager has there need the
  sine's logarithm in two parts as well: about 220 operations instead of 148.

| operator | compiled, ulp | other kind | eager, ulp | other kind | |
|---|---|---|---|---|---|
"""


def kind(name: str, elements: tuple[str, ...]) -> str:
    text = build_function(name, elements, 8).text
    calls_c = any(
        "call double @" in line and "@llvm." not in line and "@npu." not in line for line in text.splitlines()
    )
    if not calls_c:
        return "vector"
    return "vector, rare lanes" if "rare" in text else "lanes"


def largest_error_f64(name: str) -> float:
    random = np.random.default_rng(0)
    sizes = 10.0 ** random.uniform(-300, 2.8, 300)
    x = np.concatenate([random.normal(0, 3, 2000), random.uniform(-1, 1, 1000), sizes, -sizes])
    x = random.uniform(-1, 1, 500) if name == "erfinv" else np.abs(x) if name in LOG_DOMAIN else x
    worst = 0.0
    with mp.workprec(150):
        for argument, value in zip(x, evaluate(name, x)):
            reference = MP_UNARY[name](mp.mpf(float(argument)))
            if np.isfinite(float(reference)):
                unit = mp.mpf(float(np.spacing(abs(float(reference)))))
                worst = max(worst, float(abs(mp.mpf(float(value)) - reference) / unit))
    return worst


def main() -> None:
    x = inputs_f32(step=997, count=300_000)
    random = np.random.default_rng(1)
    ordinary = random.normal(0, 3, (2, 300_000)).astype(np.float32)
    left, right = (np.concatenate([random.permutation(x)[:1_000_000], half]) for half in ordinary)
    rows = []
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in sorted(UNARY | BINARY):
            inputs = (x,) if name in UNARY else (left, right)
            inputs = tuple(v[::20] for v in inputs) if name == "remainder" else inputs  # its reference is slow
            reference = (UNARY | BINARY)[name](*(v.astype(np.float64) for v in inputs))
            error = ulp_errors(evaluate(name, *inputs), reference).max()
            wide = kind(name, ("f64",) * len(inputs))
            wide_error = f"{largest_error_f64(name):.2f}" if name in MP_UNARY else ""
            rows.append(f"| {name} | {error:.2f} | {kind(name, ('f32',) * len(inputs))} | {wide_error} | {wide} |")
    OUTPUT.write_text(HEADER + "\n".join(rows) + "\n" + OPERATORS_HEADER + "\n".join(operator_rows()) + "\n")


def operator_rows() -> list[str]:
    """A line of the table for each compiled operator."""
    rows = []
    for name, operator in (compiled.UNARY | compiled.BINARY).items():
        arguments = compiled.inputs(1 if name in compiled.UNARY else 2, step=9973, count=100_000)
        cells = []
        for device in ("npu", "cpu"):
            found = compiled.errors(operator, arguments, device)
            finite = found[np.isfinite(found)]
            cells += [f"{finite.max():.3g}", f"{len(found) - len(finite) or ''}"]
        rows.append(f"| {name} | {' | '.join(cells)} | {compiled.EXCEPT.get(name, '')} |")
    return rows


if __name__ == "__main__":
    main()
