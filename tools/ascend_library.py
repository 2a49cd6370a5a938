"""Runs the functions of Ascend's library on the host and records what they ask of the hardware.

The compiler's final IR calls functions of a library that comes with it as LLVM bitcode (`meta_op.aiv.bc`). The
instructions of such a function depend on sizes, strides and addresses, hardly ever on data. Here the bitcode is
compiled for the host, with each hardware instruction replaced by a record of itself and each scalar access to on-chip
or device memory counted, and then called in a process of its own (tools/host_process.py). This measures, instead of
guessing, which calls are loops over single elements, and how many vector instructions and repeats the others take.

    python -m tools.ascend_library BITCODE CALLEE...      what each callee can issue, by reading its call graph

tests/ascend/hivm/test_library.py compares inductor_npu/ascend/hivm/guards.py with it.
"""

from __future__ import annotations

import platform
import re
import struct
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import llvmlite.binding as llvm

from tools.host_process import RECORD_WORDS, RECORDS, Argument, HostProcess, View

__all__ = ["Library", "Trace", "View"]

PREFIX = "_mlir_ciface_"
# The code must not depend on which host compiles it. The least that has instructions to convert half; what the bare
# architecture lacks, LLVM would call from a library that not every host has.
CPU = {"x86_64": "x86-64-v3"}.get(platform.machine(), "generic")
_CALLED = re.compile(r'@("?[\w.$]+"?)')
_LOCAL = re.compile(r"\s*(%\S+) = alloca (.+), align \d+$")
_MEMORY = re.compile(r"(= load .*, ptr addrspace\(([16])\) %)|(^\s*store .*, ptr addrspace\(([16])\) %)")


@dataclass
class Trace:
    """What one call did: its instructions in order with their operands, and scalar accesses to memory."""

    instructions: list[tuple[str, tuple[int, ...]]] = field(default_factory=list)
    scalar: int = 0

    @property
    def counts(self) -> Counter[str]:
        return Counter(name for name, _ in self.instructions)


