"""The format of the comments beside launches and operator calls: one function writes each, one parses it.

A graph from the compile cache is not lowered again. `inductor_npu.explain` reads these comments to describe it. This
module imports nothing from Inductor, so a process that only parses comments stays fast.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_IN_EAGER = "in eager: "
_LIBRARY = "library: "
_PRODUCT = "product: "
_ARITHMETIC = re.compile(r"computes (?P<operations>\d+) FLOP$")
_OF_ATTENTION = (
    "; a part of scaled_dot_product_attention, which PyTorch makes products of where no kernel of attention takes it "
    "(docs/attention.md): because of dropout, the dtype, or the sizes"
)
_TRAFFIC = re.compile(r"reads (?P<read>.+?) bytes, writes (?P<written>.+?) bytes(?: \((?P<sizes>.*)\))?$")


@dataclass(frozen=True)
class Traffic:
    """Bytes of device memory that one launch reads and writes.

    For dynamic sizes, these are the bytes at the sizes that the graph was compiled with, and `sizes` names the sizes
    that they depend on. A value is None if no size was known at compile time.
    """

    read: int | None
    written: int | None
    sizes: str = ""


def write_traffic(read: object, written: object, sizes: str = "") -> str:
    """Returns the comment for `read` and `written` bytes; each is a number, or an expression of sizes."""
    return f"reads {read} bytes, writes {written} bytes" + (f" ({sizes})" if sizes else "")


def read_traffic(comment: str) -> Traffic | None:
    """Returns the traffic that `comment` states; None for any other comment."""
    match = _TRAFFIC.match(comment)
    if match is None:
        return None
    read, written = match["read"], match["written"]
    if read.isdecimal() and written.isdecimal():
        return Traffic(int(read), int(written), match["sizes"] or "")
    return Traffic(None, None, f"{read} and {written}")


def write_product(cycles: float, apart: float, of_attention: bool) -> str:
    """Returns the comment for a matrix product in a kernel that takes so many estimated `cycles`, where a call of the
    library and separate kernels for what is fused take `apart`. `of_attention`: whether it is a part of attention that
    is not one kernel.
    """
    estimate = f"about {cycles:.0f} cycles; a library call and separate kernels about {apart:.0f}"
    return f"{_PRODUCT}{estimate}{_OF_ATTENTION if of_attention else ''}"


def read_product(comment: str) -> str | None:
    """Returns what `comment` states about a matrix product; None for any other comment."""
    return comment.removeprefix(_PRODUCT) if comment.startswith(_PRODUCT) else None


def write_arithmetic(operations: int) -> str:
    """Returns the comment for a launch or a call that does so many floating-point operations of products, attention and
    convolutions.
    """
    return f"computes {operations} FLOP"


def read_arithmetic(comment: str) -> int | None:
    """Returns the floating-point operations that `comment` states; None for any other comment."""
    match = _ARITHMETIC.match(comment)
    return None if match is None else int(match["operations"])


def write_library(reason: str) -> str:
    """Returns the comment for a matrix product that the library computes because of `reason`."""
    return _LIBRARY + reason


def read_library(comment: str) -> str | None:
    """Returns the reason that `comment` states for a call of the library; None for any other comment."""
    return comment.removeprefix(_LIBRARY) if comment.startswith(_LIBRARY) else None


def write_in_eager(reason: str) -> str:
    """Returns the comment for an operator that runs in eager because of `reason`."""
    return _IN_EAGER + reason


def read_in_eager(comment: str) -> str | None:
    """Returns the reason that `comment` states for running an operator in eager; None for any other comment."""
    return comment.removeprefix(_IN_EAGER) if comment.startswith(_IN_EAGER) else None
