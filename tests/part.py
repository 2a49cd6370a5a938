"""Shares of the tests, by number: `python part.py K/N` prints the share and fails, in one line, where there is none.

Imports nothing that has to be installed: `make test-part` asks before it sets anything up.
"""

from __future__ import annotations

import re
import sys
import zlib
from dataclasses import dataclass


@dataclass(frozen=True)
class Part:
    """The `number`-th (from 1) of `parts` shares."""

    number: int
    parts: int

    @classmethod
    def parse(cls, text: str) -> Part:
        """`3/8` as a Part. Raises ValueError with one line that says what is wanted."""
        match = re.fullmatch(r"(\d{1,4})/(\d{1,4})", text.strip())
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise ValueError(f"PART is K/N, share K of N, such as 3/8, with 1 <= K <= N; it is {text!r}")
        return cls(int(match[1]), int(match[2]))

    @classmethod
    def of_commit(cls, commit: str, parts: int) -> Part:
        """The share that a commit names by its hash, hexadecimal."""
        return cls(int(commit, 16) % parts + 1, parts)

    def holds(self, function: str) -> bool:
        """Whether this share has the test function `function`: its node id without the parameters."""
        return zlib.crc32(function.encode()) % self.parts == self.number - 1

    def __str__(self) -> str:
        return f"{self.number}/{self.parts}"


def main(arguments: list[str]) -> int:
    """`K/N`, or `--commit HASH N`: prints the share. The exit status is 2 where the arguments name none."""
    try:
        if len(arguments) == 3 and arguments[0] == "--commit":
            part = Part.of_commit(arguments[1], int(arguments[2]))
        else:
            part = Part.parse(" ".join(arguments))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    print(part)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
