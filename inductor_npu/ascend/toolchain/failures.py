"""A kernel that the compiler does not accept: the stage, the message, and whether it refused or crashed."""

from __future__ import annotations

import re
import signal
from enum import Enum


class Stage(str, Enum):
    """The part of the compiler that did not accept a kernel."""

    FRONT_END = "front end"
    ADAPTER = "adapter"
    BISHENGIR = "bishengir"


class CompileFailure(Exception):
    """One kernel did not compile. `crashed`: the compiler broke (signal, assertion, no end), rather than refused it."""

    def __init__(self, stage: Stage, message: str, crashed: bool = False, required_bits: int | None = None) -> None:
        super().__init__(message)
        self.stage = stage
        self.message = message
        self.crashed = crashed
        self.required_bits = required_bits


# What the C library prints of an assertion: file, line, function, condition (often followed by `&& "what it means"`).
_ASSERTION = re.compile(r"([\w.-]+\.(?:h|cpp|inc|c)):(\d+): .*?Assertion `(.*)' failed\.")
_FATAL = re.compile(r"^(?:LLVM ERROR|fatal error): .*", re.MULTILINE)
_CRASH = re.compile(r"PLEASE submit a bug report|Stack dump:|Assertion .* failed|LLVM ERROR:|No space left on device")
_DIAGNOSIS = re.compile(r"error: (.*)")
# What is said of a program that used up its processor time.
NO_END = "did not end within its processor time"
# Of on-chip memory: ub, cbuf (L1), cc (L0C), ...
_OVERFLOW = re.compile(r"(\w+) overflow, requires (\d+) bits while (\d+) bits available")
# Lines that only say that another line's error was an error.
_ECHO = re.compile(r"Failed to run|failed to legalize operation 'builtin.module'|^\s*$")
_LENGTH = 400


def overflow_of_unified_buffer(output: str) -> tuple[int, int] | None:
    """The bytes that a kernel's tiles need and those that there are, where bishengir-compile said in `output` that they
    do not fit the Unified Buffer.
    """
    found = [overflow for overflow in _OVERFLOW.finditer(output) if overflow[1] == "ub"]
    return (int(found[-1][2]) // 8, int(found[-1][3]) // 8) if found else None


def failure_of_program(stage: Stage, program: str, status: int | None, output: str) -> CompileFailure:
    """What the exit status (None: unknown, not 0) and the error output of one of the compiler's programs mean."""
    crashed = (status is not None and status < 0) or bool(_CRASH.search(output))
    if overflows := list(_OVERFLOW.finditer(output)):
        last = overflows[-1]  # bishengir-compile tries again with fewer buffers before it gives up
        return CompileFailure(stage, last[0], required_bits=int(last[2]) if last[1] == "ub" else None)
    if crashed:
        return CompileFailure(stage, crash_message(program, status, output), crashed=True)
    errors = [message for message in _DIAGNOSIS.findall(output) if not _ECHO.search(message)]
    message = errors[0] if errors else _last_line(output) or f"{program} failed{_with(status)} and said nothing"
    return CompileFailure(stage, shorten(message))


def crash_message(program: str, status: int | None, output: str) -> str:
    """`program crashed on SIGABRT: what it said`: its last diagnosis before, the assertion that failed."""
    if status == -signal.SIGXCPU:
        return f"{program} {NO_END}"
    diagnoses = _DIAGNOSIS.findall(output)
    words = diagnoses[-1] if diagnoses else ""
    if found := _ASSERTION.search(output):
        place = f"assertion at {found[1]}:{found[2]}"
        words = f"{words} ({place})" if words else f"{found[3]} ({place})"
    elif not words:
        fatal = _FATAL.search(output)
        words = fatal[0] if fatal else _last_line(output)
    return shorten(f"{program} crashed{_with(status)}" + (f": {words}" if words else ""))


def _with(status: int | None) -> str:
    if status is None:
        return ""
    return f" on {signal.Signals(-status).name}" if status < 0 else f" with status {status}"


def shorten(message: str) -> str:
    """`message` on one line of at most 400 characters."""
    line = " ".join(message.split())
    return line if len(line) <= _LENGTH else f"{line[: _LENGTH - 3]}..."


def _last_line(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1] if lines else ""
