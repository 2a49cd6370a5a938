"""What Python does around tensors: branches on sizes, loops, graph breaks."""

from __future__ import annotations

from fuzz.case import is_float
from fuzz.draft import Draft, Rounding


def on_size(draft: Draft) -> None:
    """A choice by a size."""
    name = draft.operand(lambda tensor: tensor.dim() > 0)
    axis = draft.axis(name)
    draft.add(f"{name} * 2 if {name}.shape[{axis}] > {draft.choose((4, 1, 16))} else {name} + 1", [name], Rounding.SUMS)


def broken(draft: Draft) -> None:
    """The graph ends here, and another begins."""
    draft.say("torch._dynamo.graph_break()")


def number(draft: Draft) -> None:
    """A value that becomes a number of Python, and goes back into the graph."""
    name = draft.operand(lambda tensor: is_float(tensor) and tensor.numel() == 1 and not tensor.requires_grad, True)
    draft.add(f"torch.full((3, 5), {name}.item(), device={name}.device)", [name], Rounding.NONE)


def without_gradient(draft: Draft) -> None:
    """A value as a constant."""
    name = draft.operand()
    draft.add(f"{name}.detach()", [name], Rounding.NONE)


def recomputed(draft: Draft) -> None:
    """A step whose values are computed again for the gradient."""
    name = draft.operand(is_float)
    text = "torch.utils.checkpoint.checkpoint(lambda value: torch.sin(value) * value, {}, use_reentrant=False)"
    draft.add(text.format(name), [name], Rounding.ALWAYS)


STATEMENTS = (on_size, broken, number, without_gradient, recomputed)
