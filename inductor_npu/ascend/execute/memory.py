"""Memory for a kernel's arguments, in which every access outside of them is detected.

Each storage lies between inaccessible pages. A storage is rarely a whole number of pages, so it touches only one of the
two; the other side is a strip of known bytes, which must be unchanged afterwards. A kernel runs with each placement.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
from dataclasses import dataclass
from enum import Enum

_PAGE = mmap.PAGESIZE
_PROT_NONE = 0
_MAP_PRIVATE_ANONYMOUS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
_MAP_FIXED = 0x10
_MAP_NORESERVE = 0x4000  # the same on x86-64 and aarch64 Linux
# Beside the storages. As fp32, fp16 or bf16 it is NaN, as an integer -1: what is read and not dropped shows.
_STRIP = 0xFF
# Far more than a tile, so that an access far beyond a storage still meets a fence and not the next storage.
_FENCE_BYTES = 1 << 26
_READABLE_BYTES = 1 << 24
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class Placement(str, Enum):
    """Which fence a storage touches."""

    AT_END = "end"
    AT_START = "start"


class Fences(Enum):
    """Whether what lies beyond a storage may be read (it holds _STRIP, too), or not even that."""

    CLOSED = 0
    READABLE = 1


@dataclass(frozen=True)
class Overrun:
    """An access outside of a storage: `offset` in bytes from the storage's start (negative: before it)."""

    storage: int
    offset: int


class Fenced:
    """The storages of one launch, filled with `contents`."""

    def __init__(self, contents: dict[int, bytes], placement: Placement, fences: Fences) -> None:
        self._contents = contents
        self._spans: dict[int, tuple[int, int]] = {}  # number -> first and last byte's end of its pages
        self.starts: dict[int, int] = {}
        total = _FENCE_BYTES + sum(_pages(len(data)) + _FENCE_BYTES for data in contents.values())
        base = reserve(total)
        at = base + _FENCE_BYTES
        for number, data in contents.items():
            length = _pages(len(data))
            permit(at, length)
            self._spans[number] = (at, at + length)
            self.starts[number] = at + length - len(data) if placement is Placement.AT_END else at
            if fences is Fences.READABLE:
                _let_read(at - _READABLE_BYTES)
                _let_read(at + length)
            ctypes.memset(at, _STRIP, length)
            ctypes.memmove(self.starts[number], data, len(data))
            at += length + _FENCE_BYTES
        self._range = (base, at)

    def contents(self, number: int) -> bytes:
        """What the storage holds now."""
        return ctypes.string_at(self.starts[number], len(self._contents[number]))

    def damage(self) -> Overrun | None:
        """The first byte written beside a storage, if any."""
        for number, (first, end) in self._spans.items():
            start, length = self.starts[number], len(self._contents[number])
            for low, high in ((first, start), (start + length, end)):
                strip = ctypes.string_at(low, high - low)
                if strip.count(_STRIP) != len(strip):
                    wrong = next(at for at, byte in enumerate(strip) if byte != _STRIP)
                    return Overrun(number, low + wrong - start)
        return None

    def explain(self, address: int) -> Overrun | None:
        """Which storage an access at `address`, in a fence, belongs to: the nearest. None: the address is none of
        ours.
        """
        if not self._range[0] <= address < self._range[1]:
            return None

        def distance(number: int) -> int:
            start = self.starts[number]
            return max(start - address, address - start - len(self._contents[number]), 0)

        number = min(self.starts, key=distance)
        return Overrun(number, address - self.starts[number])


def reserve(length: int) -> int:
    """Address of `length` bytes without access."""
    address = _libc.mmap(None, length, _PROT_NONE, _MAP_PRIVATE_ANONYMOUS | _MAP_NORESERVE, -1, 0)
    if address in (None, ctypes.c_void_p(-1).value):
        raise MemoryError(f"the system gives no {length} bytes of address space")
    return int(address)


def permit(address: int, length: int) -> None:
    """Makes whole pages readable and writable."""
    if length and _libc.mprotect(address, length, mmap.PROT_READ | mmap.PROT_WRITE):
        raise MemoryError(f"the system gives no {length} bytes of memory")


@functools.cache
def _strip_file() -> int:
    """A file in memory that holds _STRIP only."""
    file = os.memfd_create("strip")
    os.write(file, bytes([_STRIP]) * _READABLE_BYTES)
    return file


def _let_read(address: int) -> None:
    """Maps the file of known bytes, read-only."""
    flags = mmap.MAP_SHARED | _MAP_FIXED
    if _libc.mmap(address, _READABLE_BYTES, mmap.PROT_READ, flags, _strip_file(), 0) != address:
        raise MemoryError("the system maps no more memory")


def _pages(length: int) -> int:
    return max(-(-length // _PAGE) * _PAGE, _PAGE)
