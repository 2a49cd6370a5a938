"""Simplifications of a kernel before its code is planned."""

from __future__ import annotations

from ...mathlib import HostVectors
from ...ttir.ir import Block, Function, Op, ScalarType, TensorType, Value
from ..analysis.operations import is_tensor
from ..forms.types import shape_of
from .address_arithmetic import carry_offsets, mark_offsets
from .building import make_op, replace_uses
from .element_functions import ElementMap, choose_sides
from .idioms import rounded_to_even
from .packed_operands import pack_operands

_COMBINING = frozenset({"tt.reduce", "tt.scan", "tt.map_elementwise"})


def rewrite(function: Function, host: HostVectors, observed: bool = False) -> None:
    """Works in place: what is spelled out for Ascend becomes one operation (`idioms.py`); functions of elements lose
    their branches, and maps of them become operations on tiles (`element_functions.py`); asserts of tiles become
    asserts of one truth value; loops carry offsets instead of tiles of addresses, and extensions of integers that serve
    addresses alone are marked (`address_arithmetic.py`); operands of products are packed for `host`
    (`packed_operands.py`).

    Where what the kernel reads is `observed`, it reads all that the chip would.

    Raises UnsupportedOperation for a function of elements that cannot be computed for all of them at once.
    """
    _rewrite_block(function.body)
    pack_operands(function, host, observed)
    mark_offsets(function.body)


def _rewrite_block(block: Block) -> None:
    ops: list[Op] = []
    for op in block.ops:
        for region in op.regions:
            (choose_sides if op.name in _COMBINING else _rewrite_block)(region)
        if op.name == "tt.map_elementwise":
            mapping = ElementMap(op)
            ops += mapping.ops
            for result, tile in zip(op.results, mapping.results):
                replace_uses(block, result, tile)
        elif op.name in ("tt.assert", "cf.assert") and is_tensor(op.operands[0]):
            ops += _all_true(op)
        elif op.name == "scf.for":
            before, after = carry_offsets(op)
            ops += [*before, op, *after]
        else:
            x = rounded_to_even(op)
            if x is not None:
                op.name, op.operands, op.attrs = "math.roundeven", [x], {}
            ops.append(op)
    block.ops = ops


def _all_true(op: Op) -> list[Op]:
    """The assert of a tile as reductions over its axes, and an assert of the result."""
    ops: list[Op] = []
    condition = op.operands[0]
    for axis in reversed(range(len(shape_of(condition.type)))):
        element, shape = ScalarType("i1"), shape_of(condition.type)[:axis]
        reduce_ = make_op("tt.reduce", [condition], TensorType(shape, element) if shape else element, op, axis=axis)
        arguments = [Value("%left", element), Value("%right", element)]
        both = make_op("arith.andi", arguments, element, op)
        reduce_.regions = [Block(arguments, [both, Op("tt.reduce.return", [both.result], [])])]
        ops.append(reduce_)
        condition = reduce_.result
    op.operands[0] = condition
    return [*ops, op]
