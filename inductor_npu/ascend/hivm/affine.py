"""Affine maps: `affine_map<(d0)[s0] -> (d0 * 64 + s0, 4)>` as a Python function of dimensions, then symbols."""

from __future__ import annotations

import re
from functools import lru_cache

from .ir import AffineMap
from .types import split_types

_MAP = re.compile(r"affine_map<\(([^)]*)\)(?:\[([^\]]*)\])? -> \((.*)\)>$")
_TOKEN = re.compile(r"\s*(\d+|[ds]\d+|floordiv|ceildiv|mod|[-+*()])")


@lru_cache(maxsize=4096)
def read_affine_map(text: str) -> AffineMap:
    """The map that `text` spells. Raises ValueError if it is not understood."""
    match = _MAP.match(text.strip())
    if match is None:
        raise ValueError(f"affine map {text!r}")
    names = [name.strip() for group in match.group(1, 2) if group for name in group.split(",")]
    results = [f"{_Expression(part).python()}, " for part in split_types(match.group(3))]
    # The text consists of the tokens of _TOKEN alone: names, integers and operators.
    function: AffineMap = eval(f"lambda {', '.join(names)}: ({''.join(results)})", {})
    return function


class _Expression:
    """A sum of products; `floordiv`, `ceildiv` and `mod` bind like `*`."""

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = []
        position = 0
        while position < len(text.rstrip()):
            match = _TOKEN.match(text, position)
            if match is None:
                raise ValueError(f"affine expression {text!r}")
            self._tokens.append(match.group(1))
            position = match.end()
        self._text = text

    def python(self) -> str:
        result = self._sum()
        if self._tokens:
            raise ValueError(f"affine expression {self._text!r}")
        return result

    def _peek(self) -> str:
        return self._tokens[0] if self._tokens else ""

    def _sum(self) -> str:
        result = self._product()
        while self._peek() in ("+", "-") and self._peek():
            operator = self._tokens.pop(0)
            result = f"({result} {operator} {self._product()})"
        return result

    def _product(self) -> str:
        result = self._atom()
        while self._peek() in ("*", "floordiv", "ceildiv", "mod"):
            operator = self._tokens.pop(0)
            right = self._atom()
            if operator == "ceildiv":
                result = f"(-(-{result} // {right}))"
            else:
                result = f"({result} { {'*': '*', 'floordiv': '//', 'mod': '%'}[operator] } {right})"
        return result

    def _atom(self) -> str:
        if not self._tokens:
            raise ValueError(f"affine expression {self._text!r}")
        token = self._tokens.pop(0)
        if token == "-":
            return f"(-{self._atom()})"
        if token == "(":
            result = self._sum()
            if not self._tokens or self._tokens.pop(0) != ")":
                raise ValueError(f"affine expression {self._text!r}")
            return result
        return token
