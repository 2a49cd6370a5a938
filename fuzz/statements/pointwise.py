"""One element of the result from one of each operand: arithmetic, comparisons, conversions."""

from __future__ import annotations

import torch

from fuzz.case import DTYPES, FLOATS, is_float
from fuzz.draft import Draft, NothingFits, Rounding, a_new_input, anything, is_real, is_whole

# Of any real number. Some have a kink at 0.
FUNCTIONS = (
    "torch.sin({})",
    "torch.cos({})",
    "torch.tanh({})",
    "torch.sigmoid({})",
    "torch.erf({})",
    "torch.exp(-{}.abs())",
    "torch.exp(-F.softplus({}))",
    "torch.sqrt({}.abs() + 1)",
    "torch.sqrt(F.softplus({}) + 1)",
    "torch.rsqrt({} * {} + 1)",
    "torch.log1p({}.abs())",
    "torch.log({} * {} + 1)",
    "torch.reciprocal({} * {} + 1)",
    "F.silu({})",
    "F.gelu({})",
    "F.gelu({}, approximate='tanh')",
    "F.softplus({})",
    "F.logsigmoid({})",
    "torch.atan({})",
    "torch.asinh({})",
    "torch.pow({}, 2)",
    "torch.pow({}, 3)",
    "torch.square({})",
    "{} * 0.125",
    "{} / 3",
    "torch.pow({}.abs() + 1, 0.5)",
)
# With a kink or a jump.
KINKED = (
    "torch.relu({})",
    "{}.abs()",
    "-{}",
    "torch.sign({})",
    "torch.clamp({}, -1, 2)",
    "torch.clamp({}, min=0)",
    "F.leaky_relu({}, 0.5)",
    "F.hardtanh({})",
    "F.relu6({})",
    "F.threshold({}, 0.5, 2)",
)
ROUNDED = ("torch.floor({})", "torch.ceil({})", "torch.round({})", "torch.trunc({})", "torch.frac({})")
# A NaN's sign says nothing: of seventeen, eager's `maximum(x, 0)` makes the first sixteen negative.
_SIGN = "torch.signbit(torch.nan_to_num({}))"
TESTS = ("torch.isnan({})", "torch.isinf({})", "torch.isfinite({})", _SIGN, "torch.logical_not({})")
WHOLE = (
    "{} // 3",
    "{} % 5",
    "{} // -2",
    "{} % -3",
    "torch.fmod({}, 3)",
    "torch.div({}, 7, rounding_mode='trunc')",
    "torch.div({}, 7, rounding_mode='floor')",
    "torch.bitwise_not({})",
    "torch.bitwise_left_shift({}, 2)",
    "torch.bitwise_right_shift({}, 1)",
    "{} * 3 - 1",
    "-{}",
    "{}.abs()",
    "torch.sign({})",
    "torch.clamp({}, -1, 2)",
    "torch.where({} < 3, {}, ({}.float() * 0.25).long())",
)
ARITHMETIC = ("{} + {}", "{} - {}", "{} * {}", "torch.add({}, {}, alpha=2)")
CHOICES = ("torch.maximum({}, {})", "torch.minimum({}, {})", "torch.fmax({}, {})", "torch.fmin({}, {})")
DIVISIONS = (
    "{} / ({}.abs() + 1)",
    "torch.atan2({}, {}.abs() + 1)",
    "torch.hypot({}, {})",
    "torch.lerp({0}, {1}, 0.25)",
)
# What in a text of FUNCTIONS or DIVISIONS has a kink.
KINKS = (".abs()", "torch.hypot")
COMPARISONS = ("{} < {}", "{} <= {}", "{} > {}", "{} >= {}", "{} == {}", "{} != {}")
BITS = ("{} & {}", "{} | {}", "{} ^ {}")


def function(draft: Draft) -> None:
    """A function of floating-point numbers, or of integers, which it converts; with a kink of exact ones if gradients
    are taken.
    """
    text = draft.choose(FUNCTIONS)
    name = draft.operand(
        lambda tensor: is_real(tensor) and tensor.dtype != torch.bool, exact=draft.gradients and _has_kink(text)
    )
    draft.add(_filled(text, name), [name], Rounding.ALWAYS)


def kinked(draft: Draft) -> None:
    """A function with kinks, where a gradient jumps: of exact values if gradients are taken."""
    name = draft.operand(is_float, exact=draft.gradients)
    draft.add(_filled(draft.choose(KINKED), name), [name], Rounding.NONE)


def rounded(draft: Draft) -> None:
    """To a whole number."""
    name = draft.operand(is_float, exact=True)
    draft.add(_filled(draft.choose(ROUNDED), name), [name], Rounding.NONE)


def tested(draft: Draft) -> None:
    """A question about each element."""
    name = draft.operand(exact=True)
    draft.add(_filled(draft.choose(TESTS), name), [name], Rounding.NONE)


