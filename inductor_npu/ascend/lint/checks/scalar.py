"""N3: what becomes a loop over single elements, except addresses."""

from __future__ import annotations

import math
from collections.abc import Iterator

from inductor_npu.simulator.triton_backend.ttir.ir import Op, TensorType

from ..forms import element
from ..kernel import LIBRARY, Kernel
from .addresses import used_in_addresses
from .hit import Hit, hit

_INT64 = frozenset(
    [
        "arith.addi",
        "arith.subi",
        "arith.muli",
        "arith.divsi",
        "arith.remsi",
        "arith.divui",
        "arith.remui",
        "arith.maxsi",
        "arith.minsi",
        "arith.maxui",
        "arith.minui",
        "arith.shli",
        "arith.shrsi",
        "arith.shrui",
        "arith.cmpi",
    ]
)
_SHIFTS = frozenset({"arith.shli", "arith.shrsi", "arith.shrui"})
_SCALAR_COMBINES = frozenset({"arith.mulf", "arith.muli", "arith.andi", "arith.ori", "arith.xori"})
_REPEAT = 256  # bytes that one instruction compares
_FEW = 8  # elements that are no loop
_COMPARED = {"f32": 4, "i32": 4, "f16": 2}  # bytes; what is compared as another type is left out
_MASK_PARTS = frozenset({"arith.andi", "arith.ori", "arith.xori", "tt.broadcast", "tt.expand_dims"})


def check(kernel: Kernel) -> Iterator[Hit]:
    yield from _arithmetic(kernel)
    yield from _reductions(kernel)
    for op in kernel.ops:
        if op.name in ("tt.flip", f"{LIBRARY}flip"):
            yield hit("N313", "tl.flip", op)
        elif op.name == "tt.histogram":
            yield hit("N314", "tl.histogram", op)
        elif op.name == "tt.elementwise_inline_asm" and isinstance(op.results[0].type, TensorType):
            yield hit("N316", f"inline assembly on {op.results[0].type}", op)
        elif op.name == "tt.atomic_rmw" and element(op.operands[1]) == "i64":
            yield hit("N308", f"atomic operation on {op.operands[1].type}", op)


def _arithmetic(kernel: Kernel) -> Iterator[Hit]:
    named = used_in_addresses(kernel)
    for op in kernel.ops:
        if not op.operands or not isinstance(op.operands[0].type, TensorType):
            continue
        type_ = element(op.operands[0])
        forms = [kernel.forms[value] for value in op.operands]
        is_data = any(form.is_data for form in forms)
        if type_ == "i64" and is_data and op.name in _INT64:
            yield hit("N308", f"{op.name.partition('.')[2]} of {op.operands[0].type}", op)
        elif op.name in ("arith.remsi", "arith.remui") and type_ == "i32" and op not in named:
            if not all(form.is_uniform for form in forms):
                yield hit("N309", f"remainder of {op.operands[0].type}", op)
        elif op.name in _SHIFTS and is_data and not forms[1].is_uniform:
            yield hit("N311", f"shift of {op.operands[0].type} by a tile", op)
        elif op.name == "arith.cmpi" and type_ == "i16" and not any(form.is_uniform for form in forms):
            yield hit("N310", f"comparison of {op.operands[0].type}", op)
        elif op.name in ("arith.cmpf", "arith.cmpi") and (is_data or _reaches_selection(kernel, op)):
            yield from _rest(op, type_)


def _rest(op: Op, type_: str) -> Iterator[Hit]:
    tile = op.operands[0].type
    assert isinstance(tile, TensorType), "asked before"
    elements = math.prod(tile.shape)
    size = elements * _COMPARED.get(type_, _REPEAT)
    if size % _REPEAT and elements > _FEW:
        yield hit("N315", f"comparison of {tile}: {size % _REPEAT} bytes are left", op)


def _reaches_selection(kernel: Kernel, op: Op) -> bool:
    """Whether a comparison of indices is more than the mask of an access, which is made of it without comparing."""
    return any(
        user.name == "arith.select" or (user.name in _MASK_PARTS and _reaches_selection(kernel, user))
        for user in kernel.users.get(op.result, [])
    )


def _reductions(kernel: Kernel) -> Iterator[Hit]:
    for op in kernel.named("tt.reduce", "tt.scan"):
        source = op.operands[0].type
        assert isinstance(source, TensorType), "reductions are of tiles"
        if source.shape[int(op.attrs["axis"])] == 1:
            continue
        is_innermost = int(op.attrs["axis"]) == len(source.shape) - 1
        if op.name == "tt.scan":
            if is_innermost and math.prod(source.shape) > _FEW:
                yield hit("N307", f"scan of {source} along its last axis", op)
        elif element(op.operands[0]) == "i64":
            yield hit("N308", f"reduction of {source}", op)
        elif is_innermost and len(op.results) == 1 and isinstance(op.results[0].type, TensorType):
            made_by = op.regions[0].ops[-1].operands[0].owner
            combines = {made_by.name} if made_by is not None else set()
            is_integer = element(op.operands[0]) in ("i8", "i16", "i32")
            if is_integer or (combines & _SCALAR_COMBINES and element(op.operands[0]) != "i1"):
                yield hit("N312", f"reduction of the rows of {source}", op)
