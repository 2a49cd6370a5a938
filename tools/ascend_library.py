"""Runs the functions of Ascend's library on the host and records what they ask of the hardware.

The compiler's final IR calls functions of a library that comes with it as LLVM bitcode (`meta_op.aiv.bc`). Which
instructions such a function issues depends on sizes, strides and addresses, hardly ever on data. Here the bitcode is
compiled for the host, with each hardware instruction replaced by a record of itself and each scalar access to on-chip
or device memory counted, and then called. So it can be said, not guessed, which calls are loops over single elements,
and how many vector instructions and repeats the others take.

    python -m tools.ascend_library BITCODE CALLEE...      what each callee can issue, by reading its call graph

tests/ascend/hivm/test_library.py compares inductor_npu/ascend/hivm/guards.py with it.
"""

from __future__ import annotations

import ctypes
import mmap
import re
import sys
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm

PREFIX = "_mlir_ciface_"
RECORDS = 1 << 16
RECORD_WORDS = 6  # instruction, then up to five operands
_DEFINE = re.compile(r'^define .*?@("?[\w.$]+"?)\(')
_CALLED = re.compile(r'@("?[\w.$]+"?)')
_MEMORY = re.compile(r"(= load .*, ptr addrspace\(([16])\) %)|(^\s*store .*, ptr addrspace\(([16])\) %)")


@dataclass(frozen=True)
class View:
    """A memref as the library sees it: sizes and strides in elements, address in bytes, space ub or gm."""

    space: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    address: int = 0
    offset: int = 0


@dataclass
class Trace:
    """What one call did: its instructions in order with their operands, and scalar accesses to memory."""

    instructions: list[tuple[str, tuple[int, ...]]] = field(default_factory=list)
    scalar: int = 0

    @property
    def counts(self) -> Counter[str]:
        return Counter(name for name, _ in self.instructions)


class Library:
    """The functions of one bitcode file, compiled for the host when they are first called."""

    def __init__(self, bitcode: Path) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        text = str(llvm.parse_bitcode(bitcode.read_bytes())).replace("@llvm.hivm.", "@hivm.")
        self._functions: dict[str, list[str]] = {}
        self._declared: dict[str, str] = {}
        self._types: list[str] = []
        self._split(text)
        self._names: list[str] = []
        self._engines: list[object] = []
        self._ub = mmap.mmap(-1, 4 << 20)
        self._gm = mmap.mmap(-1, 1 << 28, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._ub_base = _aligned(self._ub)
        self._gm_base = _aligned(self._gm)

    @property
    def callees(self) -> list[str]:
        """The functions that the compiler's IR can call."""
        return sorted(name[len(PREFIX) :] for name in self._functions if name.startswith(PREFIX))

    def call(self, callee: str, operands: list[View | int | float]) -> Trace:
        """Calls `callee`. Raises KeyError if there is no such function."""
        run, engine = self._compiled(callee)
        keep = []
        slots = (ctypes.c_uint64 * max(len(operands), 1))()
        for index, operand in enumerate(operands):
            if isinstance(operand, View):
                descriptor = self._descriptor(operand)
                keep.append(descriptor)
                slots[index] = ctypes.addressof(descriptor)
            elif isinstance(operand, float):
                ctypes.memmove(ctypes.byref(slots, index * 8), ctypes.byref(ctypes.c_float(operand)), 4)
            else:
                slots[index] = operand & (2**64 - 1)
        count = ctypes.c_int64.from_address(engine.get_global_value_address("record_count"))
        scalar = ctypes.c_int64.from_address(engine.get_global_value_address("scalar_count"))
        count.value = scalar.value = 0
        run(slots)
        words = (ctypes.c_int64 * (RECORDS * RECORD_WORDS)).from_address(engine.get_global_value_address("records"))
        trace = Trace(scalar=scalar.value)
        if count.value > RECORDS:
            raise OverflowError(f"{callee} issues {count.value} instructions, more than {RECORDS}")
        for record in range(count.value):
            first = record * RECORD_WORDS
            trace.instructions.append((self._names[words[first]], tuple(words[first + 1 : first + RECORD_WORDS])))
        return trace

    def instructions(self, callee: str) -> list[str]:
        """The hardware instructions that `callee` can issue, whatever its operands. Raises KeyError."""
        _, declared = self._reached(PREFIX + callee)
        return sorted(name.removeprefix("hivm.") for name in declared if name.startswith("hivm."))

    def parameters(self, callee: str) -> list[str]:
        """The LLVM types of `callee`'s parameters. Raises KeyError."""
        return _parameter_types(self._functions[PREFIX + callee][0])

    # ---- compiling ----

    def _split(self, text: str) -> None:
        current: list[str] | None = None
        for line in text.splitlines():
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
    def _compiled(self, callee: str) -> tuple[Any, Any]:
        name = PREFIX + callee
        reached, declared = self._reached(name)
        body = [*self._types, _RUNTIME.format(words=RECORDS * RECORD_WORDS)]
        for lines in reached.values():
            body += [_define_line(lines[0]), *(_instrumented(line) for line in lines[1:])]
        body += [self._stand_in(function) for function in declared]
        body.append(_entry(name, self._functions[name][0]))
        module = llvm.parse_assembly("\n".join(body))
        module.triple = llvm.get_process_triple()
        target = llvm.Target.from_default_triple().create_target_machine(
            cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=0
        )
        engine = llvm.create_mcjit_compiler(module, target)
        engine.finalize_object()
        self._engines.append(engine)
        run = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(engine.get_function_address("run"))
        return run, engine

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

    def _descriptor(self, view: View) -> ctypes.Array:
        base = (self._ub_base if view.space == "ub" else self._gm_base) + view.address
        rank = len(view.shape)
        return (ctypes.c_int64 * (3 + 2 * rank))(base, base, view.offset, *view.shape, *view.strides)


_RUNTIME = """
@nothing = global [16 x i64] zeroinitializer
@records = global [{words} x i64] zeroinitializer
@record_count = global i64 0
@scalar_count = global i64 0
define void @record(i64 %n, i64 %a, i64 %b, i64 %c, i64 %d, i64 %e) {{
  %count = load i64, ptr @record_count
  %next = add i64 %count, 1
  store i64 %next, ptr @record_count
  %fits = icmp ult i64 %next, 65536
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
        match = re.match(r"\s*(ptr(?: addrspace\(\d\))?|i\d+|float|half|bfloat|double)", part)
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


def _aligned(memory: mmap.mmap) -> int:
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    return -(-address // (1 << 20)) * (1 << 20)


def main(arguments: list[str]) -> None:
    """Prints what the callees named, or all, can issue."""
    library = Library(Path(arguments[0]))
    for callee in arguments[1:] or library.callees:
        print(f"{callee}: {', '.join(library.instructions(callee))}")


if __name__ == "__main__":
    main(sys.argv[1:])
