"""Several elements into one, or running along an axis; matrix products; the layers made of them."""

from __future__ import annotations

import torch

from fuzz.case import is_float
from fuzz.draft import Draft, NothingFits, Rounding, is_whole


def summed(draft: Draft) -> None:
    """Sums and counts over some axes."""
    name = draft.operand(lambda tensor: tensor.dim() > 0)
    text = draft.choose(("sum", "sum", "mean", "count_nonzero"))
    if text == "mean" and not is_float(draft.of(name)):
        text = "sum"
    if text == "count_nonzero":
        name = draft.operand(lambda tensor: tensor.dim() > 0, exact=True)
        draft.add(f"torch.count_nonzero({name}, {_axes(draft, name)})", [name], Rounding.NONE)
        return
    keep = ", keepdim=True" if draft.sometimes() else ""
    rounding = Rounding.SUMS if text == "sum" else Rounding.ALWAYS
    draft.add(f"{name}.{text}({_axes(draft, name)}{keep})", [name], rounding)


def everything(draft: Draft) -> None:
    """Of all elements. The norm has a kink where all are 0."""
    text = draft.choose(("sum", "mean", "norm"))
    name = draft.operand(is_float, exact=draft.gradients and text == "norm")
    draft.add(f"{name}.{text}()", [name], Rounding.ALWAYS)


def extreme(draft: Draft) -> None:
    """The largest or smallest, their positions, or both."""
    name = draft.operand(lambda tensor: tensor.dim() > 0 and tensor.numel() > 0, exact=True)
    axis = draft.axis(name)
    keep = ", keepdim=True" if draft.sometimes() else ""
    kind = draft.choose(("amax", "amin", "argmax", "argmin", "max", "min", "aminmax"))
    if kind == "aminmax":
        draft.add(f"torch.aminmax({name}, dim={axis}{keep})", [name], Rounding.NONE)
    elif kind in ("max", "min"):  # with equal elements any of their positions is right
        draft.add(f"{name}.{kind}({axis}{keep}).values", [name], Rounding.NONE)
    else:
        draft.add(f"{name}.{kind}({axis}{keep})", [name], Rounding.NONE)


def asked(draft: Draft) -> None:
    """Whether all or any are true. Of uint8 the result is uint8 in eager, and bool as PyTorch compiles it."""
    name = draft.operand(lambda tensor: tensor.dim() > 0 and tensor.dtype != torch.uint8, exact=True)
    draft.add(f"{name}.{draft.choose(('any', 'all'))}({draft.axis(name)})", [name], Rounding.NONE)


def multiplied(draft: Draft) -> None:
    """A product along an axis."""
    name = draft.operand(lambda tensor: tensor.dim() > 0 and tensor.shape[-1] <= 17)
    draft.add(f"{name}.prod(-1)", [name], Rounding.SUMS)


def spread(draft: Draft) -> None:
    """Variances and standard deviations. Of a single element they are not defined."""
    name = draft.operand(lambda tensor: is_float(tensor) and tensor.dim() > 0)
    axis, tensor = draft.axis(name), draft.of(name)
    if tensor.shape[axis] < 2:
        raise NothingFits
    # Eager's mean of infinities is NaN here, and Inductor's, as that of `mean`, infinite.
    kind = draft.choose(("var", "std") if tensor.isinf().any() else ("var", "var_mean", "std"))
    correction = f", correction={draft.integer(0, 1)}"
    if kind == "std":  # its gradient is infinite where all elements are equal
        draft.add(f"torch.sqrt({name}.var({axis}{correction}) + 0.5)", [name], Rounding.ALWAYS)
    else:
        draft.add(f"torch.{kind}({name}, {axis}{correction})", [name], Rounding.ALWAYS)


def normalised(draft: Draft) -> None:
    """Softmax and its kin."""
    name = draft.operand(lambda tensor: is_float(tensor) and tensor.dim() > 0 and tensor.numel() > 0)
    kind = draft.choose(("softmax", "log_softmax", "logsumexp"))
    draft.add(f"torch.{kind}({name}, {draft.axis(name)})", [name], Rounding.ALWAYS)


def layers(draft: Draft) -> None:
    """Norms over rows or over groups of channels."""
    name = draft.operand(lambda tensor: is_float(tensor) and tensor.dim() > 0 and tensor.shape[-1] > 1)
    tensor = draft.of(name)
    kind = draft.choose(("layer", "rms", "group"))
    if kind == "layer":
        draft.add(f"F.layer_norm({name}, {name}.shape[-1:])", [name], Rounding.ALWAYS)
    elif kind == "rms":
        draft.add(f"F.rms_norm({name}, {name}.shape[-1:], eps=0.125)", [name], Rounding.ALWAYS)
    elif tensor.dim() >= 3:
        channels = tensor.shape[1]
        groups = [number for number in (1, 2, 3, 4, 8) if channels and channels % number == 0]
        if not groups:
            raise NothingFits
        draft.add(f"F.group_norm({name}, {draft.choose(groups)})", [name], Rounding.ALWAYS)


