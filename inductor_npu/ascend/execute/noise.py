"""Random rounding: measures how much of a kernel's result is rounding error, by running it with other roundings.

Two correct compilers add in different orders and use different functions, so their results differ by rounding errors,
whose size depends on the kernel (a difference of large numbers, a long sum). Monte Carlo arithmetic measures them: each
inexact result of a float operation moves to one of its neighbours at random. Exact results (small integers, products
with powers of two) stay exact, so that the kernel's control flow is unchanged.

Two errors of the same size cancel in every second run, so that a few runs may show none (exp(-x) + log(x), where that
is nearly zero). So in one run all results move away from zero, and in another all move upwards: in one of these the two
errors add up.
"""

from __future__ import annotations

import re

_OPERATION = re.compile(r"= (fadd|fsub|fmul|fdiv) (?:[a-z]+ )*(float|half) ([^,\n]+), ([^,\n]+)$", re.M)
_INTRINSIC = r"llvm\.(?:exp|exp2|log|log2|log10|sin|cos|tan|tanh|pow|sqrt|fma)\.f32"
_FUNCTION = re.compile(rf"= call (?:[a-z]+ )*float @({_INTRINSIC}|[a-z][a-z0-9]*f)\((float [^)\n]*)\)")
_INTEGERS = {"float": "i32", "half": "i16"}

AWAY_FROM_ZERO, UPWARDS = 1, 2  # seeds of these runs; all others are random
# A neighbour of %r, away from or towards zero, by the highest bit of a linear congruential generator or by the run.
_MOVE = """
define internal {kind} @npu_move_{kind}({kind} %r) {{
  %old = load i64, ptr @npu_noise
  %product = mul i64 %old, 6364136223846793005
  %new = add i64 %product, 1442695040888963407
  store i64 %new, ptr @npu_noise
  %random = icmp slt i64 %new, 0
  %raw = bitcast {kind} %r to {bits}
  %positive = icmp sge {bits} %raw, 0
  %run = load i64, ptr @npu_run
  %upwards = icmp eq i64 %run, {upwards}
  %away = icmp eq i64 %run, {away}
  %grows = select i1 %upwards, i1 %positive, i1 %random
  %up = select i1 %away, i1 true, i1 %grows
  %step = select i1 %up, {bits} 1, {bits} -1
  %other = add {bits} %raw, %step
  %moved = bitcast {bits} %other to {kind}
  %size = fsub {kind} %r, %r
  %finite = fcmp oeq {kind} %size, 0.0
  %some = fcmp une {kind} %r, 0.0
  %changes = and i1 %finite, %some
  %result = select i1 %changes, {kind} %moved, {kind} %r
  ret {kind} %result
}}
"""
# In fp64 sums, products and quotients of shorter numbers are exact, or their error does not matter.
_ARITHMETIC = """
define internal {kind} @npu_{operation}_{kind}({kind} %x, {kind} %y) {{
  %a = fpext {kind} %x to double
  %b = fpext {kind} %y to double
  %wide = {operation} double %a, %b
  %r = {operation} {kind} %x, %y
  %back = fpext {kind} %r to double
  %inexact = fcmp one double %back, %wide
  br i1 %inexact, label %move, label %keep
move:
  %moved = call {kind} @npu_move_{kind}({kind} %r)
  ret {kind} %moved
keep:
  ret {kind} %r
}}
"""
_CALL = """
define internal float @npu_noisy_{name}({parameters}) {{
  %r = call float @{name}({parameters})
  %whole = call float @llvm.rint.f32(float %r)
  %exact = fcmp oeq float %r, %whole
  br i1 %exact, label %keep, label %move
move:
  %moved = call float @npu_move_float(float %r)
  ret float %moved
keep:
  ret float %r
}}
"""


def round_at_random(text: str) -> tuple[str, str]:
    """LLVM IR `text` with random roundings, and the functions that it then calls. They use the globals @npu_noise and
    @npu_run, i64 both: the generator's state, and the run's seed.
    """
    kinds: set[str] = {"float"}
    operations: set[tuple[str, str]] = set()
    functions: dict[str, int] = {}

    def operation(match: re.Match[str]) -> str:
        name, kind, x, y = match.groups()
        kinds.add(kind)
        operations.add((name, kind))
        return f"= call {kind} @npu_{name}_{kind}({kind} {x}, {kind} {y})"

    def function(match: re.Match[str]) -> str:
        functions[match[1]] = match[2].count("float ")
        return f"= call float @npu_noisy_{match[1]}({match[2]})"

    text = _FUNCTION.sub(function, _OPERATION.sub(operation, text))
    runs = {"away": AWAY_FROM_ZERO, "upwards": UPWARDS}
    parts = [_MOVE.format(kind=kind, bits=_INTEGERS[kind], **runs) for kind in sorted(kinds)]
    parts += [_ARITHMETIC.format(operation=name, kind=kind) for name, kind in sorted(operations)]
    for name, count in sorted(functions.items()):
        parts.append(_CALL.format(name=name, parameters=", ".join(f"float %x{at}" for at in range(count))))
    if functions and "@llvm.rint.f32(" not in text:
        parts.append("declare float @llvm.rint.f32(float)\n")
    return text, "".join(parts)
