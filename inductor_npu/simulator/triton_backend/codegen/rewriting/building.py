"""Creates replacement operations."""

from __future__ import annotations

from ...ttir.ir import Block, Op, Type, Value


def make_op(name: str, operands: list[Value], type_: Type, op: Op, **attrs: object) -> Op:
    """An operation with one result of `type_`, at the source line of `op`."""
    made = Op(name, operands, [], dict(attrs), [], op.line)
    made.results = [Value(f"%{name}", type_, made)]
    return made


def replace_uses(block: Block, old: Value, new: Value) -> None:
    """Has the operations in `block` use `new` where they used `old`."""
    for op in block.walk():
        op.operands = [new if o is old else o for o in op.operands]