def running(draft: Draft) -> None:
    """Sums, products and extremes up to each element."""
    name = draft.operand(lambda tensor: tensor.dim() > 0, exact=True)
    kind = draft.choose(("cumsum", "cumsum", "cumprod", "cummax", "logcumsumexp"))
    if kind == "cummax":
        draft.add(f"torch.cummax({name}, {draft.axis(name)}).values", [name], Rounding.NONE)
    elif kind == "logcumsumexp":
        draft.add(f"torch.logcumsumexp({name}, {draft.axis(name)})", [name], Rounding.ALWAYS)
    else:
        draft.add(f"{name}.{kind}({draft.axis(name)})", [name], Rounding.SUMS)


def sorted_(draft: Draft) -> None:
    """In order, with the order itself; or the largest ones."""
    name = draft.operand(lambda tensor: tensor.dim() > 0, exact=True)
    axis = draft.axis(name)
    size = draft.of(name).shape[axis]
    kind = draft.choose(("sort", "argsort", "topk"))
    if kind == "sort":
        draft.add(f"torch.sort({name}, stable=True, dim={axis}, descending={draft.sometimes()})", [name], Rounding.NONE)
    elif kind == "argsort":
        draft.add(f"torch.argsort({name}, dim={axis}, stable=True)", [name], Rounding.NONE)
    else:
        draft.add(f"torch.topk({name}, {draft.integer(1, max(1, size))}, {axis}).values", [name], Rounding.NONE)


def product(draft: Draft) -> None:
    """A matrix product with its own transpose, or with a value that fits."""
    name = draft.operand(lambda tensor: is_float(tensor) and tensor.dim() >= 2)
    tensor = draft.of(name)

    def fits(other: torch.Tensor) -> bool:
        same = other.dtype == tensor.dtype and other.dim() == 2
        return same and other.shape[0] == tensor.shape[-1]

    if draft.sometimes():
        draft.add(f"torch.matmul({name}, {name}.transpose(-1, -2))", [name], Rounding.ALWAYS)
    else:
        other = draft.operand(fits)
        draft.add(f"torch.matmul({name}, {other})", [name, other], Rounding.ALWAYS)


def pooled(draft: Draft) -> None:
    """Means or maxima of windows of the last two axes."""
    kind = draft.choose(("avg_pool2d", "max_pool2d", "adaptive_avg_pool2d"))
    name = draft.operand(
        lambda tensor: is_float(tensor) and tensor.dim() == 4 and min(tensor.shape) > 1, exact=kind == "max_pool2d"
    )
    if kind == "adaptive_avg_pool2d":
        draft.add(f"F.{kind}({name}, {draft.integer(1, 4)})", [name], Rounding.ALWAYS)
    else:
        size = draft.integer(2, 3)
        options = f"stride={draft.integer(1, 3)}, padding={draft.integer(0, 1)}"
        rounding = Rounding.NONE if kind == "max_pool2d" else Rounding.ALWAYS
        draft.add(f"F.{kind}({name}, {size}, {options})", [name], rounding)


def histogram(draft: Draft) -> None:
    """Where elements lie between borders, and sums of small integers."""
    name = draft.operand(lambda tensor: is_float(tensor) or is_whole(tensor), exact=True)
    dtype = draft.of(name).dtype
    first = 0 if dtype == torch.uint8 else -3  # borders have to ascend
    borders = f"torch.arange({first}, 4, device={name}.device, dtype={str(dtype).removeprefix('torch.')})"
    draft.add(f"torch.bucketize({name}, {borders}, right={draft.sometimes()})", [name], Rounding.NONE)


def _axes(draft: Draft, name: str) -> str:
    rank = draft.of(name).dim()
    if draft.sometimes():
        first = draft.integer(0, rank - 1)
        return str(tuple(range(first, draft.integer(first, rank - 1) + 1)))
    return str(draft.axis(name))


STATEMENTS = (
    *(summed,) * 3,
    everything,
    *(extreme,) * 2,
    asked,
    multiplied,
    *(spread,) * 2,
    *(normalised,) * 2,
    *(layers,) * 2,
    *(running,) * 2,
    *(sorted_,) * 2,
    product,
    pooled,
    histogram,
)
