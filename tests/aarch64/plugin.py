"""pytest plugin: the embedded NPU takes this machine for an aarch64 one, and its kernels run under emulation.

The rest, from Triton's front end to the device's memory and queues, is this machine's own. A kernel's entry in this
process is a function that sends the memory that its arguments point into to the emulated process.
"""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Mapping
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

from inductor_npu.device.npu.runtime import extension
from inductor_npu.simulator.triton_backend import object_code
from tests.aarch64 import machine
from tests.aarch64.emulator import SCRATCH, Buffer, Call, Pointer, emulator
from tests.simulator.triton_backend import mathlib_harness

_KINDS = "npu_argument_kinds"  # of a kernel's arguments: 1 for a pointer
_SLOT = 8
_POINTER, _NUMBER = ctypes.c_void_p, ctypes.c_int64
_ENTRY = ctypes.CFUNCTYPE(ctypes.c_int32, _POINTER, _NUMBER, _NUMBER, _POINTER, _POINTER, _POINTER)
_GRID_BYTES, _CONTEXT_BYTES = 12, 32
_kept: list[Any] = []  # ctypes' functions, whose addresses are in use until the process ends

_compile_object = object_code.compile_object
# What the emulated process does not do, by a test's name.
_NOT_EMULATED = {
    "test_pointers_are_values": "a pointer that lies in memory is this machine's",
    "test_the_byte_after_the_last_element_is_never_touched": "it lies in memory that the device has not allocated",
    "test_device_print_shows_prefix_and_values": "what a kernel prints is written by the device's C++",
}


def pytest_configure(config: pytest.Config) -> None:
    # An error in `launch` cannot be raised through the device's C++, which called it; pytest hears of it.
    config.addinivalue_line("filterwarnings", "error::pytest.PytestUnraisableExceptionWarning")
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.get_process_triple = lambda: machine.TRIPLE
    llvm.get_host_cpu_name = lambda: machine.CPU
    llvm.get_host_cpu_features = lambda: llvm.targets.FeatureMap(dict.fromkeys(machine.FEATURES, True))
    object_code.compile_object = compile_object
    object_code.load_function = load_function
    mathlib_harness.call = call


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and item.originalname in _NOT_EMULATED:
            item.add_marker(pytest.mark.skip(reason=_NOT_EMULATED[item.originalname]))


def compile_object(ir: str, opt_level: int) -> bytes:
    """As `object_code.compile_object`, with a constant that says which arguments of a kernel are pointers."""
    if "%args" not in ir:
        return _compile_object(ir, opt_level)
    loads = dict(re.findall(r"%args\.(\d+) = getelementptr.*\n\s*%\S+ = load (\w+), ptr %args\.\1\b", ir))
    kinds = "".join(f"\\{loads[str(slot)] == 'ptr':02X}" for slot in range(len(loads)))
    type_ = f"[{len(loads)} x i8]"
    constant = f'@{_KINDS} = constant {{ i64, {type_} }} {{ i64 {len(loads)}, {type_} c"{kinds}" }}'
    return _compile_object(f"{ir}\n{constant}\n", opt_level)


def load_function(code: bytes, entry: str, symbols: Mapping[str, int]) -> int:
    """As `object_code.load_function`: the address of a function of this process."""
    function, kinds = emulator().load(code, entry, _KINDS)

    def launch(args: int, begin: int, end: int, grid: int, scratch: int, context: int) -> int:
        slots = (ctypes.c_uint64 * len(kinds)).from_address(args) if kinds else ()
        buffers = [Buffer(args, _SLOT * len(kinds)), Buffer(grid, _GRID_BYTES), Buffer(context, _CONTEXT_BYTES)]
        relocations = []
        segments = _device_memory()
        for number, (address, is_pointer) in enumerate(zip(slots, kinds)):
            segment = next((segment for segment in segments if address in segment), None)
            if is_pointer and segment is not None:
                if segment not in buffers:
                    buffers.append(segment)
                relocations.append((0, _SLOT * number, Pointer(buffers.index(segment), address - segment.address)))
        arguments = [Pointer(0), begin, end, Pointer(1), SCRATCH, Pointer(2)]
        return emulator().call(function, Call(buffers, arguments, relocations))

    _kept.append(_ENTRY(launch))
    return ctypes.cast(_kept[-1], ctypes.c_void_p).value or 0


def call(code: bytes, *arguments: np.ndarray | int) -> None:
    """As `mathlib_harness.call`."""
    arrays = [argument for argument in arguments if isinstance(argument, np.ndarray)]
    numbers = iter(range(len(arrays)))
    slots = [argument if isinstance(argument, int) else Pointer(next(numbers)) for argument in arguments]
    emulator().call(_loaded(code), Call([Buffer(array.ctypes.data, array.nbytes) for array in arrays], slots))


@functools.cache
def _loaded(code: bytes) -> int:
    return emulator().load(code, "run", _KINDS)[0]


def _device_memory() -> list[Buffer]:
    """Whole segments of the allocator: a block may be freed, and joined to its neighbour, while its kernel waits."""
    snapshot = extension().memory_snapshot()
    return [Buffer(segment["address"], segment["total_size"]) for segment in snapshot]
