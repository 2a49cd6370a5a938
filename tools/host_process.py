"""A process that runs object code of the host and survives its crashes: a crash is an error, not the end.

The object code defines `run(slots)`, which takes its arguments from an array of 8-byte slots, and the globals
`records`, `record_count` and `scalar_count`, which it fills (tools/ascend_library.py writes such code). It sees the
same memory at each call and in each process: on-chip and device memory at fixed addresses, all zero, between
inaccessible pages.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import signal
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

import llvmlite.binding as llvm

RECORDS = 1 << 16
RECORD_WORDS = 6  # instruction, then up to five operands
SECONDS = 120  # a call takes far less than one: after this time it hangs
WIDEST = 8  # bytes of the widest element

_GUARD = 1 << 20  # bytes on each side of a memory that may not be touched
_SPACES = {"ub": (0x40_0000_0000, 4 << 20), "gm": (0x41_0000_0000, 1 << 28)}  # address and bytes
# Of Linux, for mmap(2), mprotect(2) and madvise(2).
_PROT_NONE, _PROT_READ_WRITE = 0, 3
_MAP_PRIVATE, _MAP_ANONYMOUS, _MAP_NORESERVE, _MAP_FIXED_NOREPLACE = 0x02, 0x20, 0x4000, 0x100000
_MADV_DONTNEED = 4


class HostCodeError(RuntimeError):
    """Code of the host could not be run, or did not come to its end."""


@dataclass(frozen=True)
class View:
    """A memref as the library sees it: sizes and strides in elements, address in bytes, space ub or gm."""

    space: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    address: int = 0
    offset: int = 0

    @property
    def descriptor(self) -> tuple[int, ...]:
        """The words of the memref. Raises ValueError if it does not lie in its memory."""
        base, size = _SPACES[self.space]
        steps = [(extent - 1) * stride for extent, stride in zip(self.shape, self.strides) if extent > 0]
        lowest = self.offset + sum(step for step in steps if step < 0)
        highest = self.offset + sum(step for step in steps if step > 0) + 1
        if self.address + lowest * WIDEST < 0 or self.address + highest * WIDEST > size:
            raise ValueError(f"{self} does not lie in the {size} bytes of {self.space}")
        base += self.address
        return (base, base, self.offset, *self.shape, *self.strides)


Argument = View | int | float


@dataclass(frozen=True)
class Outcome:
    """What a call left behind: how many records it wanted to make, the words of those kept, the scalar accesses."""

    count: int
    words: bytes
    scalar: int


@dataclass(frozen=True)
class _Unresolved:
    """The symbols that object code asks of the host and the host does not have."""

    symbols: list[str]


class HostProcess:
    """Runs object code, each under a name, in a child process that is started anew after a crash."""

    def __init__(self) -> None:
        self._process: BaseProcess | None = None
        self._connection: Connection | None = None
        self._loaded: set[str] = set()

    def run(self, name: str, code: bytes, arguments: Sequence[Argument]) -> Outcome:
        """Calls `run` of the object code `code`, an ELF file, known as `name`.

        Raises HostCodeError if the code crashes, hangs, or needs a symbol that this host does not have, and ValueError
        if an argument does not lie in its memory.
        """
        slots = [_slot(argument) for argument in arguments]
        connection = self._started()
        try:
            connection.send((name, None if name in self._loaded else code, slots))
            if not connection.poll(SECONDS):
                raise HostCodeError(f"{name} did not end in {SECONDS} s; arguments: {list(arguments)}")
            answer = connection.recv()
        except (EOFError, ConnectionError) as end:
            raise HostCodeError(f"{name} ended its process: {self._death()}; arguments: {list(arguments)}") from end
        except BaseException:
            self.stop()  # a late answer would be taken for that of the next call
            raise
        if isinstance(answer, _Unresolved):
            raise HostCodeError(f"{name} needs what this host does not have: {', '.join(answer.symbols)}")
        self._loaded.add(name)
        return answer

    def stop(self) -> None:
        """Ends the child process, if there is one."""
        if self._process is not None and self._connection is not None:
            self._process.kill()
            self._process.join()
            self._connection.close()
        self._process, self._connection = None, None
        self._loaded = set()

    def _started(self) -> Connection:
        if self._connection is None:
            # Not forked: the threads of the parent would not come along, their locks would.
            context = multiprocessing.get_context("spawn")
            self._connection, theirs = context.Pipe()
            self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
            self._process.start()
            theirs.close()
        return self._connection

    def _death(self) -> str:
        assert self._process is not None
        self._process.join()
        code = self._process.exitcode
        assert code is not None
        self.stop()
        return signal.Signals(-code).name if code < 0 else f"exit status {code}"


def _slot(argument: Argument) -> int | tuple[int, ...]:
    """The 8 bytes of a number as an unsigned integer, or the words of a memref, whose address is passed."""
    if isinstance(argument, View):
        return argument.descriptor
    if isinstance(argument, float):
        return struct.unpack("=I", struct.pack("=f", argument))[0]
    return argument & (2**64 - 1)


# ---- in the child ----


def _serve(connection: Connection) -> None:
    """Answers each (name, object code if new, slots) with an Outcome or _Unresolved, until the other end is closed."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    for address, size in _SPACES.values():
        _map(address, size)
    engines: dict[str, Any] = {}
    while True:
        try:
            name, code, slots = connection.recv()
        except EOFError:
            return
        if code is not None:
            # MCJIT takes zero for the address of a symbol that it does not find; the call would then crash.
            if missing := [symbol for symbol in _undefined(code) if llvm.address_of_symbol(symbol) is None]:
                connection.send(_Unresolved(missing))
                continue
            engines[name] = _linked(code)
        connection.send(_call(engines[name], slots))


