"""Tensor descriptors in a kernel's TTIR: Ascend's front end forgets their bounds.

Tiles that lie inside of the tensor are right; one at its end is read and written as a whole. So a launch is right where
each side of the tensor is a multiple of the tile's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from inductor_npu.ascend.hivm import Finding
from inductor_npu.ascend.kernel import Launch
from inductor_npu.simulator.triton_backend.ttir import parser
from inductor_npu.simulator.triton_backend.ttir.ir import Op, TensorDescType, Value, splat_number

_CASTS = frozenset({"arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast", "tt.splat"})


def tails_without_bounds(ttir: str, launch: Launch) -> list[Finding]:
    """A finding for each descriptor of a kernel with dots whose tiles do not divide the tensor, or may not.

    Raises ParseError for text that is not understood.
    """
    kernel = parser.parse(ttir).kernel
    arguments = dict(zip(kernel.body.arguments, launch.arguments.values(), strict=False))
    ops = list(kernel.body.walk())
    if not any(op.name in ("tt.dot", "tt.dot_scaled") for op in ops):
        return []
    return [finding for op in ops if op.name == "tt.make_tensor_descriptor" for finding in _tails(op, arguments)]


def _tails(op: Op, arguments: Mapping[Value, object]) -> Iterator[Finding]:
    described = op.result.type
    assert isinstance(described, TensorDescType), "that is what the operation makes"
    for size, tile in zip(op.operands[1:], described.block.shape, strict=False):
        known = _number(size, arguments)
        if known is None or known % tile:
            sides = "a side not known" if known is None else f"a side of {known}"
            place = f"kernel.py:{op.line.line}: " if op.line is not None else ""
            what = f"a tensor descriptor has no bounds: {sides}, tiles of {tile}: it goes beyond the end"
            yield Finding("WC", f"{place}{what}", None)
            return


def _number(value: Value, arguments: Mapping[Value, object]) -> int | None:
    number = splat_number(value, _CASTS)
    if number is not None:
        return int(number)
    while value.owner is not None and value.owner.name in _CASTS:
        value = value.owner.operands[0]
    argument = arguments.get(value)
    return argument if isinstance(argument, int) else None
