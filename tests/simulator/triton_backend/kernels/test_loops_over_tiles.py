"""Kernels whose programs share out the tiles of a tensor in a loop, as those that Inductor's backend writes do.

A tile has an axis for each axis of the tensor, in that order; loads and stores have the contiguous axis last, so that
the tile is turned on chip. A selection by a condition on one axis, or on two, is stored and reduced.
"""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from .support import QUICK, assert_same, compile_source

OUTSIDE = -1000.0
LARGEST_TILE = 4096


@st.composite
def tilings(draw):
    """Lengths and blocks of two or three axes, the orders of the source's and the target's axes in memory."""
    rank = draw(st.integers(2, 3))
    lengths = [draw(st.sampled_from([1, 3, 8, 17, 40])) for _ in range(rank)]
    blocks = [draw(st.sampled_from([1, 4, 8, 16, 32])) for _ in range(rank)]
    while np.prod(blocks) > LARGEST_TILE:
        blocks[blocks.index(max(blocks))] //= 2
    orders = [draw(st.permutations(range(rank))) for _ in range(2)]
    return lengths, blocks, *orders


@QUICK
@given(
    tiling=tilings(),
    comparison=st.sampled_from(["<", "<=", ">", ">=", "==", "!="]),
    negated=st.booleans(),
    bound=st.sampled_from(["0", "8", "i{other}", "i{other} + 3"]),
    programs=st.sampled_from([1, 3, 40]),
)
def test_a_selection_is_stored_turned_and_reduced(device, tiling, comparison, negated, bound, programs):
    lengths, blocks, source_order, target_order = tiling
    rank = len(lengths)
    last = rank - 1
    condition = f"(i{last} {comparison} {bound.format(other=0)})" + (" == 0" if negated else "")
    x = torch.from_numpy(np.random.default_rng(3).integers(-9, 9, lengths)).float()
    source = x.permute(source_order).contiguous().to(device)
    selected = torch.full([lengths[axis] for axis in target_order], -1.0, device=device)
    most, total = (torch.full(lengths[:last], -1.0, device=device) for _ in range(2))
    kernel = compile_source(_kernel(lengths, blocks, source_order, target_order, condition))["kernel"]
    kernel[(programs,)](source, selected, most, total)

    index = {f"i{a}": np.arange(n).reshape([-1 if b == a else 1 for b in range(rank)]) for a, n in enumerate(lengths)}
    expected = torch.where(torch.from_numpy(eval(condition, index)), x, OUTSIDE)
    assert_same(selected, expected.permute(target_order).contiguous())
    assert_same(most, expected.amax(last))
    assert_same(total, expected.abs().sum(last))


def _kernel(lengths, blocks, source_order, target_order, condition: str) -> str:
    """Tiles of all axes but the last, which is reduced in a loop of its own."""
    rank, last = len(lengths), len(lengths) - 1
    axes = list(range(rank))
    tiles = [-(-length // block) for length, block in zip(lengths, blocks)]
    lines = [
        "@triton.jit",
        "def kernel(source, selected, most, total):",
        f"    for tile in range(tl.program_id(0), {int(np.prod(tiles[:last]))}, tl.num_programs(0)):",
    ]
    for axis in axes[:last]:
        number = f"tile // {int(np.prod(tiles[axis + 1 : last]))} % {tiles[axis]}"
        lines.append(f"        a{axis} = ({number}) * {blocks[axis]} + tl.arange(0, {blocks[axis]})")
        lines.append(f"        i{axis} = a{axis}{_among([axis], axes)}")
    kept = axes[:last]
    lines += [
        f"        most_here = tl.full({blocks}, float('-inf'), tl.float32)",
        f"        total_here = tl.full({blocks}, 0.0, tl.float32)",
        f"        for first in range(0, {lengths[last]}, {blocks[last]}):",
        f"            a{last} = first + tl.arange(0, {blocks[last]})",
        f"            i{last} = a{last}{_among([last], axes)}",
        f"            value = tl.load(source + {_offset(lengths, source_order)}, {_mask(lengths, source_order)})",
        f"            value = tl.permute(value, {[source_order.index(axis) for axis in axes]})",
        f"            value = tl.where({condition}, value, {OUTSIDE})",
        f"            turned = tl.permute(value, {target_order})",
        f"            tl.store(selected + {_offset(lengths, target_order)}, turned, {_mask(lengths, target_order)})",
        f"            inside = i{last} < {lengths[last]}",
        "            most_here = tl.where(inside, tl.maximum(most_here, value), most_here)",
        "            total_here = tl.where(inside, total_here + tl.abs(value), total_here)",
        f"        tl.store(most + {_offset(lengths, kept)}, tl.max(most_here, {last}), {_mask(lengths, kept)})",
        f"        tl.store(total + {_offset(lengths, kept)}, tl.sum(total_here, {last}), {_mask(lengths, kept)})",
    ]
    return "\n".join(lines) + "\n"


def _among(own, axes) -> str:
    return f"[{', '.join(':' if axis in own else 'None' for axis in axes)}]" if len(axes) > 1 else ""


def _offset(lengths, order) -> str:
    """The offset in a tensor of which `order` says the axes, the contiguous one last."""
    terms, step = [], 1
    for axis in reversed(order):
        terms.append(f"{step} * a{axis}{_among([axis], order)}")
        step *= lengths[axis]
    return f"({' + '.join(terms)})"


def _mask(lengths, order) -> str:
    return " & ".join(f"(a{axis} < {lengths[axis]}){_among([axis], order)}" for axis in order)
