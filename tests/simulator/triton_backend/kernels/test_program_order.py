"""Programs of loads, stores, tiles, loops and branches in random order do what they say, statement by statement."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from .support import QUICK, assert_same, compile_source

SIZE, TILES = 32, 3

# Each statement in Triton and in numpy; {m} are memories, {t} tiles, {i} index maps, {k} masks.
INDEX_MAPS = {
    "i": "i",
    f"({SIZE - 1} - i)": f"({SIZE - 1} - i)",
    f"((i + 5) % {SIZE})": f"((i + 5) % {SIZE})",
    "(i ^ 3)": "(i ^ 3)",
    "((i % 8) * 4 + i // 8)": "((i % 8) * 4 + i // 8)",
}
MASKS = {"i < 32": "i < 32", "i < n + 7": "i < n + 7", "i % 2 == 0": "i % 2 == 0", "(i * 7) % 5 < 3": "(i * 7) % 5 < 3"}
ASSIGNMENTS = {
    "{a} = {b} + {c}": "{a} = {b} + {c}",
    "{a} = {b} * 3 - {c}": "{a} = {b} * 3 - {c}",
    "{a} = tl.where({b} > {c}, {b}, i)": "{a} = np.where({b} > {c}, {b}, i)",
    "{a} = {b} - tl.sum({c}, 0)": "{a} = {b} - {c}.sum(dtype=np.int32)",
    "{a} = {b} ^ tl.max({c}, 0)": "{a} = {b} ^ {c}.max()",
    "{a} = tl.cumsum({b}, 0) + {c}": "{a} = {b}.cumsum(dtype=np.int32) + {c}",
    "{a} = tl.flip({b}, 0)": "{a} = {b}[::-1].copy()",
    "{a} = tl.reshape(tl.trans(tl.reshape({b}, (4, 8))), (32,))": "{a} = {b}.reshape(4, 8).T.reshape(32)",
}
tiles = st.sampled_from([f"t{number}" for number in range(TILES)])
memories = st.sampled_from(["x", "y"])


@st.composite
def simple(draw):
    """One statement as its two texts."""
    kind = draw(st.sampled_from(["load", "store", "assign", "store", "load", "masked load"]))
    if kind == "assign":
        texts = draw(st.sampled_from(sorted(ASSIGNMENTS.items())))
        names = {letter: draw(tiles) for letter in "abc"}
        return tuple([text.format(**names)] for text in texts)
    tile, memory = draw(tiles), draw(memories)
    triton_map, numpy_map = draw(st.sampled_from(sorted(INDEX_MAPS.items())))
    triton_mask, numpy_mask = draw(st.sampled_from(sorted(MASKS.items())))
    if kind == "load":
        return [f"{tile} = tl.load({memory} + {triton_map})"], [f"{tile} = {memory}[{numpy_map}]"]
    if kind == "masked load":
        return (
            [f"{tile} = tl.load({memory} + {triton_map}, mask={triton_mask}, other=-1)"],
            [f"{tile} = np.where({numpy_mask}, {memory}[{numpy_map}], np.int32(-1))"],
        )
    return (
        [f"tl.store({memory} + {triton_map}, {tile}, mask={triton_mask})"],
        [f"k = np.broadcast_to({numpy_mask}, i.shape)", f"{memory}[{numpy_map}[k]] = {tile}[k]"],
    )


@st.composite
def nested(draw, inner):
    """A loop or a branch around statements."""
    header = draw(
        st.sampled_from(["for j in range(n):", "for j in range(2):", "if n > 1:", "for j in range(1, n + 1):"])
    )
    body = draw(st.lists(inner, min_size=1, max_size=4))
    return tuple([header] + [f"    {line}" for part in body for line in part[side]] for side in (0, 1))


programs = st.lists(st.recursive(simple(), nested, max_leaves=6), min_size=3, max_size=9)


@pytest.mark.slow
@settings(QUICK, max_examples=40)
@pytest.mark.compiled
@given(program=programs, n=st.sampled_from([0, 1, 3]))
def test_statements_take_effect_in_order(device, program, n):
    indented = [[f"    {line}" for part in program for line in part[side]] for side in (0, 1)]
    kernel = compile_source(
        "\n".join(
            [
                "@triton.jit",
                "def kernel(x, y, out, n):",
                f"    i = tl.arange(0, {SIZE})",
                *[f"    t{number} = i * {number + 1}" for number in range(TILES)],
                *indented[0],
                *[f"    tl.store(out + {number * SIZE} + i, t{number})" for number in range(TILES)],
            ]
        )
        + "\n"
    )["kernel"]
    x, y = np.arange(100, 100 + SIZE, dtype=np.int32), np.arange(SIZE, dtype=np.int32) * 7 % 50
    on_x, on_y = torch.from_numpy(x.copy()).to(device), torch.from_numpy(y.copy()).to(device)
    out = torch.zeros(TILES, SIZE, dtype=torch.int32, device=device)
    kernel[(1,)](on_x, on_y, out, n)

    names = {"np": np, "x": x, "y": y, "n": np.int32(n), "i": np.arange(SIZE, dtype=np.int32)}
    names |= {f"t{number}": names["i"] * np.int32(number + 1) for number in range(TILES)}
    body = "\n".join(["if True:", *indented[1]])
    with np.errstate(over="ignore"):
        exec(body, names)
    assert_same(on_x, torch.from_numpy(x))
    assert_same(on_y, torch.from_numpy(y))
    assert_same(out, torch.from_numpy(np.stack([names[f"t{number}"] for number in range(TILES)]).astype(np.int32)))
