"""Runs one kernel in the Ascend environment: lowers it, executes it in a child process, compares. See
`run_collected`.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import select
import signal
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from inductor_npu.ascend.execute import comparison, native
from inductor_npu.ascend.execute.agreement import Agreement, Difference, RunVerdict
from inductor_npu.ascend.execute.comparison import ELEMENT_TYPES, ElementType
from inductor_npu.ascend.execute.lowering import CannotExecuteError, Level, Program, lower
from inductor_npu.ascend.execute.memory import Fenced, Fences, Overrun, Placement, permit, reserve
from inductor_npu.ascend.kernel import CollectedKernel, TensorArgument

_ARENA_BYTES = 1 << 31
_ARENA_FENCE = 1 << 33  # what a tile that did not fit may reach
_WORKSPACE_BYTES = 1 << 16


@dataclass(frozen=True)
class _Case:
    """A launch made ready: the kernel's pointer arguments, storages before and after it on the embedded NPU, and their
    types.
    """

    kernel: CollectedKernel
    names: tuple[str, ...]
    before: dict[int, bytes]
    after: dict[int, bytes]
    kinds: dict[int, ElementType]
    owners: dict[int, str]  # the first argument in each storage

    @property
    def programs(self) -> int:
        x, y, z = self.kernel.launch.grid
        return x * y * z


def run_collected(
    kernel: CollectedKernel,
    linalg: str,
    target: str,
    programs: Path,
    folder: Path,
    work: Path,
    seconds: float,
) -> Agreement:
    """Runs `linalg`, which Ascend's front end made of `kernel`, on the inputs of its launch, and compares with what the
    embedded NPU computed (`kernel.launch.data` in `folder`). `programs` holds bishengir-opt, `work` takes intermediate
    files. A run that does not end within `seconds` is given up.

    The middle end's form is run; where its result differs, the front end's is run too, to tell which of the two
    departs. All of it happens in child processes, so that this process never has threads (MLIR's) when it forks.
    """
    start = time.perf_counter()
    toolchain = _Toolchain(target, programs, work, seconds)
    try:
        case = _prepare(kernel, folder)
    except CannotExecuteError as error:
        return _agreement(kernel, RunVerdict.CANNOT_EXECUTE, str(error))
    result = _run_level(case, linalg, Level.MIDDLE_END, toolchain)
    if result.verdict is RunVerdict.CANNOT_EXECUTE:
        earlier = _run_level(case, linalg, Level.FRONT_END, toolchain)
        if earlier.verdict is not RunVerdict.CANNOT_EXECUTE:
            result = replace(
                earlier, message="; ".join(filter(None, (earlier.message, f"front end only: {result.message}")))
            )
    elif result.verdict is RunVerdict.DIFFERS:
        result = _blame(result, _run_level(case, linalg, Level.FRONT_END, toolchain))
    return replace(result, seconds=time.perf_counter() - start)


@dataclass(frozen=True)
class _Toolchain:
    """What lowers: the chip, the folder of bishengir-opt, and one for intermediate files; how long a run may take."""

    target: str
    programs: Path
    work: Path
    seconds: float


def _blame(result: Agreement, earlier: Agreement) -> Agreement:
    departs = {RunVerdict.AGREES: "middle end", RunVerdict.CANNOT_EXECUTE: None}.get(earlier.verdict, "front end")
    said = f"; it is Ascend's {departs} whose work differs" if departs else ""
    return replace(result, departs=departs, message=result.message + said)


def _agreement(kernel: CollectedKernel, verdict: RunVerdict, message: str, **fields: Any) -> Agreement:
    return Agreement(kernel.source.name, kernel.source.key, verdict, message, **fields)


def _prepare(kernel: CollectedKernel, folder: Path) -> _Case:
    launch = kernel.launch
    if launch.data is None:
        raise CannotExecuteError(
            "its inputs were not kept: the program was collected without data, or they were too large"
        )
    path = folder / launch.data
    if not path.is_file():
        raise CannotExecuteError(f"its data {path} is missing")
    source = kernel.source
    names = tuple(
        name for name, kind in source.signature.items() if name not in source.constants and kind != "constexpr"
    )
    if missing := [name for name in names if name not in launch.arguments]:
        raise CannotExecuteError(f"its launch has no value for {', '.join(missing)}")
    before, after, kinds, owners = {}, {}, {}, {}
    with np.load(path) as data:
        for name in names:
            argument = launch.arguments[name]
            if not isinstance(argument, TensorArgument):
                continue
            element = source.signature[name].removeprefix("*").removeprefix("k")
            if element not in ELEMENT_TYPES:
                raise CannotExecuteError(
                    f"argument {name} is a {source.signature[name]}, which Ascend's compiler does not have"
                )
            number = argument.storage
            if number in before:
                continue
            before[number], after[number] = data[f"before_{number}"].tobytes(), data[f"after_{number}"].tobytes()
            kinds[number], owners[number] = ELEMENT_TYPES[element], name
    return _Case(kernel, names, before, after, kinds, owners)


def _run_level(case: _Case, linalg: str, level: Level, toolchain: _Toolchain) -> Agreement:
    """Runs the kernel as it is at `level`. Reading beyond an argument is said, but the rest of the run goes on: lanes
    that a mask leaves out may be read and dropped. Writing there is not excused.
    """
    result = _in_child(case, linalg, level, toolchain, Fences.CLOSED)
    if result.verdict is not RunVerdict.OUT_OF_BOUNDS or result.overruns == "writes":
        return result
    again = _in_child(case, linalg, level, toolchain, Fences.READABLE)
    if again.verdict is RunVerdict.OUT_OF_BOUNDS:
        return again
    return replace(again, message="; ".join(filter(None, (again.message, result.message))), overruns="reads")


def _in_child(case: _Case, linalg: str, level: Level, toolchain: _Toolchain, fences: Fences) -> Agreement:
    """Executes in a process of its own, which may crash, hang or be ended by an access out of bounds."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        try:
            program = lower(linalg, toolchain.target, level, toolchain.programs, toolchain.work)
            answer = _execute(case, program, write, fences)
        except CannotExecuteError as error:
            answer = _agreement(case.kernel, RunVerdict.CANNOT_EXECUTE, str(error), level=level.value)
        except BaseException as error:  # noqa: BLE001  (whatever it is, the child must not go on as its parent)
            said = f"{type(error).__name__}: {error}"
            answer = _agreement(case.kernel, RunVerdict.CANNOT_EXECUTE, f"internal error: {said}"[:400])
        _leave(write, answer)
    os.close(write)
    return _answer_of(case.kernel, child, read, level, toolchain.seconds)


def _leave(pipe: int, answer: Agreement) -> None:
    data = json.dumps(answer.to_json()).encode()
    while data:
        data = data[os.write(pipe, data) :]
    os._exit(0)


def _answer_of(kernel: CollectedKernel, child: int, pipe: int, level: Level, seconds: float) -> Agreement:
    deadline, parts = time.monotonic() + seconds, []
    with os.fdopen(pipe, "rb", buffering=0) as answers:
        while True:
            if not select.select([answers], [], [], max(deadline - time.monotonic(), 0.0))[0]:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                message = f"it did not end within {seconds:.0f} s on the host"
                return _agreement(kernel, RunVerdict.CANNOT_EXECUTE, message, level=level.value)
            part = answers.read(1 << 16)
            if not part:
                break
            parts.append(part)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status == 0 and parts:
        return Agreement.from_json(json.loads(b"".join(parts)))
    how = f"on {signal.Signals(-status).name}" if status < 0 else f"with status {status}"
    return _agreement(kernel, RunVerdict.CANNOT_EXECUTE, f"the process that ran it ended {how}", level=level.value)


def _execute(case: _Case, program: Program, pipe: int, fences: Fences) -> Agreement:
    """In the child: all runs of the kernel, and the comparison."""
    kernel = native.build(program)
    arena = reserve(_ARENA_BYTES + _ARENA_FENCE)
    permit(arena, _ARENA_BYTES)

    def run(kernel: native.NativeKernel, placement: Placement, backwards: bool, seed: int = 0) -> dict[int, bytes]:
        memory = Fenced(case.before, placement, fences)
        current = ctypes.c_int64(-1)

        def report(address: int, access: str) -> None:
            _leave(pipe, _fault(case, program, memory, arena, address, access, current.value))

        _on_fault(report)
        words = _words(case, program, memory, kernel.words)
        _call(kernel, words, case.kernel.launch.grid, backwards, arena, current, seed)
        if overrun := memory.damage():
            _leave(pipe, _overrun(case, program, overrun, "writes", None))
        return {number: memory.contents(number) for number in case.before}

    forwards = run(kernel, Placement.AT_END, backwards=False)
    backwards = run(kernel, Placement.AT_START, backwards=True)
    spread: dict[int, Any] = {}
    if forwards != case.after or backwards != case.after:
        noisy = native.build(program, noisy=True)
        for seed in range(1, comparison.RUNS + 1):
            other = run(noisy, Placement.AT_END, backwards=False, seed=seed)
            for number, data in forwards.items():
                distance = comparison.moved(data, other[number], case.kinds[number])
                if distance is not None:
                    spread[number] = np.maximum(spread[number], distance) if number in spread else distance
    total = sum(len(data) // case.kinds[number].size for number, data in case.after.items())
    for result, order in ((forwards, ""), (backwards, " when its programs run in reverse order")):
        for number, expected in case.after.items():
            mismatch = comparison.compare(expected, result[number], case.kinds[number], spread.get(number))
            if mismatch is not None:
                difference = _difference(case, number, mismatch)
                return _agreement(
                    case.kernel,
                    RunVerdict.DIFFERS,
                    describe(difference) + order,
                    level=program.level.value,
                    difference=difference,
                    elements=total,
                )
    return _agreement(case.kernel, RunVerdict.AGREES, "", level=program.level.value, elements=total)


def _words(case: _Case, program: Program, memory: Fenced, count: int) -> Any:
    """The arguments as the compiled function takes them: five words for a memref, one for a number."""
    if len(case.names) != len(program.parameters):
        raise CannotExecuteError(
            f"its Linalg has {len(program.parameters)} arguments where its launch has {len(case.names)}: "
            f"{', '.join(case.names)}"
        )
    workspace = reserve(_WORKSPACE_BYTES)
    permit(workspace, _WORKSPACE_BYTES)
    words: list[int] = []
    for kind in program.leading:
        words += [workspace, workspace, 0, _WORKSPACE_BYTES, 1] if kind.startswith("memref") else [0]
    for name, kind in zip(case.names, program.parameters):
        value = case.kernel.launch.arguments[name]
        if kind.startswith("memref"):
            if not isinstance(value, TensorArgument):
                raise CannotExecuteError(f"argument {name} is a pointer without a tensor")
            element = case.kernel.source.signature[name].removeprefix("*").removeprefix("k")
            address = memory.starts[value.storage] + value.offset * ELEMENT_TYPES[element].size
            words += [address, address, 0, value.storage_bytes, 1]
        elif isinstance(value, TensorArgument):
            raise CannotExecuteError(f"argument {name} is a tensor, but {kind} in its Linalg")
        else:
            words.append(_word(value, kind))
    if len(words) != count:
        raise CannotExecuteError(f"its compiled function takes {count} words, {len(words)} are known")
    return (ctypes.c_uint64 * count)(*words)


def _word(value: int | float, kind: str) -> int:
    if kind in ("f32", "f64", "f16"):
        packed = struct.pack({"f32": "<f", "f64": "<d", "f16": "<e"}[kind], value)
        return int.from_bytes(packed.ljust(8, b"\0"), "little")
    if kind == "bf16":
        return int.from_bytes(struct.pack("<f", value)[2:].ljust(8, b"\0"), "little")
    return int(value) & 0xFFFF_FFFF_FFFF_FFFF


def _call(
    kernel: native.NativeKernel,
    words: Any,
    grid: tuple[int, int, int],
    backwards: bool,
    arena: int,
    current: Any,
    seed: int,
) -> None:
    launch = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p, *[ctypes.c_int64] * 3, *[ctypes.c_void_p] * 4, ctypes.c_int64])(
        kernel.address
    )
    count = grid[0] * grid[1] * grid[2]
    begin, end, step = (count - 1, -1, -1) if backwards else (0, count, 1)
    sizes = (ctypes.c_int32 * 3)(*grid)
    if count:
        launch(words, begin, end, step, sizes, arena, arena + _ARENA_BYTES, ctypes.addressof(current), seed)


