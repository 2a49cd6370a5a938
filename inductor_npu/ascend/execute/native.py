"""LLVM IR of a kernel, with the code that it needs around it, as a function in this process.

That code is a loop over the programs of a launch, memory for tiles (from an arena that each program gets afresh), the
copy of strided tiles, and the chip's conversions from float to integer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from inductor_npu.ascend.execute.lowering import CannotExecuteError, Program
from inductor_npu.ascend.execute.noise import round_at_random
from inductor_npu.simulator.triton_backend import object_code

_FLOATS = {"f32": "float", "f16": "half", "bf16": "bfloat", "f64": "double"}
_WORDS = {"ptr": 8, "i64": 8, "i32": 4, "i16": 2, "i8": 1, "i1": 1, "float": 4, "half": 2, "bfloat": 2, "double": 8}

# Strided copies: `memrefCopy(bytes of an element, source, destination)`, both {rank, descriptor} of the same shape.
_COPY = """
define void @memrefCopy(i64 %size, ptr %source, ptr %destination) {
  %rank = load i64, ptr %source
  %sfield = getelementptr i64, ptr %source, i64 1
  %dfield = getelementptr i64, ptr %destination, i64 1
  %s = load ptr, ptr %sfield
  %d = load ptr, ptr %dfield
  %from = call ptr @npu_start(ptr %s, i64 %size)
  %to = call ptr @npu_start(ptr %d, i64 %size)
  %sizes = getelementptr i64, ptr %s, i64 3
  %dsizes = getelementptr i64, ptr %d, i64 3
  %ss = getelementptr i64, ptr %sizes, i64 %rank
  %ds = getelementptr i64, ptr %dsizes, i64 %rank
  call void @npu_copy(i64 %size, i64 %rank, ptr %sizes, ptr %ss, ptr %ds, ptr %from, ptr %to)
  ret void
}
define internal ptr @npu_start(ptr %descriptor, i64 %size) {
  %afield = getelementptr i64, ptr %descriptor, i64 1
  %ofield = getelementptr i64, ptr %descriptor, i64 2
  %aligned = load ptr, ptr %afield
  %offset = load i64, ptr %ofield
  %bytes = mul i64 %offset, %size
  %start = getelementptr i8, ptr %aligned, i64 %bytes
  ret ptr %start
}
define internal void @npu_copy(i64 %size, i64 %rank, ptr %sizes, ptr %ss, ptr %ds, ptr %from, ptr %to) {
  %scalar = icmp eq i64 %rank, 0
  br i1 %scalar, label %element, label %axis
element:
  call void @llvm.memmove.p0.p0.i64(ptr %to, ptr %from, i64 %size, i1 false)
  ret void
axis:
  %count = load i64, ptr %sizes
  %sstride = load i64, ptr %ss
  %dstride = load i64, ptr %ds
  %last = icmp eq i64 %rank, 1
  %sdense = icmp eq i64 %sstride, 1
  %ddense = icmp eq i64 %dstride, 1
  %dense = and i1 %sdense, %ddense
  %some = icmp sgt i64 %count, 0
  %flat = and i1 %last, %dense
  %row = and i1 %flat, %some
  br i1 %row, label %run, label %enter
run:
  %bytes = mul i64 %count, %size
  call void @llvm.memmove.p0.p0.i64(ptr %to, ptr %from, i64 %bytes, i1 false)
  ret void
enter:
  %inner = sub i64 %rank, 1
  %nsizes = getelementptr i64, ptr %sizes, i64 1
  %nss = getelementptr i64, ptr %ss, i64 1
  %nds = getelementptr i64, ptr %ds, i64 1
  %sstep = mul i64 %sstride, %size
  %dstep = mul i64 %dstride, %size
  br label %head
head:
  %i = phi i64 [0, %enter], [%next, %body]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %body, label %done
body:
  %so = mul i64 %i, %sstep
  %do = mul i64 %i, %dstep
  %sp = getelementptr i8, ptr %from, i64 %so
  %dp = getelementptr i8, ptr %to, i64 %do
  call void @npu_copy(i64 %size, i64 %inner, ptr %nsizes, ptr %nss, ptr %nds, ptr %sp, ptr %dp)
  %next = add i64 %i, 1
  br label %head
done:
  ret void
}
declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)
"""

# A tile that does not fit the arena is put at its end, where the first access faults.
_ARENA = """
@npu_arena = internal global ptr null
@npu_arena_end = internal global ptr null
@npu_noise = internal global i64 0
@npu_run = internal global i64 0
define internal ptr @npu_allocate(i64 %bytes) {
  %next = load ptr, ptr @npu_arena
  %end = load ptr, ptr @npu_arena_end
  %address = ptrtoint ptr %next to i64
  %limit = ptrtoint ptr %end to i64
  %left = sub i64 %limit, %address
  %fits = icmp ule i64 %bytes, %left
  %at = select i1 %fits, ptr %next, ptr %end
  %rounded = add i64 %bytes, 63
  %step = and i64 %rounded, -64
  %after = getelementptr i8, ptr %next, i64 %step
  %room = icmp ule i64 %step, %left
  %up = and i1 %fits, %room
  %new = select i1 %up, ptr %after, ptr %end
  store ptr %new, ptr @npu_arena
  ret ptr %at
}
"""


@dataclass(frozen=True)
class NativeKernel:
    """A launch's programs as one C function:

        void npu_launch(uint64_t* words, int64_t begin, int64_t end, int64_t step, int32_t grid[3], uint8_t* arena,
                        uint8_t* arena_end, int64_t* current, int64_t seed)

    runs programs begin, begin + step, ... up to but without `end`, numbered x fastest, and writes each one's number to
    `current` before it starts. `words` are the arguments, one 8-byte word for each of the compiled function's
    parameters before the grid.
    """

    address: int
    words: int


def build(program: Program, noisy: bool = False) -> NativeKernel:
    """The kernel as machine code; `noisy`: with its roundings at random, chosen by the launch's seed (noise.py).

    Raises CannotExecuteError if the host's LLVM does not accept the kernel, or a function that it calls is not there.
    """
    code, words = object_of(program, noisy)
    try:
        return NativeKernel(object_code.load_function(code, "npu_launch", {}), words)
    except object_code.LlvmError as error:
        raise _refused_by_llvm(error) from error


def object_of(program: Program, noisy: bool = False) -> tuple[bytes, int]:
    """The object file that defines `npu_launch`, and how many words it takes (see NativeKernel); `noisy` as in build.

    Raises CannotExecuteError if the host's LLVM does not accept the kernel.
    """
    match = re.search(rf"^define [\w ]*@{re.escape(program.entry)}\(([^)]*)\)", program.ir, re.M)
    if not match:
        raise CannotExecuteError(f"its LLVM IR has no function {program.entry}")
    types = [parameter.split()[0] for parameter in match[1].split(",")]
    text = program.ir.replace("@malloc(", "@npu_allocate(")
    text, divisions = _safe_divisions(text)
    text, noises = round_at_random(text) if noisy else (text, "")
    casts = sorted(set(re.findall(r"@npu_(\w+)_to_(\w+)\(", text)))
    text = re.sub(r"^declare [^\n]*@(?:npu_\w+|memrefCopy|llvm\.memmove\.p0\.p0\.i64)\([^\n]*\n", "", text, flags=re.M)
    text += (
        _COPY + _ARENA + "".join(_cast(*cast) for cast in casts) + divisions + noises + _launch(program.entry, types)
    )
    try:
        return object_code.compile_object(text, 1), len(types) - 6
    except object_code.LlvmError as error:
        raise _refused_by_llvm(error) from error


def _refused_by_llvm(error: object_code.LlvmError) -> CannotExecuteError:
    return CannotExecuteError(f"LLVM on this machine: {error}"[:300])


_DIVISION = re.compile(r"= (sdiv|udiv|srem|urem)(?: exact)? (i\d+) ([^,\n]+), (%[\w.]+)")


def _safe_divisions(text: str) -> tuple[str, str]:
    """Divisions by what is not a constant as functions that do not trap (lanes that a mask leaves out may divide by
    zero), and those functions: x / 0 is 0, x % 0 is x, the least number divided by -1 wraps, as on the embedded NPU.
    """
    used: set[tuple[str, str]] = set()

    def replace(match: re.Match[str]) -> str:
        used.add((match[1], match[2]))
        return f"= call {match[2]} @npu_{match[1]}_{match[2]}({match[2]} {match[3]}, {match[2]} {match[4]})"

    text = _DIVISION.sub(replace, text)
    return text, "".join(_division(*kind) for kind in sorted(used))


def _division(operation: str, kind: str) -> str:
    remainder = operation.endswith("rem")
    of_zero, of_minus_one = ("%x", "0") if remainder else ("0", "%negated")
    signed = operation.startswith("s")
    return f"""
