"""N2: what Ascend's compiler does not accept, or crashes on."""

from __future__ import annotations

import math
from collections.abc import Iterator

from inductor_npu.providers import DEFAULT_TARGET
from inductor_npu.simulator.triton_backend.ttir.ir import Op, TensorType
from inductor_npu.target import get_target

from ..forms import element
from ..kernel import Kernel
from ..libdevice import ASCEND, called
from .hit import Hit, hit

_ACCUMULATOR_BYTES = get_target(DEFAULT_TARGET).l0c
_UNSIGNED = frozenset({"ult", "ule", "ugt", "uge"})
_WIDE = frozenset({"i16", "i32", "i64"})


def check(kernel: Kernel) -> Iterator[Hit]:
    yield from _transfers(kernel)
    yield from _types(kernel)
    yield from _reductions(kernel)
    for name, op in called(kernel):
        if name not in ASCEND:
            yield hit("N205", f"libdevice.{name}", op)
    for op in kernel.named("tt.dot", "tt.dot_scaled"):
        assert isinstance(op.result.type, TensorType), "a product of tiles"
        size = math.prod(op.result.type.shape) * 4
        if size > _ACCUMULATOR_BYTES:
            yield hit("N208", f"accumulator of {size // 1024} KiB", op)


def _transfers(kernel: Kernel) -> Iterator[Hit]:
    for access in kernel.accesses():
        if access.op.name == "tt.load" and len(access.op.operands) > 2:
            other = access.op.operands[2]
            if not kernel.forms[other].is_uniform:
                yield hit("N201", f"`other` is {other.type}", access.op)
        form = kernel.forms[access.pointer]
        if form.zeroed is not None:
            yield hit("N202", f"the address of a {access.what} has an index times 0", form.zeroed)
        elif not form.is_uniform:
            for axis, (step, size) in enumerate(zip(form.steps, access.shape)):
                if step == 0 and size > 1:
                    yield hit("N202", f"the address of a {access.what} is the same along axis {axis}", access.op)


def _types(kernel: Kernel) -> Iterator[Hit]:
    for op in kernel.ops:
        if any(element(value) == "f64" for value in op.results):
            yield hit("N203", f"a value of {op.results[0].type}", op)
            break
    for op in kernel.ops:
        if not op.operands or not isinstance(op.operands[0].type, TensorType):
            continue
        source = op.operands[0]
        if kernel.forms[source].is_uniform or element(source) not in _WIDE | {"f16", "bf16", "f32"}:
            continue
        if op.name == "arith.cmpi" and op.attrs["predicate"] in _UNSIGNED and element(source) in _WIDE:
            yield hit("N204", f"unsigned comparison of {source.type}", op)
        elif (op.name == "arith.uitofp" and element(source) in _WIDE) or (
            op.name == "arith.fptoui" and element(op.result) in _WIDE
        ):
            yield hit("N204", f"conversion of {source.type} to {op.result.type}, unsigned", op)


def _reductions(kernel: Kernel) -> Iterator[Hit]:
    for op in kernel.named("tt.reduce", "tt.scan"):
        body = list(op.regions[0].walk())
        if len(op.results) > 1 and op.name == "tt.reduce" and not _is_by_index(op):
            yield hit("N206", f"reduction of {len(op.results)} values at once", op)
        elif any(_asks_for_nan(inner) for inner in body) and len(op.results) == 1:
            yield hit("N207", "the combine function compares a value with itself", op)


def _is_by_index(op: Op) -> bool:
    """Whether it is a maximum or minimum with its index: two values, of which the second is compared as an integer."""
    return len(op.results) == 2 and element(op.results[1]).startswith("i")


def _asks_for_nan(op: Op) -> bool:
    return op.name == "arith.cmpf" and op.operands[0] is op.operands[1]