class _SignalAction(ctypes.Structure):
    """struct sigaction of glibc and musl on 64-bit Linux."""

    _fields_ = [
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_uint8 * 128),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    ]


_HANDLER = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
_SA_SIGINFO = 4
_ADDRESS_IN_SIGINFO = 16
_ERROR_IN_UCONTEXT = 192  # x86-64: bit 1 of the page fault's error code says that it was a write
_handlers: list[Any] = []


def _on_fault(report: Callable[[int, str], None]) -> None:
    """Calls `report(address, access)` at an access to memory that is not there; it must end the process. The handler is
    Python: the fault is the running kernel's own, at an instruction that holds none of the interpreter's locks.
    """

    def handle(number: int, info: int, context: int) -> None:
        address = ctypes.c_uint64.from_address(info + _ADDRESS_IN_SIGINFO).value
        access = "accesses"
        if platform.machine() == "x86_64":
            access = "writes" if ctypes.c_uint64.from_address(context + _ERROR_IN_UCONTEXT).value & 2 else "reads"
        report(address, access)

    handler = _HANDLER(handle)
    _handlers.append(handler)  # must live as long as it may be called
    action = _SignalAction(ctypes.cast(handler, ctypes.c_void_p).value, (ctypes.c_uint8 * 128)(), _SA_SIGINFO, None)
    for number in (signal.SIGSEGV, signal.SIGBUS):
        if ctypes.CDLL(None).sigaction(int(number), ctypes.byref(action), None):
            raise OSError("sigaction failed")