define internal {kind} @npu_{operation}_{kind}({kind} %x, {kind} %y) alwaysinline {{
  %zero = icmp eq {kind} %y, 0
  %minus = icmp eq {kind} %y, {-1 if signed else 0}
  %either = or i1 %zero, %minus
  %safe = select i1 %either, {kind} 1, {kind} %y
  %negated = sub {kind} 0, %x
  %q = {operation} {kind} %x, %safe
  %r = select i1 %minus, {kind} {of_minus_one}, {kind} %q
  %s = select i1 %zero, {kind} {of_zero}, {kind} %r
  ret {kind} %s
}}
"""


def _cast(source: str, result: str) -> str:
    kind = _FLOATS[source]
    return (
        f"define internal {result} @npu_{source}_to_{result}({kind} %x) alwaysinline {{\n"
        f"  %wide = fpext {kind} %x to double\n"
        f"  %r = call {result} @llvm.fptosi.sat.{result}.f64(double %wide)\n"
        f"  ret {result} %r\n}}\n"
    )


def _launch(entry: str, types: list[str]) -> str:
    if any(kind not in _WORDS for kind in types):
        raise CannotExecuteError(f"an argument of type {next(kind for kind in types if kind not in _WORDS)}")
    loads, arguments = [], []
    for number, kind in enumerate(types[:-6]):
        loads.append(f"  %p{number} = getelementptr i64, ptr %words, i64 {number}")
        loads.append(f"  %a{number} = load {kind}, ptr %p{number}")
        arguments.append(f"{kind} %a{number}")
    for name in ("gx", "gy", "gz"):
        arguments.append(f"i32 %{name}")
    for name in ("x", "y", "z"):
        arguments.append(f"i32 %{name}")
    loaded = "\n".join(loads)
    passed = ", ".join(arguments)
    return f"""