def _linked(code: bytes) -> Any:
    target = llvm.Target.from_default_triple().create_target_machine()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return engine


def _call(engine: Any, slots: list[int | tuple[int, ...]]) -> Outcome:
    for address, size in _SPACES.values():
        _system("madvise", address, size, _MADV_DONTNEED)  # reads as zero again
    keep = []
    values = (ctypes.c_uint64 * max(len(slots), 1))()
    for index, slot in enumerate(slots):
        if isinstance(slot, tuple):
            keep.append((ctypes.c_int64 * len(slot))(*slot))
            slot = ctypes.addressof(keep[-1])
        values[index] = slot
    count = ctypes.c_int64.from_address(engine.get_global_value_address("record_count"))
    scalar = ctypes.c_int64.from_address(engine.get_global_value_address("scalar_count"))
    count.value = scalar.value = 0
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(engine.get_function_address("run"))(values)
    kept = min(count.value, RECORDS) * RECORD_WORDS * 8
    return Outcome(count.value, ctypes.string_at(engine.get_global_value_address("records"), kept), scalar.value)


def _undefined(code: bytes) -> list[str]:
    """The symbols that a relocatable ELF file of 64 bits refers to and does not define."""
    # Elf64_Ehdr: offset of the sections at 0x28, their number at 0x3c.
    (start,) = struct.unpack_from("=Q", code, 0x28)
    (number,) = struct.unpack_from("=H", code, 0x3C)
    # Elf64_Shdr: name, type (2: symbols), flags, address, offset, size, link, info, alignment, size of an entry.
    sections = list(struct.iter_unpack("=IIQQQQIIQQ", code[start : start + 64 * number]))
    found = []
    for _, kind, _, _, offset, size, link, _, _, _ in sections:
        if kind != 2:
            continue
        names = sections[link][4]
        # Elf64_Sym: name, info, other, section (0: undefined), value, size.
        for name, _, _, section, _, _ in struct.iter_unpack("=IBBHQQ", code[offset : offset + size]):
            if section == 0 and name:
                found.append(code[names + name : code.index(b"\0", names + name)].decode())
    return found


def _map(address: int, size: int) -> None:
    """Maps `size` bytes at `address`, between guards. Raises OSError if something else is there."""
    flags = _MAP_PRIVATE | _MAP_ANONYMOUS | _MAP_NORESERVE | _MAP_FIXED_NOREPLACE
    start, whole = address - _GUARD, size + 2 * _GUARD
    mapped = _system("mmap", start, whole, _PROT_NONE, flags, -1, 0)
    if mapped != start:  # Linux before 4.17 takes the address for a wish
        raise OSError(f"mmap gave {mapped:#x} for {start:#x}")
    _system("mprotect", address, size, _PROT_READ_WRITE)


def _system(name: str, *arguments: int) -> int:
    """Calls a function of the C library that takes addresses and sizes. Raises OSError if it returns -1."""
    function = ctypes.CDLL(None, use_errno=True)[name]
    function.restype = ctypes.c_ssize_t if name == "mmap" else ctypes.c_int
    result = function(*(ctypes.c_ssize_t(argument) for argument in arguments))
    if result == -1:
        raise OSError(ctypes.get_errno(), name)
    return result
