"""Conditions made of `arange`, `program_id` and scalar arguments, feeding selections, reductions and stores.

A compiler turns such a condition into a number of lanes for every vector of a loop. What is computed from it, the
stored condition, a maximum, a sum, a softmax, must agree with the condition of the elements, whichever axis is
vectorised and however the loop is unrolled.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from .support import QUICK, assert_same, compile_source

PROGRAMS = 2
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
NEGATIONS = ("{}", "({}) == 0", "({}) != 1", "~({})", "1 - ({}).to(tl.int32) != 0")
SHAPES = (
    (8,),
    (16,),
    (32,),
    (64,),
    (128,),
    (64, 64),
    (8, 128),
    (128, 8),
    (16, 32),
    (4, 8, 32),
    (8, 16, 8),
    (2, 64, 16),
)
LEAST = {torch.int32: -(1 << 31), torch.int64: -(1 << 63)}
OUTSIDE = -1e9


class Selected:
    """What a kernel made of `condition` on a tile of `shape`, and what it should have made, for each of its outputs.

    The condition is of i0, i1, ... (the int32 index along each axis, of full rank), p (the program) and n (an
    argument). The kernel selects `value` (small integers, as f32) where it holds, OUTSIDE elsewhere.
    """

    def __init__(self, device: str, condition: str, shape: tuple[int, ...], axis: int, n: int) -> None:
        value = torch.from_numpy(np.random.default_rng(7).integers(-8, 8, (PROGRAMS, *shape))).float()
        kept = [extent for a, extent in enumerate(shape) if a != axis]
        shapes = {"selected": shape, "most": kept, "total": kept, "count": kept, "softmax": shape}
        self.got = {name: torch.empty((PROGRAMS, *s), device=device) for name, s in shapes.items()}
        kernel = compile_source(_source(condition, shape, axis))["kernel"]
        kernel[(PROGRAMS,)](value.to(device), *self.got.values(), n)
        self.condition = _meaning(condition, shape, n)
        selected = torch.where(self.condition, value, OUTSIDE)
        along = axis + 1
        self.expected = {
            "selected": selected,
            "most": selected.amax(along),
            "total": torch.where(self.condition, value, 0).sum(along),
            "count": self.condition.float().sum(along),
            "softmax": selected.double().softmax(along),
        }

    def check(self) -> None:
        for name in ("selected", "most", "total", "count"):
            assert_same(self.got[name], self.expected[name], signed_zero=False)
        softmax, expected = self.got["softmax"].cpu().double(), self.expected["softmax"]
        np.testing.assert_allclose(softmax, expected, rtol=1e-5, atol=0)
        assert torch.equal(softmax == 0, expected == 0)


def _source(condition: str, shape: tuple[int, ...], axis: int) -> str:
    rank = len(shape)
    lines = ["@triton.jit", "def kernel(source, selected, most, total, count, softmax, n):", "    p = tl.program_id(0)"]
    for a, extent in enumerate(shape):
        view = ", ".join(":" if other == a else "None" for other in range(rank))
        lines.append(f"    i{a} = tl.arange(0, {extent})" + (f"[{view}]" if rank > 1 else ""))
    here = _offsets(shape, range(rank), "i{}")
    kept = [a for a in range(rank) if a != axis]
    for place, a in enumerate(kept):
        view = ", ".join(":" if other == place else "None" for other in range(len(kept)))
        lines.append(f"    k{a} = tl.arange(0, {shape[a]})" + (f"[{view}]" if len(kept) > 1 else ""))
    there = _offsets(shape, kept, "k{}")
    lines += [
        f"    value = tl.load(source + {here})",
        f"    condition = {condition}",
        f"    chosen = tl.where(condition, value, {OUTSIDE})",
        f"    tl.store(selected + {here}, chosen)",
        f"    top = tl.max(chosen, {axis}, keep_dims=True)",
        "    raised = tl.exp(chosen - top)",
        f"    tl.store(softmax + {here}, raised / tl.sum(raised, {axis}, keep_dims=True))",
        f"    tl.store(most + {there}, tl.max(chosen, {axis}))",
        f"    tl.store(total + {there}, tl.sum(tl.where(condition, value, 0.0), {axis}))",
        f"    tl.store(count + {there}, tl.sum(tl.where(condition, value * 0 + 1, 0.0), {axis}))",
    ]
    return "\n".join(lines) + "\n"


def _offsets(shape: tuple[int, ...], axes, index: str) -> str:
    """The offset of each element of the axes, in row-major order, with those of the program's tile before."""
    terms, step = [], 1
    for axis in reversed(axes):
        terms.append(f"{index.format(axis)} * {step}")
        step *= shape[axis]
    return " + ".join([f"p * {step}", *terms])


