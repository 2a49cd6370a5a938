"""Writes `mathlib/coefficients.py`: the polynomials of the math library, interpolated at Chebyshev nodes in 150 digits,
or fitted there where errors have weights.

Interpolation at Chebyshev nodes is within a small factor of the minimax polynomial, needs no iteration, and gives the
same digits on every machine. Run `python tools/fit_polynomials.py` after a change of this table; needs mpmath.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import mpmath as mp

mp.mp.dps = 150
Function = Callable[[mp.mpf], mp.mpf]
OUTPUT = Path(__file__).parent.parent / "inductor_npu/simulator/triton_backend/mathlib/coefficients.py"
TINY = mp.mpf("1e-30")
HALF_LN2 = mp.log(2) / 2 * mp.mpf("1.01")
QUARTER_PI = mp.pi / 4 * mp.mpf("1.02")


def chebyshev_nodes(low: mp.mpf, high: mp.mpf, count: int) -> list[mp.mpf]:
    middle, radius = (low + high) / 2, (high - low) / 2
    nodes = [middle + radius * mp.cos(mp.pi * (2 * i + 1) / (2 * count)) for i in range(count)]
    return [x if abs(x) > TINY else TINY for x in nodes]  # most functions below are 0/0 at 0


def interpolate(function: Function, low: mp.mpf, high: mp.mpf, degree: int) -> list[mp.mpf]:
    """Monomial coefficients, constant term first, of the polynomial that meets `function` at the Chebyshev nodes."""
    nodes = chebyshev_nodes(low, high, degree + 1)
    matrix = mp.matrix(degree + 1, degree + 1)
    for row, x in enumerate(nodes):
        for column in range(degree + 1):
            matrix[row, column] = x**column
    return list(mp.lu_solve(matrix, mp.matrix([function(x) for x in nodes])))


def least_squares(function: Function, weight: Function, low: mp.mpf, high: mp.mpf, degree: int) -> list[mp.mpf]:
    """Monomial coefficients of the polynomial with the least weighted squares of errors at 100 Chebyshev nodes."""
    nodes = chebyshev_nodes(low, high, 100)
    matrix = mp.matrix(len(nodes), degree + 1)
    for row, x in enumerate(nodes):
        for column in range(degree + 1):
            matrix[row, column] = x**column * weight(x)
    return list(mp.lu_solve(matrix, mp.matrix([function(x) * weight(x) for x in nodes])))


def largest_error(fit: Fit, coefficients: list[mp.mpf]) -> mp.mpf:
    """Of all in the interval, weighted."""
    points = chebyshev_nodes(fit.low, fit.high, 301)
    weight = fit.weight or (lambda x: mp.mpf(1))
    return max(abs(mp.polyval(coefficients[::-1], x) - fit.function(x)) * weight(x) for x in points)


def of_square(function: Function) -> Function:
    """The same even function as a function of x squared."""
    return lambda z: function(mp.sqrt(z))


@dataclass(frozen=True)
class Fit:
    """A polynomial to be found: its name, formula, function, interval and degree; `weight` of an error, if some matter
    less than others.
    """

    name: str
    formula: str
    function: Function
    low: mp.mpf
    high: mp.mpf
    degree: int
    weight: Function | None = None

    def coefficients(self) -> list[mp.mpf]:
        """Constant term first."""
        if self.weight is None:
            return interpolate(self.function, self.low, self.high, self.degree)
        return least_squares(self.function, self.weight, self.low, self.high, self.degree)


def fits() -> list[Fit]:
    one = mp.mpf(1)
    low, high = mp.sqrt(one / 2) - one, mp.sqrt(mp.mpf(2)) - one
    atanh_end = ((high) / (2 + high)) ** 2 * mp.mpf("1.02")
    exp_tail = lambda r: (mp.exp(r) - 1 - r) / r**2  # noqa: E731
    exp2_tail = lambda r: (mp.power(2, r) - 1) / r  # noqa: E731
    log_tail = lambda f: (mp.log1p(f) - f + f * f / 2) / f**3  # noqa: E731
    log2_tail = lambda f: (mp.log1p(f) / mp.log(2) - f) / f  # noqa: E731
    atanh_tail = of_square(lambda s: (2 * mp.atanh(s) / s - 2) / s**2)
    sin_tail = of_square(lambda r: (mp.sin(r) - r) / r**3)
    cos_tail = of_square(lambda r: (mp.cos(r) - 1 + r * r / 2) / r**4)
    tanh_tail = of_square(lambda x: (mp.tanh(x) - x) / x**3)
    log2_erfc = lambda x: mp.log(mp.erfc(x)) / mp.log(2) / x  # noqa: E731
    erfcx_mapped = lambda t: mp.exp((2 * (1 + t) / (1 - t)) ** 2) * mp.erfc(2 * (1 + t) / (1 - t))  # noqa: E731
    atan_tail = of_square(lambda t: (mp.atan(t) - t) / t**3)
    return [
        Fit("EXP_F32", "(exp(r) - 1 - r) / r^2", exp_tail, -HALF_LN2, HALF_LN2, 4),
        Fit("EXP2_F32", "(2^r - 1) / r", exp2_tail, -mp.mpf("0.505"), mp.mpf("0.505"), 6),
        Fit("LOG_F32", "(log(1 + f) - f + f^2/2) / f^3", log_tail, low, high, 8),
        Fit("LOG2_F32", "(log2(1 + f) - f) / f", log2_tail, low, high, 10),
        Fit("SIN_F32", "(sin(r) - r) / r^3 in r^2", sin_tail, mp.mpf(0), QUARTER_PI**2, 3),
        Fit("COS_F32", "(cos(r) - 1 + r^2/2) / r^4 in r^2", cos_tail, mp.mpf(0), QUARTER_PI**2, 3),
        Fit("TANH_F32", "(tanh(x) - x) / x^3 in x^2", tanh_tail, mp.mpf(0), mp.mpf("0.4"), 5),
        Fit("ERF_F32", "erf(x) / x - 1 in x^2", of_square(lambda x: mp.erf(x) / x - 1), mp.mpf(0), mp.mpf(1), 6),
        Fit("LOG2_ERFC_F32", "log2(erfc(x)) / x", log2_erfc, mp.mpf("0.99"), mp.mpf(4), 6, lambda x: x * mp.erfc(x)),
        Fit("EXP2_ERFC_F32", "(2^r - 1) / r", exp2_tail, -mp.mpf("0.5005"), mp.mpf("0.5005"), 4, lambda r: one),
        Fit("ERFCX_F32", "exp(a^2) erfc(a) in (a - 2) / (a + 2)", erfcx_mapped, mp.mpf(-1), mp.mpf("0.675"), 16),
        Fit("EXP_F64", "(exp(r) - 1 - r) / r^2", exp_tail, -HALF_LN2, HALF_LN2, 10),
        Fit("EXP2_F64", "(2^r - 1) / r", exp2_tail, -mp.mpf("0.505"), mp.mpf("0.505"), 12),
        Fit("EXP2_POWF", "(2^r - 1) / r, enough for a float32 result", exp2_tail, -mp.mpf("0.505"), mp.mpf("0.505"), 7),
        Fit("ATANH_F64", "(2 atanh(s) / s - 2) / s^2 in s^2", atanh_tail, mp.mpf(0), atanh_end, 7),
        Fit("ATANH_POWF", "(2 atanh(s) / s - 2) / s^2 in s^2, for float32", atanh_tail, mp.mpf(0), atanh_end, 5),
        Fit("SIN_F64", "(sin(r) - r) / r^3 in r^2", sin_tail, mp.mpf(0), QUARTER_PI**2, 6),
        Fit("COS_F64", "(cos(r) - 1 + r^2/2) / r^4 in r^2", cos_tail, mp.mpf(0), QUARTER_PI**2, 6),
        Fit("ATAN_F32", "(atan(t) - t) / t^3 in t^2", atan_tail, mp.mpf(0), mp.mpf("0.1717"), 8),
        Fit("TANH_F64", "(tanh(x) - x) / x^3 in x^2", tanh_tail, mp.mpf(0), mp.mpf("0.3025"), 10),
    ]


def main() -> None:
    lines = [
        '"""Polynomial coefficients, constant term first. Written by tools/fit_polynomials.py: do not edit."""',
        "",
        "# fmt: off",
    ]
    for fit in fits():
        coefficients = fit.coefficients()
        interval = f"[{mp.nstr(fit.low, 6)}, {mp.nstr(fit.high, 6)}]"
        error = f"{'weighted ' if fit.weight else ''}error {mp.nstr(largest_error(fit, coefficients), 2)}"
        lines += [
            "",
            f"# {fit.formula} on {interval}, {error} before rounding",
            f"{fit.name} = (",
            *(f"    {float(c)!r}," for c in coefficients),
            ")",
        ]
    OUTPUT.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
