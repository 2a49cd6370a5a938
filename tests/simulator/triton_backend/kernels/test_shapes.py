"""Shape operations move values and change none: row-major order, 1 to 5 axes."""

from __future__ import annotations

import itertools

import pytest
import torch
import triton
import triton.language as tl

from .support import assert_same, compile_source, dtypes


def tile_kernel(in_shapes: list[tuple[int, ...]], expression: str, out_shape: tuple[int, ...], body: str = ""):
    """A kernel that loads contiguous tiles x, y, ... of the given shapes and stores one expression of out_shape."""
    names = "xyz"[: len(in_shapes)]
    lines = ["@triton.jit", f"def kernel({', '.join(f'{name}_ptr' for name in names)}, out_ptr):"]
    for name, shape in zip(names, in_shapes):
        lines.append(f"    {name} = tl.load({name}_ptr + {offsets(shape)})")
    lines += [f"    {line}" for line in body.splitlines()]
    lines.append(f"    tl.store(out_ptr + {offsets(out_shape)}, {expression})")
    return compile_source("\n".join(lines) + "\n")["kernel"]


def offsets(shape: tuple[int, ...]) -> str:
    """Row-major offsets of a tile, axis by axis."""
    terms, stride = [], 1
    for axis in reversed(range(len(shape))):
        index = ", ".join(":" if other == axis else "None" for other in range(len(shape)))
        terms.append(f"{stride} * tl.arange(0, {shape[axis]})" + (f"[{index}]" if len(shape) > 1 else ""))
        stride *= shape[axis]
    return "(" + " + ".join(reversed(terms)) + ")"


def run(device: str, inputs: list[torch.Tensor], expression: str, expected: torch.Tensor, body: str = "") -> None:
    kernel = tile_kernel([tuple(x.shape) for x in inputs], expression, tuple(expected.shape), body)
    out = torch.empty(expected.shape, dtype=expected.dtype, device=device)
    kernel[(1,)](*(x.contiguous().to(device) for x in inputs), out)
    assert_same(out, expected)