def _meaning(condition: str, shape: tuple[int, ...], n: int) -> torch.Tensor:
    rank = len(shape)
    names: dict[str, object] = {"n": np.int64(n), "tl": np, "p": _along(PROGRAMS, 0, rank + 1)}
    names.update({f"i{a}": _along(extent, a + 1, rank + 1) for a, extent in enumerate(shape)})
    text = condition.replace(".to(", ".astype(")
    return torch.from_numpy(np.broadcast_to(eval(text, names), (PROGRAMS, *shape)).copy())


def _along(extent: int, axis: int, rank: int) -> np.ndarray:
    return np.arange(extent, dtype=np.int32).reshape([extent if a == axis else 1 for a in range(rank)])


@pytest.mark.parametrize("comparison", COMPARISONS)
@pytest.mark.parametrize(
    "difference", ["i1 {} i0", "i1 - i0 {} 0", "i1 + (-1) * i0 {} 0", "(i1 + -i0).to(tl.int64) {} 0"]
)
def test_a_triangle_of_a_square_tile(device, difference, comparison):
    Selected(device, difference.format(comparison), (64, 64), axis=1, n=0).check()


@pytest.mark.parametrize("comparison", ["<", "<=", "=="])
@pytest.mark.parametrize("negation", NEGATIONS)
def test_a_triangle_that_is_negated(device, negation, comparison):
    Selected(device, negation.format(f"i1 + (-1) * i0 {comparison} 0"), (64, 64), axis=1, n=0).check()


@pytest.mark.parametrize("comparison", COMPARISONS)
@pytest.mark.parametrize("length", [8, 32, 128])
def test_a_bound_that_an_argument_gives(device, comparison, length):
    """Before the tile, at its first element, at a vector's border, inside of a vector, at its end, beyond it."""
    for n in (-40, -1, 0, 1, 7, 8, 9, length - 1, length, length + 40):
        Selected(device, f"i0 {comparison} n", (length,), axis=0, n=n).check()


@pytest.mark.parametrize("comparison", COMPARISONS)
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=["int32", "int64"])
def test_a_bound_at_the_ends_of_its_type(device, comparison, dtype):
    for n in (LEAST[dtype], LEAST[dtype] + 1, -LEAST[dtype] - 2, -LEAST[dtype] - 1):
        Selected(device, f"i0 {comparison} n", (64,), axis=0, n=n).check()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("comparison", ["<", "<="])
def test_every_axis_of_tiles_of_every_rank(device, comparison, shape):
    for axis in range(len(shape)):
        for other in {axis, (axis + 1) % len(shape)}:
            bound = f"i{other} + p" if other != axis else "3 + p"
            Selected(device, f"i{axis} {comparison} {bound}", shape, axis, n=0).check()


@st.composite
def conditions(draw, rank: int):
    """A comparison of two sums of indices, negated or not, perhaps joined with another."""

    def term() -> str:
        name = draw(st.sampled_from([*(f"i{axis}" for axis in range(rank)), "i0.to(tl.int64)", "p", "n"]))
        return draw(st.sampled_from(["{}", "{} * 2", "-{}", "({} + 5)", "({} - 70)"])).format(name)

    def comparison() -> str:
        sides = [" + ".join(term() for _ in range(draw(st.integers(1, 2)))) for _ in range(2)]
        text = f"({sides[0]} {draw(st.sampled_from(COMPARISONS))} {sides[1]})"
        return f"({draw(st.sampled_from(NEGATIONS)).format(text)})"

    first = comparison()
    return draw(st.sampled_from(["{0}", "({0} & {1})", "({0} | {1})", "({0} == {1})"])).format(first, comparison())


@settings(QUICK, max_examples=30)
@given(data=st.data())
def test_any_condition(device, data):
    shape = data.draw(st.sampled_from(SHAPES))
    axis = data.draw(st.integers(0, len(shape) - 1))
    condition = data.draw(conditions(len(shape)))
    Selected(device, condition, shape, axis, n=data.draw(st.integers(-70, 130))).check()
