"""How a transfer or an instruction walks over buffers: rows, bytes in a row, steps between elements."""

from __future__ import annotations

from dataclasses import dataclass

from .machine import Buffer

BLOCK = 32  # bytes: what the Unified Buffer is addressed by, and the least that a DMA engine moves
REPEAT = 256  # bytes: what the vector unit works on in one step


@dataclass(frozen=True, slots=True)
class Rows:
    """`count` runs of `length` elements that lie side by side in every buffer involved; `step` is the largest distance
    of neighbours inside a run, in elements: 1, unless the runs are single elements. `known` is False where a stride is
    not.
    """

    count: int
    length: int
    known: bool

    def bytes(self, bits: int) -> int:
        """Bytes of one run."""
        return -(-self.length * bits // 8)


def sizes(buffer: Buffer, tile: bool) -> tuple[int | None, ...]:
    """The view's sizes; with `tile`, or where they are unknown, those of the tile it is cut from."""
    if tile:
        return tuple(limit if limit is not None else size for size, limit in zip(buffer.shape, buffer.limit))
    return tuple(size if size is not None else limit for size, limit in zip(buffer.shape, buffer.limit))


def rows(buffers: list[Buffer], tile: bool = False) -> Rows | None:
    """The runs that `buffers`, views of one shape, are walked in; None if a size is unknown."""
    shape = sizes(buffers[0], tile)
    if any(size is None for size in shape):
        return None
    length, known, merged = 1, True, len(shape)
    for axis in reversed(range(len(shape))):
        size: int = shape[axis] or 0
        steps = [buffer.strides[axis] if axis < len(buffer.strides) else None for buffer in buffers]
        if size != 1:
            known = known and None not in steps
            if any(step != length for step in steps):
                break
            length *= size
        merged = axis
    count = 1
    for outer in shape[:merged]:
        count *= outer or 0
    return Rows(count, length, known)


def footprint(buffer: Buffer) -> int | None:
    """Bytes that a vector instruction works through to reach all elements of an on-chip view: a whole block for each
    element of a strided row, whole blocks for each row.
    """
    walked = rows([buffer])
    if walked is None:
        return None
    if walked.count == 1:
        return walked.bytes(buffer.element_bits)
    return walked.count * -(-walked.bytes(buffer.element_bits) // BLOCK) * BLOCK
