"""N3 and N4: addresses that are moved element by element, by the scalar unit or by DMA."""

from __future__ import annotations

from collections.abc import Iterator

from inductor_npu.simulator.triton_backend.ttir.ir import Op, PointerType, TensorType

from ..forms import UNKNOWN, Form, Irregular, Step, element
from ..kernel import Access, Kernel
from .hit import Hit, hit

BLOCK = 32  # bytes: what the Unified Buffer is addressed in
_BYTES = {"i1": 1, "i8": 1, "i16": 2, "f16": 2, "bf16": 2, "i32": 4, "f32": 4, "i64": 8}


def check(kernel: Kernel) -> Iterator[Hit]:
    for access in kernel.accesses():
        form = kernel.forms[access.pointer]
        irregular = [step for step, size in zip(form.steps, access.shape) if isinstance(step, Irregular) and size > 1]
        if irregular:
            yield from _scalar(access, form, irregular)
        elif any(isinstance(step, int) and step < 0 and size > 1 for step, size in zip(form.steps, access.shape)):
            yield hit("N302", f"the address of a {access.what} falls along an axis", access.op)
        elif not form.is_uniform:
            yield from _bursts(access, form)
    yield from _broadcast_rows(kernel)


def _broadcast_rows(kernel: Kernel) -> Iterator[Hit]:
    """Narrow rows that a tile with fewer rows is spread over: these cannot follow each other any more."""
    for op in kernel.named("tt.broadcast"):
        source, tile = op.operands[0].type, op.result.type
        assert isinstance(source, TensorType) and isinstance(tile, TensorType), "a tile is spread over a tile"
        if not kernel.forms[op.operands[0]].is_data or 1 in (tile.shape[-1], len(tile.shape)):
            continue
        if tile.shape[-1] * _BYTES.get(element(op.result), 4) < BLOCK and source.shape[:-1] != tile.shape[:-1]:
            yield hit("N403", f"{source} spread over {tile}", op)


def _scalar(access: Access, form: Form, irregular: list[Irregular]) -> Iterator[Hit]:
    data = next((step for step in irregular if step.why == "data"), None)
    if data is not None:
        yield from _gathered(access, form)
        return
    step = irregular[0]
    if step.why not in ("quotient", "remainder"):
        yield hit("N303", f"the address of a {access.what} is a {step.why} of indices", step.op)
    else:
        yield hit("N301", f"the address of a {access.what} has a {step.why} of an index", step.op)


def _gathered(access: Access, form: Form) -> Iterator[Hit]:
    """Addresses of data: whole rows where only outer axes are data and the innermost one steps by one."""
    inner, size = form.steps[-1], access.shape[-1]
    if len(form.steps) > 1 and inner == 1 and size > 1:
        if access.op.name != "tt.load":
            return
        if size * item_size(access) % BLOCK:
            yield hit("N306", f"rows of {size * item_size(access)} bytes by loaded indices", access.op)
        return
    rule, what = ("N304", "are read") if access.op.name == "tt.load" else ("N305", "are written")
    yield hit(rule, f"single elements {what} through addresses that were loaded", access.op)


def _bursts(access: Access, form: Form) -> Iterator[Hit]:
    steps = [(step, size) for step, size in zip(form.steps, access.shape)]
    moving = [(step, size) for step, size in steps if size > 1]
    if not moving:
        return
    inner, inner_size = steps[-1]
    if inner_size == 1 and len([size for _, size in steps if size > 1]) > 1 and moving[-1][0] != 1:
        yield hit("N404", f"a {access.what} of a tile of {_shape(access)}", access.op)
        return
    inner, inner_size = moving[-1]
    if inner == 0 or (inner == 1 and not _is_narrow(access, moving)):
        return
    if inner == 1:
        yield hit("N403", f"a {access.what} of rows of {inner_size * item_size(access)} bytes", access.op)
    elif any(step == 1 for step, _ in moving[:-1]):
        axis = next(axis for axis, (step, size) in enumerate(steps) if step == 1 and size > 1)
        yield hit(
            "N401", f"a {access.what} of a tile of {_shape(access)} that is contiguous along axis {axis}", access.op
        )
    elif inner is UNKNOWN:
        yield hit("N506", f"the innermost stride of a {access.what} is known only at run time", access.op)
    elif not (inner == 2 and access.mask is None and access.op.name == "tt.load" and len(moving) == 1):
        yield hit("N402", f"a {access.what} with a step of {inner} elements", access.op)


def _is_narrow(access: Access, moving: list[tuple[Step, int]]) -> bool:
    """Rows shorter than a block that do not follow each other."""
    inner_size = moving[-1][1]
    if len(moving) < 2 or inner_size * item_size(access) >= BLOCK:
        return False
    return moving[-2][0] != inner_size


def item_size(access: Access) -> int:
    """Bytes of an element."""
    type_ = access.pointer.type
    assert isinstance(type_, TensorType) and isinstance(type_.element, PointerType), "a tile of pointers"
    return _BYTES.get(str(type_.element.pointee), 4)


def _shape(access: Access) -> str:
    return "x".join(map(str, access.shape))


def used_in_addresses(kernel: Kernel) -> set[Op]:
    """The quotients and remainders that make an address irregular: N301 names them."""
    return {step.op for access in kernel.accesses() for step in kernel.forms[access.pointer].irregular}
