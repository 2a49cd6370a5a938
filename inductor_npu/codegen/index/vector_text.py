"""Prints indices as text for tiles, without `//` and `%`, which Ascend's compiler computes element by element."""

from __future__ import annotations

from collections.abc import Mapping

import sympy
from torch.utils._sympy.functions import FloorDiv, Max, Min, Mod, ModularIndexing, PythonMod

from inductor_npu.codegen.index.value_range import value_range
from inductor_npu.tiling import limits


class CannotEmit(NotImplementedError):
    """Something in the kernel's loops has no form with one block axis for each loop variable."""


def vector_text(expr: sympy.Expr, names: Mapping[sympy.Symbol, str], lengths: Mapping[sympy.Symbol, int]) -> str:
    """Returns `expr` as Triton text without `//` and `%`.

    `names` has the texts of its symbols, each of which is from 0 to below its length in `lengths`. Raises CannotEmit if
    there is no such text: a division by a dynamic size, of a number that may be too large for float32, or an unknown
    function.
    """

    def divided(number: sympy.Expr, period: int) -> tuple[str, int]:
        """The text of a dividend, and how many periods it adds so that the dividend is never negative."""
        found = value_range(number, lengths)
        added = 0 if found is None else max(0, -(found[0] // period))
        if found is None or found[1] + added * period >= limits.LARGEST_DIVIDED:
            raise CannotEmit(f"{number} is divided and may be large")
        return text_of(number + added * period), added

    def divisor(number: sympy.Expr) -> int:
        if not isinstance(number, sympy.Integer) or number <= 0:
            raise CannotEmit(f"a division by {number}")
        return int(number)

    def text_of(part: sympy.Expr) -> str:
        if isinstance(part, sympy.Integer):
            return str(int(part))
        if isinstance(part, sympy.Symbol) and part in names:
            return names[part]
        if isinstance(part, sympy.Add):
            return f"({' + '.join(text_of(arg) for arg in part.args)})"
        if isinstance(part, sympy.Mul):
            return f"({' * '.join(text_of(arg) for arg in part.args)})"
        if isinstance(part, FloorDiv):
            by = divisor(part.args[1])
            number, added = divided(part.args[0], by)
            text = f"device_functions.small_quotient({number}, {by})"
            return f"({text} - {added})" if added else text
        if isinstance(part, ModularIndexing):
            by, modulus = divisor(part.args[1]), divisor(part.args[2])
            number, _ = divided(part.args[0], by * modulus)
            if by != 1:
                number = f"device_functions.small_quotient({number}, {by})"
            return f"device_functions.small_remainder({number}, {modulus})"
        if isinstance(part, (Mod, PythonMod)):
            modulus = divisor(part.args[1])
            return f"device_functions.small_remainder({divided(part.args[0], modulus)[0]}, {modulus})"
        if isinstance(part, sympy.Abs):
            return f"tl.abs({text_of(part.args[0])})"
        if isinstance(part, (Max, Min, sympy.Max, sympy.Min)):
            function = "tl.maximum" if isinstance(part, (Max, sympy.Max)) else "tl.minimum"
            text = text_of(part.args[0])
            for arg in part.args[1:]:
                text = f"{function}({text}, {text_of(arg)})"
            return text
        raise CannotEmit(f"{part} as an index on chip")

    return text_of(expr)


def is_vector_text(expr: sympy.Expr, lengths: Mapping[sympy.Symbol, int]) -> bool:
    """Whether `expr`, of axes with these `lengths` and of other symbols, has a `vector_text`."""
    try:
        vector_text(expr, {symbol: str(symbol) for symbol in expr.free_symbols}, lengths)
    except CannotEmit:
        return False
    return True