def _fault(
    case: _Case, program: Program, memory: Fenced, arena: int, address: int, access: str, current: int
) -> Agreement:
    if arena <= address < arena + _ARENA_BYTES + _ARENA_FENCE:
        message = f"one of its programs needs more than {_ARENA_BYTES >> 20} MiB for its tiles"
        return _agreement(case.kernel, RunVerdict.CANNOT_EXECUTE, message, level=program.level.value)
    overrun = memory.explain(address)
    if overrun is None:
        message = f"program {current} {access} address {address:#x}, which is near none of its arguments"
        return _agreement(case.kernel, RunVerdict.OUT_OF_BOUNDS, message, level=program.level.value, overruns=access)
    return _overrun(case, program, overrun, access, current)


def _overrun(case: _Case, program: Program, overrun: Overrun, access: str, current: int | None) -> Agreement:
    name, kind = case.owners[overrun.storage], case.kinds[overrun.storage]
    argument = case.kernel.launch.arguments[name]
    assert isinstance(argument, TensorArgument)
    elements = len(case.before[overrun.storage]) // kind.size
    index = overrun.offset // kind.size - argument.offset
    who = "it" if current is None else f"program {current}"
    where = f"element {index} of {name}, whose storage ends at element {elements - argument.offset - 1}"
    if index < 0:
        where = f"element {index} of {name}, whose storage begins at element {-argument.offset}"
    return _agreement(
        case.kernel, RunVerdict.OUT_OF_BOUNDS, f"{who} {access} {where}", level=program.level.value, overruns=access
    )


