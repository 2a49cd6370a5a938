"""An LLVM value, with the known facts about it."""

from __future__ import annotations

from typing import Any

from .types import limits, llvm_type


class Val:
    """An LLVM value: `lanes` elements (0: a scalar) of the MLIR element type `element`.

    For integer scalars: `divisor` is a number that divides it (0 for the constant 0), `low` and `high` bound it, as the
    number that the type holds; for floats, where `bounds` are known, they bound it unless it is NaN. `parts`, for a
    sum, is what stays the same in the innermost loop and what changes with it; `moved`, for a sum with a constant,
    is the other term and the constant.
    """

    __slots__ = (
        "bits_are_ordered",
        "bounds",
        "constant",
        "divisor",
        "element",
        "high",
        "lanes",
        "level",
        "low",
        "moved",
        "parts",
        "text",
    )

    def __init__(self, text: str, element: str, lanes: int = 0, level: int = 0) -> None:
        self.text, self.element, self.lanes, self.level = text, element, lanes, level
        self.constant: Any = None  # the number, where it is known: an int or a float as `element` is
        self.divisor = 1
        self.low, self.high = limits(element)
        self.parts: tuple[Val, Val] | None = None
        self.moved: tuple[Val, int] | None = None
        self.bounds: tuple[float, float] | None = None
        # A float's sign bit is clear, or it is -inf: its bits order like it, NaN above all.
        self.bits_are_ordered = False

    def known(self, low: int, high: int, divisor: int = 1) -> Val:
        """States the bounds and a divisor of the exact result, of which the type holds the low bits. Returns itself."""
        least, most = limits(self.element)
        if low < least or high > most:  # it may wrap: then only a power of two divides what is held, too
            low, high, divisor = least, most, divisor & -divisor
        if divisor > 1:
            low, high = -(-low // divisor) * divisor, high // divisor * divisor
        self.low, self.high, self.divisor = low, high, divisor
        return self

    @property
    def type(self) -> str:
        return llvm_type(self.element, self.lanes)

    def __str__(self) -> str:
        """As an operand: type and name."""
        return f"{llvm_type(self.element, self.lanes)} {self.text}"