class Library:
    """The functions of one bitcode file, compiled for the host when they are first called.

    The host need not know bfloat: nothing computes in it, and its values are passed as the 16 bits that they are.
    """

    def __init__(self, bitcode: Path) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        text = str(llvm.parse_bitcode(bitcode.read_bytes())).replace("@llvm.hivm.", "@hivm.")
        self._functions: dict[str, list[str]] = {}
        self._declared: dict[str, str] = {}
        self._types: list[str] = []
        self._split(text)
        self._names: list[str] = []
        self._host = HostProcess()

    @property
    def callees(self) -> list[str]:
        """The functions that the compiler's IR can call."""
        return sorted(name[len(PREFIX) :] for name in self._functions if name.startswith(PREFIX))

    def call(self, callee: str, operands: Sequence[Argument]) -> Trace:
        """Calls `callee`, on memory that is all zero.

        Raises KeyError if there is no such function, HostCodeError if the call does not come to its end, ValueError if
        an operand does not lie in its memory, and OverflowError if the call issues more instructions than are recorded.
        """
        outcome = self._host.run(callee, self._compiled(callee), operands)
        if outcome.count > RECORDS:
            raise OverflowError(f"{callee} issues {outcome.count} instructions, more than {RECORDS}")
        trace = Trace(scalar=outcome.scalar)
        for instruction, *words in struct.iter_unpack(f"={RECORD_WORDS}q", outcome.words):
            trace.instructions.append((self._names[instruction], tuple(words)))
        return trace

    def instructions(self, callee: str) -> list[str]:
        """The hardware instructions that `callee` can issue, whatever its operands. Raises KeyError."""
        _, declared = self._reached(PREFIX + callee)
        return sorted(name.removeprefix("hivm.") for name in declared if name.startswith("hivm."))

    def parameters(self, callee: str) -> list[str]:
        """The LLVM types of `callee`'s parameters, i16 for bfloat. Raises KeyError."""
        return _parameter_types(self._functions[PREFIX + callee][0])

    # ---- compiling ----

    def _split(self, text: str) -> None:
        current: list[str] | None = None
        for line in text.splitlines():
            if "bfloat" in line:
                line = _without_bfloat(line)
            if line.startswith("define"):
                name = _name(line)
                current = self._functions[name] = [line]
            elif line.startswith("declare"):
                self._declared[_name(line)] = line
            elif (line.startswith("%") and " = type " in line) or line.startswith("@"):
                self._types.append(line)
            elif current is not None:
                current.append(line)
                if line.startswith("}"):
                    current = None

    def _reached(self, name: str) -> tuple[dict[str, list[str]], set[str]]:
        """The functions that `name` can call, itself included: those with a body, and those only declared.

        Raises KeyError if there is no such function.
        """
        if name not in self._functions:
            raise KeyError(name)
        reached: dict[str, list[str]] = {}
        declared: set[str] = set()
        waiting = [name]
        while waiting:
            function = waiting.pop()
            if function in reached or function in declared:
                continue
            if function not in self._functions:
                if function in self._declared:
                    declared.add(function)
                continue
            reached[function] = self._functions[function]
            for line in self._functions[function][1:]:
                if "call " in line:
                    waiting += _CALLED.findall(re.sub(r"!.*$", "", line))
        return reached, declared

    @cache  # noqa: B019 - a library lives as long as the process
    def _compiled(self, callee: str) -> bytes:
        """An object file that defines `run`, which calls `callee`."""
        name = PREFIX + callee
        reached, declared = self._reached(name)
        body = [*self._types, _RUNTIME.format(records=RECORDS, words=RECORDS * RECORD_WORDS)]
        for lines in reached.values():
            body += [_define_line(lines[0]), *(_instrumented(line) for line in lines[1:])]
        body += [self._stand_in(function) for function in declared]
        body.append(_entry(name, self._functions[name][0]))
        module = llvm.parse_assembly("\n".join(body))
        module.triple = llvm.get_process_triple()
        target = llvm.Target.from_default_triple().create_target_machine(cpu=CPU, opt=0)
        return target.emit_object(module)

    def _stand_in(self, name: str) -> str:
        """The definition of a function that the bitcode only declares: a hardware instruction that records itself."""
        line = self._declared[name]
        if name.startswith("llvm."):
            return re.sub(r" #\d+", "", line)
        returned = re.match(r"declare (?:[a-z_]+ )*?(void|i\d+|float|half|ptr(?: addrspace\(\d\))?) @", line)
        result = returned.group(1) if returned else "void"
        types = _parameter_types(line)
        if name not in self._names:
            self._names.append(name)
        body, words = _as_words(types)
        body.append(f"  call void @record(i64 {self._names.index(name)}, {', '.join(f'i64 {word}' for word in words)})")
        if name == "hivm.SBITSET1":
            body += ["  %bit = shl i64 1, %p1", "  %out = or i64 %p0, %bit", "  ret i64 %out"]
        elif name == "hivm.SBITSET0":
            body += ["  %bit = shl i64 1, %p1", "  %mask = xor i64 %bit, -1", "  %out = and i64 %p0, %mask"]
            body.append("  ret i64 %out")
        elif result == "void":
            body.append("  ret void")
        else:
            zero = "null" if result.startswith("ptr") else "0.0" if result in ("float", "half") else "0"
            body.append(f"  ret {result} {zero}")
        parameters = ", ".join(f"{kind} %p{i}" for i, kind in enumerate(types))
        return f"define {result} @{name}({parameters}) {{\n" + "\n".join(body) + "\n}"


_RUNTIME = """
@nothing = constant [16 x i64] zeroinitializer
@records = global [{words} x i64] zeroinitializer
@record_count = global i64 0
@scalar_count = global i64 0
define void @record(i64 %n, i64 %a, i64 %b, i64 %c, i64 %d, i64 %e) {{
  %count = load i64, ptr @record_count
  %next = add i64 %count, 1
  store i64 %next, ptr @record_count
  %fits = icmp ult i64 %count, {records}
  br i1 %fits, label %keep, label %done
keep:
  %first = mul i64 %count, 6
  %p0 = getelementptr i64, ptr @records, i64 %first
  store i64 %n, ptr %p0
  %p1 = getelementptr i64, ptr %p0, i64 1
  store i64 %a, ptr %p1
  %p2 = getelementptr i64, ptr %p0, i64 2
  store i64 %b, ptr %p2
  %p3 = getelementptr i64, ptr %p0, i64 3
  store i64 %c, ptr %p3
  %p4 = getelementptr i64, ptr %p0, i64 4
  store i64 %d, ptr %p4
  %p5 = getelementptr i64, ptr %p0, i64 5
  store i64 %e, ptr %p5
  br label %done
done:
  ret void
}}
define void @scalar_access() {{
  %count = load i64, ptr @scalar_count
  %next = add i64 %count, 1
  store i64 %next, ptr @scalar_count
  ret void
}}
"""


