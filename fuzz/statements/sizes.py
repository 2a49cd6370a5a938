"""Sizes, and predicates on sizes, as values: numbers in arithmetic, fill values, other sizes."""

from __future__ import annotations

from collections.abc import Sequence

from fuzz.draft import Draft, Rounding, is_real

NUMBERS = (
    "{n} // 2",
    "{n} % 3",
    "{n} * {m}",
    "max({n}, {m})",
    "min({n}, {m}) - 1",
    "{n} - {m}",
    "-{n} // 3",
    "{x}.numel()",
    "torch.sym_max({n}, {k})",
    "{n} / {k}",
    "({n} + {k}) // {k} * {k}",
)
CONDITIONS = (
    "{n} % 2 == 0",
    "{n} >= {k}",
    "{n} < {m}",
    "{n} == {m}",
    "{n} // 2 != {m}",
    "2 * {n} <= {m} + {k}",
    "{x}.numel() > {k}",
    "({n} + {m}) % 3 > 0",
)
JOINED = ("{}", "{}", "not {}", "torch.sym_not({})", "({} and {})", "({} or {})", "({} & {})", "({} | {})")


def condition(draft: Draft) -> None:
    """Whether something holds for sizes, as a number."""
    _add_one_of(
        draft,
        (
            "{x} * ({c})",
            "{x} + ({c})",
            "{x} + 2 * ({c})",
            "torch.full((3,), {c}, device={x}.device)",
            "torch.full_like({x}, {c})",
            "torch.full(({n}, 2), {c}, device={x}.device, dtype=float32)",
            "torch.scalar_tensor({c}, device={x}.device)",
            "torch.where({x} == {x}, {x}, {c})",
            "torch.arange(3 + ({c}), device={x}.device)",
            "{x} * (1 if {c} else 2)",
        ),
    )


def number(draft: Draft) -> None:
    """What is computed of sizes, as a number."""
    _add_one_of(
        draft,
        (
            "{x} + ({s})",
            "{x} * ({s})",
            "torch.full((3,), {s}, device={x}.device)",
            "torch.full(({n}, 2), {s}, device={x}.device, dtype=float32)",
            "torch.add({x}, 1, alpha={s})",
            "torch.where({x} == {x}, {x}, {s})",
            "torch.arange({n}, device={x}.device) - ({s})",
        ),
    )


def cut(draft: Draft) -> None:
    """A part that sizes say."""
    name = draft.operand(lambda tensor: tensor.dim() > 0)
    text = draft.choose(
        ("{x}[: {n} // 2]", "{x}[{n} % 3 :]", "{x}.narrow(0, 0, ({n} + 1) // 2)", "{x}[-({n} % 2) - 1 :]")
    )
    draft.add(text.format(x=name, n=f"{name}.shape[0]"), [name], Rounding.NONE)


def size(draft: Draft, name: str) -> str:
    """A size of the value, or of an input: those of other values are long expressions by now, and those of these longer
    ones, about which PyTorch thinks for minutes.
    """
    inputs = [f"x{place}" for place in range(len(draft.inputs))]
    others = [each for each in inputs if draft.of(each).dim() > 0]
    other = name if draft.sometimes() or not others else draft.choose(others)
    return f"{other}.shape[{draft.axis(other)}]"


def _add_one_of(draft: Draft, texts: Sequence[str]) -> None:
    """One of `texts` with a value for {x}, a size for {n}, a number for {s} and a condition for {c}."""
    name = draft.operand(lambda tensor: is_real(tensor) and tensor.dim() > 0)
    text = draft.choose(texts)

    def of_sizes(form: str, **values: str) -> str:
        sizes = {"n": size(draft, name), "m": size(draft, name), "k": draft.choose((2, 1, 3, 4, 8, 16, 33))}
        return form.format(x=name, **sizes, **values)

    values = {}
    if "{s}" in text:
        values["s"] = of_sizes(draft.choose(NUMBERS))
    if "{c}" in text:
        joined = draft.choose(JOINED)
        parts = [f"({of_sizes(draft.choose(CONDITIONS))})" for _ in range(joined.count("{}"))]
        values["c"] = joined.format(*parts)
    draft.add(of_sizes(text, **values), [name], Rounding.SUMS)


STATEMENTS = (*(condition,) * 3, *(number,) * 2, cut)
