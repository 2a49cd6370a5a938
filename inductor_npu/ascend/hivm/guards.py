"""When a function of Ascend's library falls back to a loop over single elements.

Nearly every function of `meta_op.aiv.bc` first tests strides and addresses of its operands, and has a scalar branch.
The tests were read in the bitcode and are checked against it: `tools/ascend_library.py` runs the bitcode on the host
and counts scalar accesses. Each guard answers None, or how many elements go one by one (None: unknown) and why.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from .access import BLOCK, REPEAT, rows, sizes
from .machine import Buffer, Known

Hidden = tuple[int | None, str]
Guard = Callable[[str, list[Known]], Hidden | None]


def buffers(operands: list[Known]) -> list[Buffer]:
    """The memory operands of a call."""
    return [operand for operand in operands if isinstance(operand, Buffer)]


# ---- properties of one view ----


def _block(buffer: Buffer) -> int:
    """Elements of a 32-byte block."""
    return BLOCK * 8 // buffer.element_bits


def _apart(buffer: Buffer) -> bool:
    """Whether neighbours of a row lie apart."""
    size, stride = (sizes(buffer, tile=True) or (1,))[-1], (buffer.strides or (1,))[-1]
    return size != 1 and stride is not None and stride != 1


def _uneven(buffer: Buffer) -> bool:
    """Whether rows begin elsewhere than at multiples of 32 bytes."""
    rank = len(buffer.strides)
    return any(
        size != 1 and stride is not None and stride % _block(buffer)
        for axis, (size, stride) in enumerate(zip(sizes(buffer, tile=True), buffer.strides))
        if axis < rank - 1
    )


def _residue(buffer: Buffer) -> int:
    """Bytes that the view begins behind a multiple of 32; 0 where that is unknown."""
    begin = buffer.byte_offset
    return 0 if begin is None or buffer.space != "ub" else begin % BLOCK


def _elements(operands: list[Known]) -> int | None:
    """Elements of the largest of the views that are no scratch space: the last one is, where there are three or
    more.
    """
    views = buffers(operands)
    counts = [view.elements for view in (views[:-1] if len(views) > 2 else views)]
    return None if not counts or None in counts else max(count or 0 for count in counts)


def _misplaced(views: list[Buffer], blocks_apart: bool = False) -> str | None:
    """Why `views` are not aligned rows without gaps; None if they are. `blocks_apart`: whole blocks between elements
    do.
    """
    for view in views:
        if view.space != "ub" or (view.elements or 2) <= 1:
            continue
        if _apart(view) and not (blocks_apart and (view.strides[-1] or 0) % _block(view) == 0):
            return f"elements lie {view.strides[-1]} apart in the Unified Buffer"
        if _uneven(view):
            return "rows in the Unified Buffer begin at no multiple of 32 bytes"
        if _residue(view):
            return f"an operand begins {_residue(view)} bytes behind a multiple of 32 in the Unified Buffer"
    return None


# ---- guards ----


def always(reason: str) -> Guard:
    """A function that has no vector branch."""
    return lambda name, operands: (_elements(operands), reason)


def strict(count: int, blocks_apart: bool = False) -> Guard:
    """A function whose first `count` memory operands (from the end, if negative: all but scratch space) must be aligned
    rows without gaps; with `blocks_apart`, elements may also lie whole blocks apart.
    """

    def guard(name: str, operands: list[Known]) -> Hidden | None:
        reason = _misplaced(buffers(operands)[:count], blocks_apart)
        return None if reason is None else (_elements(operands), reason)

    return guard


def elementwise(name: str, operands: list[Known]) -> Hidden | None:
    """Operands, result, scratch. Operands that begin equally far behind a multiple of 32 lose only the elements before
    the next.
    """
    views = buffers(operands)
    views = [view for view in (views[:-1] if len(views) > 2 else views) if (view.elements or 2) > 1]
    if not views:
        return None
    broadcast = len({sizes(view, tile=True) for view in views}) > 1
    elements = _elements(operands)
    for view in views:
        if _apart(view):
            return elements, f"elements lie {view.strides[-1]} apart in the Unified Buffer"
        if _uneven(view) and not broadcast and not name.startswith("copy"):
            return elements, "rows in the Unified Buffer begin at no multiple of 32 bytes"
    return _heads(views, elements, broadcast)


def _heads(views: list[Buffer], elements: int | None, broadcast: bool) -> Hidden | None:
    residues = {_residue(view) for view in views}
    if residues == {0}:
        return None
    reason = f"an operand begins {max(residues)} bytes behind a multiple of 32 in the Unified Buffer"
    if len(residues) > 1 or broadcast:
        return elements, reason
    head = (BLOCK - max(residues)) * 8 // views[-1].element_bits
    outer = sizes(views[-1], tile=True)[:-1]
    if None in outer:
        return None, reason
    return min(head * prod(size or 0 for size in outer), elements or head), f"{reason}: the first of each row"


def fill(name: str, operands: list[Known]) -> Hidden | None:
    """A scalar into a buffer: gaps are no harm, uneven rows and addresses are."""
    view = buffers(operands)[0]
    if _uneven(view) or _residue(view):
        return view.elements, "the buffer, or its rows, begin at no multiple of 32 bytes"
    return None


def compare(name: str, operands: list[Known]) -> Hidden | None:
    """Sources, then the bits. What is left behind the last 256 bytes is compared element by element."""
    views = buffers(operands)
    sources = views[:-1]
    reason = _misplaced(sources)
    if reason is not None:
        return sources[0].elements, reason
    count = sources[0].elements
    if count is None:
        return None
    lanes = REPEAT * 8 // sources[0].element_bits
    return (
        (count % lanes, f"{count} elements are no multiple of {lanes}: the rest is scalar") if count % lanes else None
    )


def row_tails(name: str, operands: list[Known]) -> Hidden | None:
    """Reductions along rows that end in a loop over the last 32 bytes of each row."""
    source = buffers(operands)[0]
    reason = _misplaced([source], blocks_apart=len(source.shape) > 1)
    if reason is not None:
        return source.elements, reason
    shape = sizes(source, tile=True)
    if None in shape:
        return None, "each row is reduced to its end element by element"
    tail = _block(source)
    return prod(size or 0 for size in shape[:-1]) * tail, "the last 32 bytes of each row are reduced one by one"


def load(name: str, operands: list[Known]) -> Hidden | None:
    """`load_gm_to_ubuf_*(gm, ub, ...)`."""
    gm, ub = buffers(operands)[:2]
    block = _block(ub)
    for axis in range(len(ub.shape)):
        size, step, other = sizes(ub, tile=True)[axis], ub.strides[axis], gm.strides[axis]
        dense = axis == len(ub.shape) - 1 and step == 1 and other == 1
        if size != 1 and not dense and step is not None and step % block:
            return ub.elements, f"steps of {step} elements in the Unified Buffer are no multiple of 32 bytes"
    return _heads([ub], ub.elements, broadcast=False)


def store(name: str, operands: list[Known]) -> Hidden | None:
    """`store_ubuf_to_gm_*(ub, gm, atomic)`."""
    ub, gm = buffers(operands)[:2]
    walked = rows([ub, gm], tile=True) if len(ub.shape) == len(gm.shape) else None
    if walked is None or walked.count > 1:
        dense = not _apart(ub) and not _apart(gm)
        axes = list(zip(sizes(ub, tile=True), ub.strides))[: -1 if dense else None]
        if any(size != 1 and stride is not None and stride % _block(ub) for size, stride in axes):
            return ub.elements, "steps in the Unified Buffer are no multiple of 32 bytes"
    return _heads([ub], ub.elements, broadcast=False)
