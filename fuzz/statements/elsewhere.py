"""Operators in dtypes that CUDA supports and the CPU does not: the CPU computes them in a wider one."""

from __future__ import annotations

from fuzz.case import Input
from fuzz.draft import Draft, Rounding, is_real, is_whole

HALF = ("float16", "bfloat16")
MOST_COUNTED = 16  # of eight bits, which the counts have, too: a larger second call counts fewer than 128


def histogram(draft: Draft) -> None:
    """How many integers are in each bin, whose width is a whole number: so no border is rounded."""
    name = draft.operand(lambda tensor: is_whole(tensor) and (tensor.itemsize > 1 or tensor.numel() <= MOST_COUNTED))
    bins, width = draft.choose((4, 1, 3, 9, 17)), draft.choose((1, 2, 3))
    first = draft.integer(-4 if draft.of(name).dtype.is_signed else 0, 1)
    options = f"bins={bins}, min={first}, max={first + bins * width}, within=float64"
    draft.add(f"wider(torch.histc, {name}, {options})", [name], Rounding.NONE)


def flags(draft: Draft) -> None:
    """The magnitude of truth values."""
    name = draft.operand(is_real, exact=True)
    draft.add(f"wider(torch.abs, {name} > 0, within=uint8)", [name], Rounding.NONE)


def half(draft: Draft) -> None:
    """Pools, enlargements and losses of half precision."""
    kind = draft.choose(("pool", "antialias", "response", "margin"))
    dtype = draft.choose(HALF)
    shapes = {
        "pool": (draft.integer(1, 3), *(draft.integer(2, 7) for _ in range(3))),
        "antialias": (1, draft.integer(1, 3), *(draft.integer(2, 12) for _ in range(2))),
        "response": (draft.integer(1, 2), draft.integer(2, 5), draft.integer(2, 5)),
        "margin": (draft.integer(1, 5), draft.integer(2, 6)),
    }
    name = draft.input(Input(dtype, shapes[kind], values="normal", seed=len(draft.inputs)))
    if kind == "pool":
        options = f"2, stride={draft.integer(1, 2)}, padding={draft.integer(0, 1)}"
        text = f"wider(F.avg_pool3d, {name}, {options}, within=float32)"
    elif kind == "antialias":
        sizes = (draft.integer(1, 9), draft.integer(1, 9))
        text = f"wider(F.interpolate, {name}, size={sizes}, mode='bilinear', antialias=True, within=float32)"
    elif kind == "response":
        text = f"wider(F.local_response_norm, {name}, {draft.integer(1, 3)}, within=float32)"
    else:
        index = draft.index((shapes[kind][0],), shapes[kind][1])
        text = f"wider(F.multi_margin_loss, {name}, {index}, within=float32)"
    draft.add(text, [name], Rounding.ALWAYS)


STATEMENTS = (*(histogram,) * 2, flags, *(half,) * 2)
