"""Writes `mathlib/coefficients.py`: the polynomials of the math library, interpolated at Chebyshev nodes in 150 digits.

Interpolation at Chebyshev nodes is within a small factor of the minimax polynomial, needs no iteration, and gives the
same digits on every machine. Run `python tools/fit_polynomials.py` after a change of this table; needs mpmath.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import mpmath as mp

mp.mp.dps = 150
OUTPUT = Path(__file__).parent.parent / "inductor_npu/simulator/triton_backend/mathlib/coefficients.py"
TINY = mp.mpf("1e-30")
HALF_LN2 = mp.log(2) / 2 * mp.mpf("1.01")
QUARTER_PI = mp.pi / 4 * mp.mpf("1.02")


def chebyshev_nodes(low: mp.mpf, high: mp.mpf, count: int) -> list[mp.mpf]:
    middle, radius = (low + high) / 2, (high - low) / 2
    nodes = [middle + radius * mp.cos(mp.pi * (2 * i + 1) / (2 * count)) for i in range(count)]
    return [x if abs(x) > TINY else TINY for x in nodes]  # most functions below are 0/0 at 0


def interpolate(function: Callable[[mp.mpf], mp.mpf], low: mp.mpf, high: mp.mpf, degree: int) -> list[mp.mpf]:
    """Monomial coefficients, constant term first, of the polynomial that meets `function` at the Chebyshev nodes."""
    nodes = chebyshev_nodes(low, high, degree + 1)
    matrix = mp.matrix(degree + 1, degree + 1)
    for row, x in enumerate(nodes):
        for column in range(degree + 1):
            matrix[row, column] = x**column
    return list(mp.lu_solve(matrix, mp.matrix([function(x) for x in nodes])))


def largest_error(
    function: Callable[[mp.mpf], mp.mpf], coefficients: list[mp.mpf], low: mp.mpf, high: mp.mpf
) -> mp.mpf:
    points = chebyshev_nodes(low, high, 301)
    return max(abs(mp.polyval(coefficients[::-1], x) - function(x)) for x in points)


def of_square(function: Callable[[mp.mpf], mp.mpf]) -> Callable[[mp.mpf], mp.mpf]:
    """The same even function as a function of x squared."""
    return lambda z: function(mp.sqrt(z))


def fits() -> list[tuple[str, str, Callable[[mp.mpf], mp.mpf], mp.mpf, mp.mpf, int]]:
    """Name, formula, function, interval and degree of each polynomial."""
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
    erfcx_mapped = lambda t: mp.exp((2 * (1 + t) / (1 - t)) ** 2) * mp.erfc(2 * (1 + t) / (1 - t))  # noqa: E731
    atan_tail = of_square(lambda t: (mp.atan(t) - t) / t**3)
    return [
        ("EXP_F32", "(exp(r) - 1 - r) / r^2", exp_tail, -HALF_LN2, HALF_LN2, 4),
        ("EXP2_F32", "(2^r - 1) / r", exp2_tail, -mp.mpf("0.505"), mp.mpf("0.505"), 6),
        ("LOG_F32", "(log(1 + f) - f + f^2/2) / f^3", log_tail, low, high, 8),
        ("LOG2_F32", "(log2(1 + f) - f) / f", log2_tail, low, high, 10),
        ("SIN_F32", "(sin(r) - r) / r^3 in r^2", sin_tail, mp.mpf(0), QUARTER_PI**2, 3),
        ("COS_F32", "(cos(r) - 1 + r^2/2) / r^4 in r^2", cos_tail, mp.mpf(0), QUARTER_PI**2, 3),
        ("TANH_F32", "(tanh(x) - x) / x^3 in x^2", tanh_tail, mp.mpf(0), mp.mpf("0.4"), 5),
        ("ERF_F32", "erf(x) / x - 1 in x^2", of_square(lambda x: mp.erf(x) / x - 1), mp.mpf(0), mp.mpf(1), 7),
        ("LOG_ERFC_F32", "log(erfc(x)) / x", lambda x: mp.log(mp.erfc(x)) / x, mp.mpf("0.95"), mp.mpf("4.05"), 9),
        ("ERFCX_F32", "exp(a^2) erfc(a) in (a - 2) / (a + 2)", erfcx_mapped, mp.mpf(-1), mp.mpf("0.675"), 16),
        ("EXP_F64", "(exp(r) - 1 - r) / r^2", exp_tail, -HALF_LN2, HALF_LN2, 10),
        ("EXP2_F64", "(2^r - 1) / r", exp2_tail, -mp.mpf("0.505"), mp.mpf("0.505"), 12),
        ("EXP2_POWF", "(2^r - 1) / r, enough for a float32 result", exp2_tail, -mp.mpf("0.505"), mp.mpf("0.505"), 7),
        ("ATANH_F64", "(2 atanh(s) / s - 2) / s^2 in s^2", atanh_tail, mp.mpf(0), atanh_end, 7),
        ("ATANH_POWF", "(2 atanh(s) / s - 2) / s^2 in s^2, for float32", atanh_tail, mp.mpf(0), atanh_end, 5),
        ("SIN_F64", "(sin(r) - r) / r^3 in r^2", sin_tail, mp.mpf(0), QUARTER_PI**2, 6),
        ("COS_F64", "(cos(r) - 1 + r^2/2) / r^4 in r^2", cos_tail, mp.mpf(0), QUARTER_PI**2, 6),
        ("ATAN_F32", "(atan(t) - t) / t^3 in t^2", atan_tail, mp.mpf(0), mp.mpf("0.1717"), 8),
        ("TANH_F64", "(tanh(x) - x) / x^3 in x^2", tanh_tail, mp.mpf(0), mp.mpf("0.3025"), 10),
    ]


def main() -> None:
    lines = [
        '"""Polynomial coefficients, constant term first. Written by tools/fit_polynomials.py: do not edit."""',
        "",
        "# fmt: off",
    ]
    for name, formula, function, low, high, degree in fits():
        coefficients = interpolate(function, low, high, degree)
        error = largest_error(function, coefficients, low, high)
        lines += [
            "",
            f"# {formula} on [{mp.nstr(low, 6)}, {mp.nstr(high, 6)}], error {mp.nstr(error, 2)} before rounding",
            f"{name} = (",
            *(f"    {float(c)!r}," for c in coefficients),
            ")",
        ]
    OUTPUT.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
