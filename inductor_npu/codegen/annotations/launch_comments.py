"""What the comments beside launches and calls of a generated module say, written and read in one place.

A graph that comes from a cache brings its comments along: they are how it tells what it does. Imports nothing of
Inductor's, so that a process that only reads them pays nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_IN_EAGER = "in eager: "
_TRAFFIC = re.compile(r"reads (?P<read>.+?) bytes, writes (?P<written>.+?) bytes(?: \((?P<sizes>.*)\))?$")


@dataclass(frozen=True)
class Traffic:
    """Bytes of device memory that one launch reads and writes. Where sizes are arguments, those at the sizes for which
    the graph was compiled, with `sizes` saying what they depend on; None where no size was known then.
    """

    read: int | None
    written: int | None
    sizes: str = ""


def write_traffic(read: object, written: object, sizes: str = "") -> str:
    """`read` and `written` are numbers, or expressions of sizes that are known at run time only."""
    return f"reads {read} bytes, writes {written} bytes" + (f" ({sizes})" if sizes else "")


def read_traffic(comment: str) -> Traffic | None:
    """The traffic that a comment tells; None if it tells something else."""
    match = _TRAFFIC.match(comment)
    if match is None:
        return None
    read, written = match["read"], match["written"]
    if read.isdecimal() and written.isdecimal():
        return Traffic(int(read), int(written), match["sizes"] or "")
    return Traffic(None, None, f"{read} and {written}")


def write_in_eager(reason: str) -> str:
    """That an operator runs in eager, and why."""
    return _IN_EAGER + reason


def read_in_eager(comment: str) -> str | None:
    """Why an operator runs in eager; None if the comment tells something else."""
    return comment.removeprefix(_IN_EAGER) if comment.startswith(_IN_EAGER) else None
