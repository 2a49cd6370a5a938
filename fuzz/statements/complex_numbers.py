"""Complex values, seen as pairs of real ones and back, contiguous or not."""

from __future__ import annotations

from contextlib import suppress

import torch

from fuzz.case import LAYOUTS, Input
from fuzz.draft import Draft, NothingFits, Rounding


def joined(draft: Draft) -> None:
    """Complex numbers of pairs: a view, of what is turned or cut as well; or of two values, which copies."""
    text = draft.choose(
        ("torch.view_as_complex({})", "torch.view_as_complex({}.clone())", "torch.complex({}[..., 0], {}[..., 1])")
    )
    name = _pairs(draft, LAYOUTS if "clone" in text or "[" in text else ("contiguous",))
    rank = draft.of(name).dim()
    turned = name
    if rank > 2:
        turned = f"{name}.transpose({draft.integer(0, rank - 2)}, {draft.integer(0, rank - 2)})"
    elif draft.sometimes():
        turned = f"{name}[::2]"
    if draft.sometimes():  # computed on the way
        turned = f"({turned} * 2)"
    draft.add(text.replace("{}", turned), [name], Rounding.SUMS)


def parted(draft: Draft) -> None:
    """Real numbers of complex ones."""
    name = _complex(draft)
    turned = name
    if draft.of(name).dim() >= 2 and draft.sometimes():
        turned = f"{name}.transpose(0, -1)"
    text = draft.choose(("torch.view_as_real({})", "{}.real", "{}.imag", "torch.view_as_real({}.resolve_conj())"))
    draft.add(text.format(turned), [name], Rounding.NONE)


def computed(draft: Draft) -> None:
    """Arithmetic of complex numbers. Where a part is not finite, the other is whatever the order of additions makes."""
    name = _complex(draft)
    text = draft.choose(
        (
            "{0} * {0}",
            "{0} + 1",
            "{0} * 2j",
            "{0}.conj()",
            "{0}.conj() * {0}",
            "-{0}",
            "{0}.sum(0)",
            "{0} - {0}.real",
            "{0} * torch.complex({0}.imag, {0}.real)",
        )
    )
    if "sum" in text and draft.of(name).dim() == 0:
        raise NothingFits
    draft.add(text.format(name), [name], Rounding.SUMS)


def moved(draft: Draft) -> None:
    """Complex numbers elsewhere: copies whose strides are another's."""
    name = _complex(draft)
    rank = draft.of(name).dim()
    if rank == 0:
        raise NothingFits
    text = draft.choose(
        (
            "{x}.transpose(0, {a}).contiguous()",
            "{x}.clone()",
            "{x}.flip({a})",
            "torch.cat([{x}, {x}], {a})",
            "{x}.reshape(-1)",
            "{x}[1:]",
            "{x}.to(torch.complex64)",
        )
    )
    rounding = Rounding.SUMS if "complex64" in text else Rounding.NONE
    draft.add(text.format(x=name, a=draft.axis(name)), [name], rounding)


def _complex(draft: Draft) -> str:
    """A finite complex value; if there is none, or by chance, one that is joined for it."""
    for _ in range(2):
        if draft.sometimes():
            joined(draft)
        with suppress(NothingFits):
            return draft.operand(lambda tensor: tensor.is_complex() and bool(tensor.isfinite().all()))
    raise NothingFits


def _pairs(draft: Draft, layouts: tuple[str, ...]) -> str:
    """A value whose last axis has two elements; most often an input of one of `layouts` made for it."""

    def fits(tensor: torch.Tensor) -> bool:
        is_wide = tensor.dtype in (torch.float32, torch.float64)
        return is_wide and tensor.dim() > 1 and tensor.shape[-1] == 2 and bool(tensor.isfinite().all())

    if draft.integer(0, 3) == 3:
        return draft.operand(fits)
    shape = (*(draft.choose((3, 1, 4, 8, 17)) for _ in range(draft.integer(1, 3))), 2)
    dtype, values = draft.choose(("float32", "float64")), draft.choose(("normal", "integers"))
    if draft.gradients:
        layouts = tuple(layout for layout in layouts if layout != "expanded")
    return draft.input(Input(dtype, shape, draft.choose(layouts), values, seed=len(draft.inputs)))


STATEMENTS = (*(joined,) * 2, parted, computed, moved)