def numbered(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    count = torch.Size(shape).numel()
    return torch.arange(count).reshape(shape).to(dtype)


@pytest.mark.parametrize(
    "shape", [(8,), (4, 8), (2, 4, 8), (2, 4, 2, 8), (2, 2, 4, 2, 8), (1,), (1, 1), (16, 1, 4)], ids=str
)
def test_tiles_have_one_to_five_axes(device, shape):
    x = numbered(*shape)
    run(device, [x], "x + 1", x + 1)


PERMUTATIONS = [
    *itertools.permutations(range(2)),
    *itertools.permutations(range(3)),
    (0, 2, 1, 3), (3, 2, 1, 0), (1, 0, 3, 2), (2, 3, 0, 1),
    (4, 3, 2, 1, 0), (0, 3, 1, 4, 2),
]  # fmt: skip


@pytest.mark.parametrize("order", PERMUTATIONS, ids=str)
def test_permute(device, order):
    x = numbered(*(8, 4, 2, 2, 4)[: len(order)])
    run(device, [x], f"tl.permute(x, {order})", x.permute(order))


@pytest.mark.parametrize("dtype", dtypes(torch.bool, torch.int8, torch.float16, torch.bfloat16, torch.int64))
def test_transposes_of_every_size(device, dtype):
    x = numbered(16, 32) % 2 if dtype is torch.bool else numbered(16, 32) % 100
    x = x.to(dtype)
    run(device, [x], "tl.trans(x)", x.T)
    run(device, [x], "x.T", x.T)


def test_permuted_tiles_meet_straight_ones(device):
    x, y = torch.randint(-9, 9, (16, 16)).float(), torch.randint(-9, 9, (16, 16)).float()
    run(device, [x, y], "x + tl.trans(y) * tl.trans(x)", x + y.T * x.T)


@pytest.mark.parametrize(
    ("shape", "new_shape"),
    [
        ((32,), (4, 8)),
        ((4, 8), (32,)),
        ((4, 8), (8, 4)),
        ((2, 4, 8), (8, 8)),
        ((8, 8), (2, 2, 4, 4)),
        ((16,), (1, 16)),
        ((16, 1), (1, 16)),
        ((2, 2, 2, 2, 2), (32,)),
        ((4, 4, 4), (2, 32)),
        ((1,), (1, 1, 1)),
    ],
    ids=str,
)
def test_reshape_keeps_row_major_order(device, shape, new_shape):
    x = numbered(*shape)
    run(device, [x], f"tl.reshape(x, {new_shape})", x.reshape(new_shape))


def test_reshape_after_transpose(device):
    x = numbered(4, 8)
    run(device, [x], "tl.reshape(tl.trans(x), (4, 8))", x.T.reshape(4, 8))
    run(device, [x], "tl.trans(tl.reshape(tl.trans(x), (4, 8)))", x.T.reshape(4, 8).T)


def test_view_and_ravel(device):
    x = numbered(4, 8)
    run(device, [x], "tl.ravel(x)", x.ravel())
    run(device, [x], "x.reshape(2, 16)", x.reshape(2, 16))


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_expand_dims(device, axis):
    x = numbered(4, 8)
    run(device, [x], f"tl.expand_dims(x, {axis})", x.unsqueeze(axis))


@pytest.mark.parametrize(
    ("shape", "other"),
    [((8, 1), (1, 16)), ((1, 16), (8, 16)), ((4, 1, 8), (1, 2, 1)), ((1, 1), (4, 8)), ((2, 1, 4, 1), (1, 8, 1, 2))],
    ids=str,
)
def test_broadcast(device, shape, other):
    x, y = torch.randn(shape), torch.randn(other)
    run(device, [x, y], "x * y", x * y)
    expected = torch.broadcast_tensors(x, y)[0].contiguous()
    run(device, [x, y], "a", expected, body="a, b = tl.broadcast(x, y)")
    run(device, [x], f"tl.broadcast_to(x, {tuple(expected.shape)})", expected)


def test_scalars_broadcast_to_tiles(device):
    x = numbered(4, 8)
    run(device, [x], "tl.broadcast_to(s, (4, 8)) + x", x + 27, body="s = tl.sum(tl.sum(x, 1), 0) / 496 * 27")


@pytest.mark.parametrize("shape", [(8,), (4, 8), (2, 4, 4), (1,)], ids=str)
@pytest.mark.parametrize("dtype", dtypes(torch.float32, torch.float16, torch.int64, torch.bool))
def test_join_makes_a_last_axis_of_two_and_split_undoes_it(device, shape, dtype):
    x, y = numbered(*shape).to(dtype), (numbered(*shape) * 3 + 1).to(dtype)
    run(device, [x, y], "tl.join(x, y)", torch.stack([x, y], -1))
    run(device, [torch.stack([x, y], -1)], "a", x, body="a, b = tl.split(x)")
    run(device, [torch.stack([x, y], -1)], "b", y, body="a, b = tl.split(x)")


@pytest.mark.parametrize("shape", [(8,), (4, 8), (2, 2, 4)], ids=str)
def test_interleave(device, shape):
    x, y = numbered(*shape), -numbered(*shape)
    expected = torch.stack([x, y], -1).reshape(*shape[:-1], 2 * shape[-1])
    run(device, [x, y], "tl.interleave(x, y)", expected)


@pytest.mark.parametrize("dtype", dtypes(torch.float32, torch.int8))
def test_cat(device, dtype):
    """`can_reorder` leaves the order free: the values are those of both."""
    x, y = numbered(16).to(dtype), (numbered(16) + 50).to(dtype)
    kernel = tile_kernel([(16,), (16,)], "tl.cat(x, y, can_reorder=True)", (32,))
    out = torch.empty(32, dtype=dtype, device=device)
    kernel[(1,)](x.to(device), y.to(device), out)
    assert_same(out.cpu().sort().values, torch.cat([x, y]))


@pytest.mark.parametrize(("shape", "axis"), [((16,), 0), ((4, 8), 0), ((4, 8), 1), ((2, 4, 8), 1), ((2, 4, 8), -1)])
@pytest.mark.parametrize("dtype", dtypes(torch.float32, torch.float16, torch.int8, torch.int64))
def test_flip(device, shape, axis, dtype):
    x = numbered(*shape).to(dtype)
    run(device, [x], f"tl.flip(x, {axis})", x.flip(axis))


def test_arange_full_zeros(device):
    x = numbered(4, 8)
    run(device, [x], "tl.arange(8, 16)[None, :] + x", x + torch.arange(8, 16))
    run(device, [x], "tl.full((4, 8), 2.5, tl.float32) + x", x + 2.5)
    run(device, [x], "tl.zeros((4, 8), tl.float32) + tl.zeros_like(x) + x", x)
    run(device, [x], "tl.full((4, 8), s, tl.float32)", torch.full((4, 8), 31.0), body="s = tl.max(tl.max(x, 1), 0)")


def test_where_broadcasts_all_three(device):
    x, y = torch.randn(8, 1), torch.randn(1, 16)
    run(device, [x, y], "tl.where(y > 0, x, 7.0)", torch.where(y > 0, x, torch.tensor(7.0)))


@triton.jit
def rotate_half_kernel(source, target, ROWS: tl.constexpr, HALF: tl.constexpr):
    offsets = tl.arange(0, ROWS)[:, None] * (2 * HALF) + tl.arange(0, 2 * HALF)[None, :]
    x = tl.reshape(tl.load(source + offsets), (ROWS, 2, HALF))
    first, second = tl.split(tl.permute(x, (0, 2, 1)))
    rotated = tl.permute(tl.join(-second, first), (0, 2, 1))
    tl.store(target + offsets, tl.reshape(rotated, (ROWS, 2 * HALF)))


def test_shape_operations_compose(device):
    x, out = torch.randn(4, 32), torch.empty(4, 32, device=device)
    rotate_half_kernel[(1,)](x.to(device), out, ROWS=4, HALF=16)
    assert_same(out, torch.cat([-x[:, 16:], x[:, :16]], 1))
