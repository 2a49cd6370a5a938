"""Functions of another processor, called from here: their memory goes to an emulated process and comes back."""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
import struct
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.aarch64 import machine

_LOAD, _CALL = range(2)
_numbers = itertools.count()


@dataclass(frozen=True)
class Buffer:
    """Memory of this process that a function may read and write: an address and a number of bytes."""

    address: int
    size: int

    def __contains__(self, address: int) -> bool:
        return self.address <= address < self.address + self.size

    def view(self) -> memoryview:
        return memoryview((ctypes.c_char * self.size).from_address(self.address)).cast("B")


@dataclass(frozen=True)
class Pointer:
    """An argument that points `offset` bytes into the buffer of this number."""

    buffer: int
    offset: int = 0


SCRATCH = Pointer(-2)  # memory of the emulated process, behind whose end nothing may be touched


@dataclass
class Call:
    """A call's memory and arguments. `relocations`: (buffer, offset of a pointer in it, where that points); what is in
    such a buffer does not come back.
    """

    buffers: list[Buffer]
    arguments: Sequence[Pointer | int]
    relocations: list[tuple[int, int, Pointer]] = field(default_factory=list)


class Emulator:
    """An emulated process. Its methods may be called by any thread, one at a time."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [*machine.emulator(), str(machine.runner())], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._lock = threading.Lock()

    def load(self, object_code: bytes, entry: str, constant: str) -> tuple[int, bytes]:
        """Links `object_code`. Returns the address of `entry` there, and the bytes of its constant {i64 length,
        [length x i8]}, none if it has none of that name. Raises RuntimeError.
        """
        stem = machine.BUILT / f"{os.getpid()}-{next(_numbers)}"
        source, library = stem.with_suffix(".o"), stem.with_suffix(".so")
        source.write_bytes(object_code)
        machine.compile_cpp(library, "-shared", str(source), "-lm")
        with self._lock:
            self._send(_LOAD, str(library), entry, constant)
            address = self._number()
            found = self._receive(self._number())
        source.unlink()
        library.unlink()
        if address == 0:
            raise RuntimeError(f"the object code does not load, or has no {entry}")
        return address, found

    def call(self, function: int, call: Call) -> int:
        """Calls the function at this address, brings the buffers back, and returns its result of 32 bits."""
        with self._lock:
            self._send(_CALL, function, len(call.buffers))
            for buffer in call.buffers:
                self._send(buffer.size)
                self._input.write(buffer.view())
            self._send(len(call.relocations))
            for buffer, offset, target in call.relocations:
                self._send(buffer, offset, target.buffer, target.offset)
            self._send(len(call.arguments))
            for argument in call.arguments:
                if isinstance(argument, Pointer):
                    self._send(argument.buffer, argument.offset)
                else:
                    self._send(-1, argument)
            result = self._number()
            relocated = {number for number, _, _ in call.relocations}
            for number, buffer in enumerate(call.buffers):
                received = self._receive(buffer.size)
                if number not in relocated:
                    buffer.view()[:] = received
            return result - (1 << 32) if result >= 1 << 31 else result

    @property
    def _input(self):
        assert self._process.stdin is not None
        return self._process.stdin

    def _send(self, *values: int | str) -> None:
        for value in values:
            if isinstance(value, str):
                self._input.write(struct.pack("<q", len(value.encode())) + value.encode())
            else:
                self._input.write((value & (1 << 64) - 1).to_bytes(8, "little"))

    def _number(self) -> int:
        return int.from_bytes(self._receive(8), "little")

    def _receive(self, count: int) -> bytes:
        self._input.flush()
        assert self._process.stdout is not None
        received = self._process.stdout.read(count)
        if len(received) < count:
            raise RuntimeError(f"the emulated process ended with status {self._process.wait()}")
        return received


@functools.cache
def emulator() -> Emulator:
    """This process's."""
    return Emulator()