define void @npu_launch(ptr %words, i64 %begin, i64 %end, i64 %step, ptr %grid, ptr %arena, ptr %limit,
                        ptr %current, i64 %seed) {{
  %gyp = getelementptr i32, ptr %grid, i64 1
  %gzp = getelementptr i32, ptr %grid, i64 2
  %gx = load i32, ptr %grid
  %gy = load i32, ptr %gyp
  %gz = load i32, ptr %gzp
  %wx = sext i32 %gx to i64
  %wy = sext i32 %gy to i64
{loaded}
  store ptr %limit, ptr @npu_arena_end
  store i64 %seed, ptr @npu_noise
  store i64 %seed, ptr @npu_run
  br label %head
head:
  %i = phi i64 [%begin, %0], [%next, %body]
  %done = icmp eq i64 %i, %end
  br i1 %done, label %out, label %body
body:
  store volatile i64 %i, ptr %current
  store ptr %arena, ptr @npu_arena
  %lx = urem i64 %i, %wx
  %row = udiv i64 %i, %wx
  %ly = urem i64 %row, %wy
  %lz = udiv i64 %row, %wy
  %x = trunc i64 %lx to i32
  %y = trunc i64 %ly to i32
  %z = trunc i64 %lz to i32
  call void @{entry}({passed})
  %next = add i64 %i, %step
  br label %head
out:
  ret void
}}
"""
