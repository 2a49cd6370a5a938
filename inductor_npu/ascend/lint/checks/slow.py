"""N5: what vectorises, but costs more than necessary."""

from __future__ import annotations

from collections.abc import Iterator

from inductor_npu.simulator.triton_backend.ttir.ir import TensorType

from ..forms import element
from ..kernel import Kernel
from .hit import Hit, hit

_IGNORES_NAN = {"arith.maxnumf": "maximum", "arith.minnumf": "minimum"}


def check(kernel: Kernel) -> Iterator[Hit]:
    in_reductions = {inner for op in kernel.named("tt.reduce", "tt.scan") for inner in op.regions[0].walk()}
    for op in kernel.ops:
        if op in in_reductions:
            continue
        is_tile = bool(op.results) and isinstance(op.results[0].type, TensorType)
        if op.name in _IGNORES_NAN and is_tile:
            yield hit("N501", f"{_IGNORES_NAN[op.name]} of {op.result.type}", op)
        elif op.name == "tt.clampf" and is_tile:
            yield hit("N503", f"clamp of {op.result.type}", op)
        elif op.name == "tt.trans" and element(op.result) == "bf16" and not _feeds_dot(kernel, op.result):
            yield hit("N507", f"transpose of {op.operands[0].type}", op)
        elif op.name == "scf.while" and any(inner.name == "tt.load" for inner in op.regions[1].walk()):
            yield hit("N505", "a while loop that loads tiles", op)
    yield from _reductions(kernel)


def _feeds_dot(kernel: Kernel, value: object) -> bool:
    return any(user.name == "tt.dot" for user in kernel.users.get(value, []))  # type: ignore[call-overload]


def _reductions(kernel: Kernel) -> Iterator[Hit]:
    loops = {inner for op in kernel.named("scf.for", "scf.while") for region in op.regions for inner in region.walk()}
    for op in kernel.named("tt.reduce"):
        source = op.operands[0]
        if isinstance(source.type, TensorType) and not isinstance(op.results[0].type, TensorType) and op in loops:
            yield hit("N504", f"{source.type} to one number, in a loop", op)
        maker = source.owner
        if maker is not None and maker.name == "arith.select":
            condition, value, other = maker.operands
            mask = kernel.forms[condition]
            if not mask.is_data and not mask.is_uniform and kernel.forms[other].is_uniform and _is_masked(value.owner):
                yield hit("N502", "a masked tile is filled by tl.where", maker)


def _is_masked(op: object) -> bool:
    """Whether it is a load that has a mask and could fill the tile itself."""
    return getattr(op, "name", "") == "tt.load" and len(op.operands) > 1  # type: ignore[attr-defined]