def _difference(case: _Case, number: int, mismatch: comparison.Mismatch) -> Difference:
    name = case.owners[number]
    argument = case.kernel.launch.arguments[name]
    assert isinstance(argument, TensorArgument)
    index = mismatch.first - argument.offset
    return Difference(
        name,
        index,
        _coordinates(index, argument),
        mismatch.expected,
        mismatch.found,
        mismatch.tolerance,
        mismatch.count,
        mismatch.elements,
        mismatch.largest,
    )


def _coordinates(index: int, argument: TensorArgument) -> tuple[int, ...] | None:
    """Where an element is in the tensor that the argument shows; None if it is not in it."""
    rest, coordinates = index, [0] * len(argument.shape)
    for axis in sorted(range(len(argument.shape)), key=lambda axis: -argument.strides[axis]):
        if argument.strides[axis] <= 0 or argument.shape[axis] <= 1:
            continue
        coordinates[axis] = min(rest // argument.strides[axis], argument.shape[axis] - 1)
        rest -= coordinates[axis] * argument.strides[axis]
    return tuple(coordinates) if rest == 0 and index >= 0 else None


def describe(difference: Difference) -> str:
    """One line for a person."""
    where = f" element {difference.index}"
    if difference.coordinates is not None:
        where = f"[{', '.join(map(str, difference.coordinates))}]"
    how_far = "" if difference.largest is None else f", by up to {difference.largest:.6g}"
    return (
        f"{difference.argument}{where} is {difference.expected!r} on the embedded NPU and {difference.found!r} by "
        f"Ascend's compiler (allowed: {difference.tolerance:.3g}); {difference.count} of {difference.elements} "
        f"elements differ{how_far}"
    )
