"""Properties that hold for every kernel: random expressions, shapes, strides, masks, permutations and reductions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given, settings
from hypothesis import strategies as st

from .support import QUICK, assert_same, compile_source, evaluate, samples, triton_name
from .test_shapes import offsets

# An expression is its Triton text and its meaning on numpy arrays of one dtype.
INTEGER_OPERATIONS = {
    "({} + {})": np.add,
    "({} - {})": np.subtract,
    "({} * {})": np.multiply,
    "({} & {})": np.bitwise_and,
    "({} | {})": np.bitwise_or,
    "({} ^ {})": np.bitwise_xor,
    "tl.minimum({}, {})": np.minimum,
    "tl.maximum({}, {})": np.maximum,
}
FLOAT_OPERATIONS = {"({} + {})": np.add, "({} - {})": np.subtract, "({} * {})": np.multiply}
COMPARISONS = {"({} < {})": np.less, "({} >= {})": np.greater_equal, "({} == {})": np.equal, "({} != {})": np.not_equal}


def expressions(operations: dict, depth: int = 5):
    leaves = st.sampled_from([(name, lambda env, name=name: env[name]) for name in "xyz"])

    def extend(children):
        def binary(item, left, right):
            text, function = item
            return text.format(left[0], right[0]), lambda env: function(left[1](env), right[1](env))

        def select(item, a, b, c, d):
            text, function = item
            return (
                f"tl.where({text.format(a[0], b[0])}, {c[0]}, {d[0]})",
                lambda env: np.where(function(a[1](env), b[1](env)), c[1](env), d[1](env)),
            )

        return st.one_of(
            st.builds(binary, st.sampled_from(sorted(operations.items(), key=str)), children, children),
            st.builds(select, st.sampled_from(sorted(COMPARISONS.items(), key=str)), *[children] * 4),
        )

    return st.recursive(leaves, extend, max_leaves=2 * depth)


def check_expression(device: str, expression: tuple, dtype: torch.dtype) -> None:
    text, meaning = expression
    inputs = dict(zip("xyz", (samples(dtype, 100, seed=seed)[: 100 + seed] for seed in (1, 2, 3))))
    size = min(value.numel() for value in inputs.values())
    inputs = {name: value[torch.randperm(value.numel())][:size] for name, value in inputs.items()}
    with np.errstate(all="ignore"):
        expected = meaning({name: value.numpy() for name, value in inputs.items()})
    got = evaluate(device, text, *inputs.values(), out=dtype, enable_fp_fusion=False)
    assert_same(got, torch.from_numpy(np.ascontiguousarray(expected)), signed_zero=False)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.int64, torch.uint32], ids=triton_name)
@QUICK
@given(expression=expressions(INTEGER_OPERATIONS))
def test_expressions_of_integers(device, dtype, expression):
    check_expression(device, expression, dtype)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64], ids=triton_name)
@QUICK
@given(expression=expressions(FLOAT_OPERATIONS))
def test_expressions_of_floats_round_after_every_operation_without_fusion(device, dtype, expression):
    check_expression(device, expression, dtype)


@st.composite
def layouts(draw):
    """A tile of up to four axes, valid sizes inside it, and the order of the axes in memory."""
    rank = draw(st.integers(1, 4))
    tile = [draw(st.sampled_from([1, 2, 4, 8])) for _ in range(rank)]
    tile[draw(st.integers(0, rank - 1))] *= draw(st.sampled_from([1, 4]))
    sizes = [draw(st.integers(1, extent)) for extent in tile]
    return tile, sizes, draw(st.permutations(range(rank))), draw(st.integers(1, 3))


def strided_offsets(rank: int, prefix: str) -> str:
    return " + ".join(f"i{axis} * {prefix}{axis}" for axis in range(rank))


@QUICK
@given(layout=layouts())
def test_copies_between_any_strides_under_any_mask(device, layout):
    """What is inside arrives, what is outside stays."""
    tile, sizes, order, step = layout
    rank = len(tile)
    index = [", ".join(":" if other == axis else "None" for other in range(rank)) for axis in range(rank)]
    parameters = [f"{name}{axis}" for name in ("n", "s", "t") for axis in range(rank)]
    lines = ["@triton.jit", f"def kernel(source, target, {', '.join(parameters)}):"]
    lines += [f"    i{a} = tl.arange(0, {tile[a]})" + (f"[{index[a]}]" if rank > 1 else "") for a in range(rank)]
    lines.append("    mask = " + " & ".join(f"(i{axis} < n{axis})" for axis in range(rank)))
    lines.append(f"    value = tl.load(source + {strided_offsets(rank, 's')}, mask=mask)")
    lines.append(f"    tl.store(target + {strided_offsets(rank, 't')}, value * 2, mask=mask)")
    kernel = compile_source("\n".join(lines) + "\n")["kernel"]

    in_memory = [sizes[axis] for axis in order]
    in_memory[-1] *= step
    storage = torch.arange(int(np.prod(in_memory)), dtype=torch.float32).reshape(in_memory)
    x = storage[..., ::step].permute([list(order).index(axis) for axis in range(rank)])
    out = torch.full([extent + 1 for extent in sizes], -1.0)
    on_out = out.clone().to(device)
    on_storage = storage.to(device)
    kernel[(1,)](on_storage, on_out, *sizes, *x.stride(), *out.stride())
    expected = out.clone()
    expected[tuple(slice(0, extent) for extent in sizes)] = x * 2
    assert_same(on_out, expected)


@st.composite
def pipelines(draw):
    """A tile and a chain of shape operations and reductions on it, with their meaning in torch."""
    shape = [draw(st.sampled_from([1, 2, 4, 8])) for _ in range(draw(st.integers(1, 4)))]
    steps, current = [], list(shape)
    for _ in range(draw(st.integers(1, 5))):
        kind = draw(st.sampled_from(["permute", "reshape", "sum", "max", "cumsum", "scale", "subtract", "flip"]))
        axis = draw(st.integers(0, len(current) - 1))
        if kind == "permute":
            order = draw(st.permutations(range(len(current))))
            steps.append((f"tl.permute(v, {tuple(order)})", lambda v, order=order: v.permute(list(order))))
            current = [current[axis] for axis in order]
        elif kind == "reshape":
            count = int(np.prod(current))
            split = 1 << draw(st.integers(0, count.bit_length() - 1))
            current = [split, count // split]
            steps.append((f"tl.reshape(v, {tuple(current)})", lambda v, to=tuple(current): v.reshape(to)))
        elif kind in ("sum", "max") and len(current) > 1:
            name = kind if kind == "sum" else "amax"
            steps.append((f"tl.{kind}(v, {axis})", lambda v, name=name, axis=axis: getattr(v, name)(axis)))
            del current[axis]
        elif kind == "cumsum":
            steps.append((f"tl.cumsum(v, {axis})", lambda v, axis=axis: v.cumsum(axis)))
        elif kind == "flip" and current[axis] > 1:
            steps.append((f"tl.flip(v, {axis})", lambda v, axis=axis: v.flip(axis)))
        elif kind == "subtract":
            meaning = lambda v, axis=axis: v - v.amin(axis, keepdim=True)  # noqa: E731
            steps.append((f"v - tl.min(v, {axis}, keep_dims=True)", meaning))
        else:
            steps.append(("v * 2 + 1", lambda v: v * 2 + 1))
    return shape, steps


@settings(QUICK, max_examples=60)
@given(pipeline=pipelines())
def test_chains_of_shape_operations_and_reductions(device, pipeline):
    shape, steps = pipeline
    x = torch.randint(-4, 5, shape).float()
    expected = x
    for _, meaning in steps:
        expected = meaning(expected)
    lines = ["@triton.jit", "def kernel(source, target):", f"    v = tl.load(source + {offsets(tuple(shape))})"]
    lines += [f"    v = {text}" for text, _ in steps]
    lines.append(f"    tl.store(target + {offsets(tuple(expected.shape))}, v)")
    out = torch.empty(expected.shape, device=device)
    compile_source("\n".join(lines) + "\n")["kernel"][(1,)](x.to(device), out)
    assert_same(out, expected.contiguous(), signed_zero=False)


@triton.jit
def triple_kernel(source, target, count, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(target + i, tl.load(source + i, mask=i < count) * 3, mask=i < count)


@QUICK
@given(count=st.integers(0, 700), block=st.sampled_from([1, 2, 16, 64, 256]), start=st.integers(0, 5))
def test_a_masked_elementwise_kernel_covers_any_size(device, count, block, start):
    x, out = torch.arange(710, dtype=torch.int32), torch.full((710,), -1, dtype=torch.int32, device=device)
    triple_kernel[(triton.cdiv(count, block),)](x[start:].to(device), out[start:], count, BLOCK=block)
    i = torch.arange(710)
    assert_same(out, torch.where((i >= start) & (i < start + count), x * 3, -1))
