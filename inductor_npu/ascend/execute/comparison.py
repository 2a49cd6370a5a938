"""Are two results of the same kernel, of two compilers, the same? Element by element, with a bound that is measured.

Integers and booleans: equal bits. Floats a and b: NaN equals NaN, infinities equal themselves, otherwise |a - b| may be
at most

    FUNCTION_UNITS * eps * max(|a|, |b|)  +  SPREAD * s

- `eps` is 2^-23 for the arithmetic: both compilers compute in fp32, whatever the storage. FUNCTION_UNITS is what
  Ascend's polynomials and the embedded NPU's functions may differ by.
- fp16 and bf16 results are rounded once more: HALF_UNITS of their own last place are added.
- `s` is how far the element moves at most in RUNS runs with other roundings (noise.py): the rounding error that the
  kernel itself has, of its sums and of its differences. SPREAD is because few runs were made, and because both results
  have such an error. What is exact does not move, so that it excuses no wrong index, mask or constant.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

FUNCTION_UNITS = 64
HALF_UNITS = 2
SPREAD = 10
RUNS = 8
_EPS = 2.0**-23


@dataclass(frozen=True)
class ElementType:
    """How a Triton type lies in memory. `eps` is the distance of 1.0 to the next number, None for integers."""

    size: int
    storage: str
    eps: float | None = None

    def decode(self, data: bytes) -> Any:
        """The numbers in `data`, whose length is a multiple of the element's: float64, or the integer type."""
        raw = np.frombuffer(data, self.storage)
        if self.eps is None:
            return raw
        if self.storage == "<u2":  # bf16: the upper half of an fp32
            return (raw.astype("<u4") << 16).view("<f4").astype(np.float64)
        return raw.astype(np.float64)


ELEMENT_TYPES = {
    "fp64": ElementType(8, "<f8", 2.0**-52),
    "fp32": ElementType(4, "<f4", 2.0**-23),
    "fp16": ElementType(2, "<f2", 2.0**-10),
    "bf16": ElementType(2, "<u2", 2.0**-7),
    "i64": ElementType(8, "<i8"),
    "i32": ElementType(4, "<i4"),
    "i16": ElementType(2, "<i2"),
    "i8": ElementType(1, "|i1"),
    "u64": ElementType(8, "<u8"),
    "u32": ElementType(4, "<u4"),
    "u16": ElementType(2, "<u2"),
    "u8": ElementType(1, "|u1"),
    "i1": ElementType(1, "|u1"),
    "u1": ElementType(1, "|u1"),
}


@dataclass(frozen=True)
class Mismatch:
    """Where two buffers differ: `first` element (from the buffer's start), values and tolerance there, how many, how
    far.
    """

    first: int
    expected: float | int
    found: float | int
    tolerance: float
    count: int
    elements: int
    largest: float | int | None


def compare(expected: bytes, found: bytes, kind: ElementType, spread: Any) -> Mismatch | None:
    """The differences between two buffers of `kind`, None if there are none that count. `spread`: see `moved`, or
    None.
    """
    whole = len(expected) // kind.size * kind.size
    if expected == found:
        return None
    if expected[whole:] != found[whole:]:  # bytes behind the last whole element
        first = whole // kind.size
        return Mismatch(first, expected[whole], found[whole], 0.0, 1, first + 1, None)
    a, b = kind.decode(expected[:whole]), kind.decode(found[:whole])
    if kind.eps is None:
        wrong = a != b
        tolerance = None
    else:
        wrong, tolerance = _floats_differ(a, b, kind, spread)
    places = np.flatnonzero(wrong)
    if not len(places):
        return None
    first = int(places[0])
    if kind.eps is None:
        distances = [abs(int(x) - int(y)) for x, y in zip(a[places], b[places])]
        largest: float | int | None = max(distances)
    else:
        finite = np.abs(a[places] - b[places])
        largest = None if np.isnan(finite).any() else float(finite.max())
    allowed = 0.0 if tolerance is None else float(tolerance[first])
    return Mismatch(first, a[first].item(), b[first].item(), allowed, len(places), len(a), largest)


def _floats_differ(a: Any, b: Any, kind: ElementType, spread: Any) -> tuple[Any, Any]:
    assert kind.eps is not None
    with np.errstate(invalid="ignore", over="ignore"):
        size = np.maximum(np.abs(a), np.abs(b))
        relative = FUNCTION_UNITS * _EPS + (HALF_UNITS * kind.eps if kind.eps > _EPS else 0.0)
        # The least number of the format, too: denormals have no last place to speak of.
        least = {2.0**-10: 2.0**-24, 2.0**-7: 2.0**-133}.get(kind.eps, 2.0**-126)
        tolerance = relative * np.where(np.isfinite(size), size, 0.0) + HALF_UNITS * least
        if spread is not None:
            tolerance = tolerance + SPREAD * spread
        equal = (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= tolerance)
    return ~equal, tolerance


def moved(before: bytes, after: bytes, kind: ElementType) -> Any:
    """How far each element moved between two runs; not-a-number and infinity do not count. None for integers."""
    if kind.eps is None:
        return None
    whole = len(before) // kind.size * kind.size
    with np.errstate(invalid="ignore", over="ignore"):
        distance = np.abs(kind.decode(before[:whole]) - kind.decode(after[:whole]))
    return np.where(np.isfinite(distance), distance, 0.0)
