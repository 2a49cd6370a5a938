"""Copies of operations, for inlining and for code that two branches share."""

from __future__ import annotations

from collections.abc import Iterable

from .ir import Block, Op, SourceLine, Value

Values = dict[Value, Value]  # from a value to the one that takes its place


def copy_operations(ops: Iterable[Op], values: Values, line: SourceLine | None = None) -> list[Op]:
    """Copies of `ops` that use the values that `values` maps to; it is extended with the results of the copies.

    `line`, where given, becomes the source line of every copy.
    """
    copies: list[Op] = []
    for op in ops:
        copy = Op(op.name, [values.get(value, value) for value in op.operands], [], op.attrs, [], line or op.line)
        copy.results = [Value(value.name, value.type, copy, value.index) for value in op.results]
        copy.regions = [copy_region(region, values, line) for region in op.regions]
        values.update(zip(op.results, copy.results, strict=True))
        copies.append(copy)
    return copies


def copy_region(block: Block, values: Values, line: SourceLine | None = None) -> Block:
    """A copy of a region's block, with arguments of its own."""
    arguments = [Value(argument.name, argument.type) for argument in block.arguments]
    values.update(zip(block.arguments, arguments, strict=True))
    return Block(arguments, copy_operations(block.ops, values, line))
