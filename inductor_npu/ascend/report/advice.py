"""What to write instead, for each thing that a kernel does element by element and each reason to refuse one."""

from __future__ import annotations

import re

from inductor_npu.ascend.hivm import Finding
from inductor_npu.ascend.report.model import Refusal

_ROWS = "a contiguous innermost axis of at least 32 bytes (8 elements of fp32)"

# (kind of finding, pattern in its words, advice); the first that fits.
_FOR_FINDINGS = (
    (
        "SL",
        r"of i64 .*\b(add|sub|mul|div|rem|cmp|max|min|shl|shr)",
        "int64 arithmetic has no vector instruction: cast to int32 right after the load, `.to(tl.int32)`",
    ),
    (
        "SL",
        r"device memory",
        (
            "addresses are computed element by element: give each axis an index of its own (`//` and `%` on scalars "
            f"only), so that a load is rows with {_ROWS}; where an index is data, load it as a "
            "scalar in a loop over rows, "
            "or load the row and use `tl.gather`"
        ),
    ),
    (
        "SL",
        r"\brem[su]i\b",
        (
            "`%` on a tensor of int32 has no vector instruction: give each axis an index of its own, or write "
            "`a - (a // k) * k`"
        ),
    ),
    (
        "SL",
        r"",
        "along the innermost axis this has no vector instruction: `tl.trans`, the same along axis 0, `tl.trans` back",
    ),
    (
        "EL",
        r"on rows of",
        (
            "the tile's last axis is so short that it is padded to 32 bytes: flatten the tile, or "
            "choose axes so that it "
            f"has {_ROWS}"
        ),
    ),
    (
        "EL",
        r"",
        (
            f"each burst carries next to nothing: load the tile with {_ROWS}, and turn it with "
            "`tl.trans` where it must "
            "lie the other way"
        ),
    ),
    ("HL", r"smaller stride", "turn the tile with `tl.trans` first, then store it along its contiguous axis"),
    (
        "HL",
        r"not a multiple of 32",
        "let the tile that is stored begin at a multiple of 32 bytes: no slice of another tile",
    ),
    (
        "HL",
        r"apart in the Unified Buffer",
        "store a tile whose rows are contiguous: reshape or transpose it in the Unified Buffer first",
    ),
    (
        "HL",
        r"reversal",
        (
            "reverse along another axis than the innermost, or `tl.gather` with a reversed index "
            "from a row in the Unified "
            "Buffer"
        ),
    ),
    ("HL", r"int64", "use int32: cast right after the load, `.to(tl.int32)`"),
    ("HL", r"row", "reduce in fp32 (exact for integers below 2^24), or along axis 0"),
)
_FOR_CUBE = (
    ("WC", r"atomic|goes to L1", "each part of K to a matrix of its own, `tl.store`, and a kernel that sums them"),
    ("WC", r"requantised", "store int32, or scale in float32 before the cast to int8"),
    ("WC", r"lower bound", "a loop that begins at the lower bound, in place of a mask"),
    ("WC", r"descriptor", "`tl.load` and `tl.store` with masks, or block pointers with `boundary_check`"),
    ("NS", r"", "an even number of rows, a mask on each store, and no column of data that is loaded before a loop"),
    ("NB", r"", "smaller blocks, so that operands fit in L1 twice; above all a smaller block along K"),
    ("NW", r"", "masks made of scalars and of tiles from before the loop, so that cube and vector cores overlap"),
)
_FOR_REFUSALS = (
    (r"\bub overflow", "smaller tiles: halve the largest block, or keep fewer values alive at once"),
    (r"\b(cc|cbuf) overflow", "smaller blocks of the matrix product"),
    (r"libdevice has no function", "a function of `triton.language`, or one that Ascend's libdevice has"),
    (r"fp64|float64|f64", "fp32: the chip has no fp64"),
    (r"grid should be less", "fewer, longer programs: a grid of one program a core and a loop over tiles"),
)


def for_finding(finding: Finding) -> str | None:
    """What to write instead of what `finding` names; None for a single element, which costs little."""
    for kind, pattern, advice in (*_FOR_FINDINGS, *_FOR_CUBE):
        if finding.kind == kind and re.search(pattern, finding.what):
            return advice
    return None


def for_refusal(refusal: Refusal) -> str | None:
    """What to write instead where it is known."""
    for pattern, advice in _FOR_REFUSALS:
        if re.search(pattern, refusal.message):
            return advice
    if refusal.crashed:
        return "another form of the same: this is a defect of the compiler, not of the kernel"
    return None
