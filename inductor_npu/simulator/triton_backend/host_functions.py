"""Functions of generated kernels that the host replaces by functions of its runtime.

A kernel for Ascend consists of what Ascend's compiler vectorises. A sort there compares each element of a row with all
others, which is slower on a processor than its own sort. `device_functions.sort_with_index` is a Triton function, so
that its call is recognisable as long as it is not inlined. The compiler asks Triton not to inline it, and the code
generator replaces the call as `sort_of` says. The Unified Buffer is still estimated from the function's own operations,
as for the chip.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

SORT = "npu.sort"

_SORT = re.compile(
    r"inductor_npu\.runtime\.device_functions\.scans\.sort_with_index__(?P<types>.+?)__(?P<constants>.+)"
)
# A constant argument in the name of a function: its place and its value. Triton 3.2 writes names without the module, so
# that ours cannot be told from a user's: there the operations of a sort run.
_CONSTANT = re.compile(r"\((\d+),\)cconstexpr_(\w+?)_(?=_|$)")
# How numbers are compared, in the runtime's letters. bfloat16 is sorted as float32.
_KINDS = {
    "fp16": "f",
    "fp32": "f",
    "fp64": "f",
    **{f"{sign}{bits}": sign for sign in "iu" for bits in (1, 8, 16, 32, 64)},
}


@dataclass(frozen=True)
class Sort:
    """A call of `sort_with_index(x, index, length, dim, descending)`. `kind` is how numbers of `x` are compared, in the
    runtime's letters; `length` None: the third operand.
    """

    kind: str
    axis: int
    descending: bool
    length: int | None = None


def sort_of(function: str) -> Sort | None:
    """The sort that the function of this name in a module does; None where it is another function."""
    match = _SORT.fullmatch(function)
    if match is None:
        return None
    constants = dict(_CONSTANT.findall(match["constants"]))
    kind = _KINDS.get(match["types"].partition("S")[0])
    if not {"3", "4"} <= constants.keys() or kind is None:
        return None
    length = int(constants["2"]) if "2" in constants else None
    return Sort(kind, int(constants["3"]), constants["4"] == "True", length)


__all__ = ["SORT", "Sort", "sort_of"]
