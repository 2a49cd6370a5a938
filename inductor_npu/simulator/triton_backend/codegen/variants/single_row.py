"""A product of one row: columns of B are read where they are, along K, and each is multiplied by A and summed. Packing
them would take longer than the product.
"""

from __future__ import annotations

import functools

from ...mathlib import PackedProduct
from ...ttir.ir import Op
from ..emit.context import CodegenContext
from ..forms.lane import Address, Vector
from ..forms.scratch import Buffer
from ..forms.types import element_bytes, llvm_type
from ..forms.value import Val
from .pack import OFFSET, Packing

SUMS = 4  # that are under way at a time


def emit_single_row(
    context: CodegenContext, pack: Op, left: Buffer, result: Buffer, columns: Val, accumulate: bool
) -> None:
    """C[0, :columns] += A[0, :] @ B, where B is the operand of `pack`, contiguous along K, and A lies by rows."""
    b, product = context.b, pack.attrs["product"]
    reader = Packing(context, pack)
    vector = (product.sums, reader.lanes // product.group)
    several = min(SUMS, product.k // reader.lanes)
    zero = b.constant(product.sums, 0.0 if product.sums != "i32" else 0, vector[1])
    outer = b.open_loop(0, product.n, 1)
    inner = b.open_loop(0, product.k, reader.lanes * several)
    sums = [b.phi(inner, zero) for _ in range(several * (2 if product.a_is_offset else 1))]
    following = list(sums)
    for i in range(several):
        k = context.scalars.add(inner.iv, b.constant("i64", i * reader.lanes))
        right = reader.read(reader.lanes, [], outer.iv, k, along_k=True)
        following[i] = _multiply_add(
            context, product, sums[i], _row_of_a(context, product, left, k, reader.lanes), right
        )
        if product.a_is_offset:  # 128 times B, which A has too much
            offset = b.constant("i8", OFFSET, reader.lanes)
            following[several + i] = _multiply_add(context, product, sums[several + i], offset, right)
    b.close_loop(inner, following)
    total = _sum(context, following[:several])
    if product.a_is_offset:
        total = b.binary("sub", total, _sum(context, following[several:]))
    total = _sum_of_lanes(context, total)
    first = context.memory.scratch_pointer(result.offset)
    place = context.scalars.pointer(first, outer.iv, element_bytes(result.element))
    _add_to(context, place, total, result.element, accumulate)
    b.close_loop(outer, stop=columns.text)


def _row_of_a(context: CodegenContext, product: PackedProduct, left: Buffer, k: Val, lanes: int) -> Val:
    size = element_bytes(product.element)
    pointer = context.scalars.pointer(context.memory.scratch_pointer(left.offset), k, size)
    loaded = context.memory.load(Address(pointer, size), None, None, product.element, lanes)
    assert isinstance(loaded, Vector), "neighbours are loaded as a vector"
    return loaded.val


def _multiply_add(context: CodegenContext, product: PackedProduct, add: Val, left: Val, right: Val) -> Val:
    """`add` plus the products of the groups of two vectors."""
    b = context.b
    if product.group == 1:
        return b.intrinsic("fma", (product.sums, add.lanes), (left, right, add))
    name, factors = product.instruction
    result = llvm_type(add.element, add.lanes)
    b.declare(f"declare {result} @{name}({result}, {factors}, {factors})")
    casts = [b.pure(x.element, x.lanes, f"bitcast {x} to {factors}", x) for x in (left, right)]
    arguments = ", ".join((str(add), *(f"{factors} {cast.text}" for cast in casts)))
    return b.pure(add.element, add.lanes, f"call {result} @{name}({arguments})", add, *casts)


def _plus(context: CodegenContext, a: Val, b: Val) -> Val:
    return context.b.binary("add" if a.element == "i32" else "fadd", a, b)


def _sum(context: CodegenContext, vectors: list[Val]) -> Val:
    return functools.reduce(functools.partial(_plus, context), vectors)


def _sum_of_lanes(context: CodegenContext, vector: Val) -> Val:
    """Halves are added to halves."""
    b = context.b
    while vector.lanes > 1:
        half = vector.lanes // 2
        vector = _plus(context, b.shuffle(vector, range(half)), b.shuffle(vector, range(half, vector.lanes)))
    return b.extract(vector, 0)


def _add_to(context: CodegenContext, pointer: Val, total: Val, element: str, accumulate: bool) -> None:
    b = context.b
    if accumulate:
        old = b.effect(element, 0, f"load {llvm_type(element, 0)}, {pointer}")
        total = _plus(context, old, total)
    b.line(f"store {total}, {pointer}")
