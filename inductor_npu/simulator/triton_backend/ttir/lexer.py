"""Tokens of MLIR's text, and the error that a parse ends in.

Types and locations are single tokens: a kernel repeats few of them very often, so that each is parsed once and found by
its text afterwards.
"""

from __future__ import annotations

import re
from bisect import bisect_right


class ParseError(ValueError):
    """TTIR text that this parser does not understand; the message names the operation and the line of the text."""


def _nested(opening: str, closing: str, depth: int) -> str:
    """A pattern for balanced brackets up to `depth` levels; brackets within string literals do not count."""
    opening, closing = re.escape(opening), re.escape(closing)
    plain = rf'[^{opening}{closing}"]|"(?:[^"\\]|\\.)*"'
    pattern = rf"{opening}(?:{plain})*{closing}"
    for _ in range(depth - 1):
        pattern = rf"{opening}(?:{plain}|{pattern})*{closing}"
    return pattern


_ANGLES = _nested("<", ">", 5)
_PARENTHESES = _nested("(", ")", 6)
_TOKEN = re.compile(
    rf"""
    //.*
    | ( loc{_PARENTHESES}
    | (?:tensor|vector|![\w.$]+){_ANGLES} | ![\w.$]+
    | %[\w$.-]+(?:\#\d+)?
    | [A-Za-z_][\w$.]*
    | "(?:[^"\\]|\\.)*"
    | -?0x[0-9A-Fa-f]+ | -?\d+(?:\.\d*(?:[eE][+-]?\d+)?)?
    | -> | ::
    | @(?:"(?:[^"\\]|\\.)*"|[\w$.-]+)
    | \^[\w$.-]+
    | \#[\w$.-]+(?:{_ANGLES})?
    | \S )
    """,
    re.VERBOSE,
)


class Lexer:
    """The tokens of a text and a position in them. The last token is the empty string and means the end."""

    def __init__(self, text: str) -> None:
        tokens: list[str] = []
        self._first_of_line: list[int] = []
        self._lines = text.split("\n")
        find = _TOKEN.findall
        for line in self._lines:
            self._first_of_line.append(len(tokens))
            if line and line[0] != "#":  # `#loc12 = loc(...)`: the table of locations is read apart
                tokens += find(line)
        if "" in tokens:  # a comment matches without a token
            tokens, self._first_of_line = self._without_comments(tokens)
        tokens.append("")
        self.line_starts = frozenset(self._first_of_line)
        self.tokens = tokens
        self.at = 0

    def _without_comments(self, tokens: list[str]) -> tuple[list[str], list[int]]:
        kept_before = [0]
        for token in tokens:
            kept_before.append(kept_before[-1] + (token != ""))
        return [token for token in tokens if token], [kept_before[first] for first in self._first_of_line]

    def peek(self) -> str:
        return self.tokens[self.at]

    def take(self) -> str:
        token = self.tokens[self.at]
        self.at += 1
        return token

    def accept(self, token: str) -> bool:
        """Take `token` if it is next."""
        if self.tokens[self.at] == token:
            self.at += 1
            return True
        return False

    def expect(self, token: str) -> None:
        if not self.accept(token):
            raise self.error(f"expected `{token}`, found `{self.peek() or 'the end of the text'}`")

    def error(self, reason: str) -> ParseError:
        """The error for the current position: `reason`, the number of the line in the text and the line itself."""
        number = bisect_right(self._first_of_line, self.at)
        return ParseError(f"TTIR line {number}: {reason}\n    {self._lines[number - 1].strip()}")