def whole(draft: Draft) -> None:
    """Arithmetic of integers with constants."""
    name = draft.operand(is_whole)
    draft.add(_filled(draft.choose(WHOLE), name), [name], Rounding.NONE)


def arithmetic(draft: Draft) -> None:
    """Of two values that broadcast."""
    pair = two(draft)
    draft.add(draft.choose(ARITHMETIC).format(*pair), pair, Rounding.SUMS)


def chosen(draft: Draft) -> None:
    """The larger or the smaller of two."""
    pair = two(draft, exact=draft.gradients)
    draft.add(draft.choose(CHOICES).format(*pair), pair, Rounding.NONE)


def divided(draft: Draft) -> None:
    """Divisions whose divisor is not near zero, and the like; with a kink of exact values if gradients are taken."""
    text = draft.choose(DIVISIONS)
    pair = two(draft, exact=draft.gradients and _has_kink(text))
    draft.add(text.format(*pair), pair, Rounding.ALWAYS)


def compared(draft: Draft) -> None:
    """A comparison of two values."""
    pair = two(draft, exact=True)
    draft.add(draft.choose(COMPARISONS).format(*pair), pair, Rounding.NONE)


def bits(draft: Draft) -> None:
    """Of two integers or booleans."""
    name = draft.operand(lambda tensor: not is_float(tensor))
    other = partner(draft, name, lambda tensor: not is_float(tensor))
    draft.add(draft.choose(BITS).format(name, other), [name, other], Rounding.NONE)


def divided_whole(draft: Draft) -> None:
    """An integer division by a value that is not zero."""
    name = draft.operand(is_whole)
    other = partner(draft, name, is_whole)
    divisor = f"torch.where({other} == 0, 3, {other})"
    text = draft.choose(("{} // {}", "{} % {}", "torch.fmod({}, {})", "torch.div({}, {}, rounding_mode='trunc')"))
    draft.add(text.format(name, divisor), [name, other], Rounding.NONE)


def where(draft: Draft) -> None:
    """One of two values, or a value and a number, by a condition."""
    pair = two(draft)
    condition = partner(draft, pair[0], lambda tensor: tensor.dtype == torch.bool)
    if draft.sometimes():
        draft.add(f"torch.where({condition}, {pair[0]}, {draft.integer(-2, 2)})", [condition, pair[0]], Rounding.NONE)
    else:
        draft.add(f"torch.where({condition}, {pair[0]}, {pair[1]})", [condition, *pair], Rounding.NONE)


def converted(draft: Draft) -> None:
    """To another dtype: of any to a floating-point one, of exact ones to integers."""
    if draft.sometimes():
        dtype = draft.choose(DTYPES[4:])
        name = draft.operand(lambda t: is_real(t) and (not is_float(t) or bool((t.detach().abs() < 100).all())), True)
        draft.add(f"{name}.to({dtype if dtype != 'bool' else 'torch.bool'})", [name], Rounding.NONE)
    else:
        name = draft.operand(lambda tensor: not tensor.is_complex())
        draft.add(f"{name}.to({draft.choose(FLOATS)})", [name], Rounding.SUMS)


def with_size(draft: Draft) -> None:
    """Arithmetic with one of its sizes."""
    name = draft.operand(lambda tensor: tensor.dim() > 0)
    axis = draft.axis(name)
    text = draft.choose(("{0} + {0}.shape[{1}]", "{0} * {0}.shape[{1}]", "{0} / max(1, {0}.shape[{1}])"))
    draft.add(text.format(name, axis), [name], Rounding.SUMS)


def two(draft: Draft, exact: bool = False) -> list[str]:
    """Names of two values that broadcast."""
    name = draft.operand(exact=exact)
    return [name, partner(draft, name, anything, exact)]


def partner(draft: Draft, name: str, fits: object, exact: bool = False) -> str:
    """The name of a value that broadcasts with `name`; maybe of an input made for it."""
    shape = draft.of(name).shape
    assert callable(fits)

    def broadcasts(tensor: torch.Tensor) -> bool:
        pairs = zip(reversed(tensor.shape), reversed(shape))
        return fits(tensor) and all(one in (1, other) or other == 1 for one, other in pairs)

    if draft.integer(0, 2) < 2:
        return draft.operand(broadcasts, exact)
    kept = tuple(1 if draft.integer(0, 3) == 3 else size for size in shape)
    new = a_new_input(draft, kept[draft.integer(0, len(kept)) :])
    if not broadcasts(draft.of(new)):
        raise NothingFits
    return new


def _has_kink(text: str) -> bool:
    return any(kink in text for kink in KINKS)


def _filled(text: str, name: str) -> str:
    return text.replace("{}", name)


STATEMENTS = (
    *(arithmetic,) * 3,
    *(function,) * 3,
    kinked,
    kinked,
    chosen,
    compared,
    where,
    where,
    converted,
    converted,
    divided,
    whole,
    whole,
    bits,
    divided_whole,
    rounded,
    tested,
    with_size,
)