def _name(line: str) -> str:
    return re.search(r'@("?[\w.$]+"?)\(', line).group(1)  # type: ignore[union-attr]


def _parameter_types(line: str) -> list[str]:
    inside = line[line.index("(", line.index("@")) + 1 :]
    inside = inside[: _closing(inside)]
    types = []
    depth = start = 0
    parts = []
    for position, character in enumerate(inside):
        depth += (character in "([{<") - (character in ")]}>")
        if character == "," and depth == 0:
            parts.append(inside[start:position])
            start = position + 1
    parts.append(inside[start:])
    for part in parts:
        match = re.match(r"\s*(ptr(?: addrspace\(\d\))?|i\d+|float|half|double)", part)
        if match:
            types.append(match.group(1))
    return types


def _as_words(types: list[str]) -> tuple[list[str], list[str]]:
    """LLVM code that turns parameters %p0, %p1, ... into 64-bit words, and the names of the words; floats are left
    out.
    """
    code: list[str] = []
    words: list[str] = []
    for i, kind in enumerate(types[: RECORD_WORDS - 1]):
        if kind.startswith("ptr"):
            code.append(f"  %w{i} = ptrtoint {kind} %p{i} to i64")
        elif kind.startswith("i") and kind != "i64":
            code.append(f"  %w{i} = zext {kind} %p{i} to i64")
        words.append(f"%p{i}" if kind == "i64" else f"%w{i}" if kind[0] in "pi" else "0")
    return code, words + ["0"] * (RECORD_WORDS - 1 - len(words))


def _closing(text: str) -> int:
    depth = 1
    for position, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return position
    raise ValueError(text)


def _without_bfloat(line: str) -> str:
    line = re.sub(r"\bbfloat\b", "i16", line)
    return re.sub(r"\b0xR([0-9A-F]{4})\b", lambda bits: str(int(bits[1], 16)), line)


def _define_line(line: str) -> str:
    line = re.sub(r"^define (?:weak_odr |linkonce_odr |weak |internal )?(?:dso_local )?", "define internal ", line)
    return re.sub(r"( comdat(\([^)]*\))?| #\d+| align \d+(?= \{)|personality .*(?= \{))", "", line)


def _instrumented(line: str) -> str:
    line = re.sub(r"(, !\w[\w.]* !\d+)+$| #\d+", "", re.sub(r", !\w[\w.]* !\d+", "", line))
    # The library reads through null where there is no temporary buffer, harmless on the device: null is an empty
    # descriptor here.
    line = re.sub(r"\bptr (noundef )?null\b", "ptr @nothing", line)
    if re.search(r"(icmp \w+|phi|select i1 \S+) ptr (?!addrspace)", line):
        line = re.sub(r"\bnull\b", "@nothing", line)
    if local := _LOCAL.match(line):
        # The library reads the 8 bytes that a narrower number begins (a value for padding): the rest must not vary.
        name, kind = local.groups()
        kind = "i64" if re.fullmatch(r"i\d+|float|half", kind) else kind
        return f"  {name} = alloca {kind}, align 8\n  store {kind} zeroinitializer, ptr {name}"
    if _MEMORY.search(line):
        return line + "\n  call void @scalar_access()"
    return line


def _entry(name: str, define: str) -> str:
    """`run(slots)`: calls a function with arguments that are read from an array of 8-byte slots."""
    lines, arguments = [], []
    for i, kind in enumerate(_parameter_types(define)):
        lines.append(f"  %s{i} = getelementptr i64, ptr %slots, i64 {i}")
        lines.append(f"  %a{i} = load {kind}, ptr %s{i}")
        arguments.append(f"{kind} %a{i}")
    lines.append(f"  call void @{name}({', '.join(arguments)})")
    return "define void @run(ptr %slots) {\n" + "\n".join(lines) + "\n  ret void\n}"


def main(arguments: list[str]) -> None:
    """Prints what the callees named, or all, can issue."""
    library = Library(Path(arguments[0]))
    for callee in arguments[1:] or library.callees:
        print(f"{callee}: {', '.join(library.instructions(callee))}")


if __name__ == "__main__":
    main(sys.argv[1:])
