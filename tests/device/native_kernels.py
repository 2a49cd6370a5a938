"""Tiny kernels in the embedded NPU's kernel ABI, for tests that need no Triton compiler; on a GPU, those of
`gpu_kernels`.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import llvmlite.binding as llvm
import torch

from inductor_npu import providers
from inductor_npu.device import build
from tests.device import gpu_kernels

# Each body runs once a program, whose number is %p; %args, %scratch and %context are the parameters of the ABI. It ends
# by branching to %next, or by returning the number of a device_assert.
_KERNEL = """
declare i32 @usleep(i32)
declare i64 @pthread_self()
define i32 @kernel(ptr %args, i64 %begin, i64 %end, ptr %grid, ptr %scratch, ptr %context) {{
entry:
  br label %head
head:
  %p = phi i64 [ %begin, %entry ], [ %after, %next ]
  %more = icmp slt i64 %p, %end
  br i1 %more, label %body, label %done
body:
{body}
next:
  %after = add i64 %p, 1
  br label %head
done:
  ret i32 0
}}
"""

_BODIES = {
    "nothing": "br label %next",
    # args: int64 output; output[p] = p + args[1]
    "iota": """
  %out = load ptr, ptr %args
  %shift_slot = getelementptr i64, ptr %args, i64 1
  %shift = load i64, ptr %shift_slot
  %value = add i64 %p, %shift
  %place = getelementptr i64, ptr %out, i64 %p
  store i64 %value, ptr %place
  br label %next""",
    # args: microseconds
    "sleep": """
  %micros = load i32, ptr %args
  call i32 @usleep(i32 %micros)
  br label %next""",
    # args: int64 output; output[p] = the host thread that ran program p, a millisecond each
    "thread_of_program": """
  %out = load ptr, ptr %args
  %thread = call i64 @pthread_self()
  %place = getelementptr i64, ptr %out, i64 %p
  store i64 %thread, ptr %place
  call i32 @usleep(i32 1000)
  br label %next""",
    # args: number of the program that fails the second assert
    "assert_not": """
  %bad = load i64, ptr %args
  %failed = icmp eq i64 %p, %bad
  br i1 %failed, label %fail, label %next
fail:
  store i64 %p, ptr %context
  ret i32 2""",
    # args: int64 output; output[p] = address of the scratch memory; writes its last byte
    "scratch_address": """
  %out = load ptr, ptr %args
  %last = getelementptr i8, ptr %scratch, i64 99999
  store i8 1, ptr %last
  %address = ptrtoint ptr %scratch to i64
  %place = getelementptr i64, ptr %out, i64 %p
  store i64 %address, ptr %place
  br label %next""",
    # counts as a record variant does: 8 bytes read and 4 written a program
    "count": """
  %read_slot = getelementptr i64, ptr %context, i64 1
  %read = load i64, ptr %read_slot
  %read_now = add i64 %read, 8
  store i64 %read_now, ptr %read_slot
  %written_slot = getelementptr i64, ptr %context, i64 2
  %written = load i64, ptr %written_slot
  %written_now = add i64 %written, 4
  store i64 %written_now, ptr %written_slot
  br label %next""",
    # args: 8-byte slots; copies `copied_slots` of them to the int64 output behind them
    "copy_slots": """
  %out_slot = getelementptr i64, ptr %args, i64 {copied_slots}
  %out = load ptr, ptr %out_slot
  call void @llvm.memcpy.p0.p0.i64(ptr %out, ptr %args, i64 {copied_bytes}, i1 false)
  br label %next""",
}

_engines: list[Any] = []  # keep the code alive


@cache
def _compile(body: str, copied_slots: int) -> int:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    text = _BODIES[body].replace("{copied_slots}", str(copied_slots)).replace("{copied_bytes}", str(8 * copied_slots))
    declaration = "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)\n"
    module = llvm.parse_assembly(declaration + _KERNEL.format(body=text))
    machine = llvm.Target.from_default_triple().create_target_machine()
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    _engines.append(engine)
    return engine.get_function_address("kernel")


def register(
    body: str,
    name: str = "",
    scratch_bytes: int = 0,
    work_per_program: int = 1,
    messages: tuple[str, ...] = (),
    copied_slots: int = 0,
) -> int:
    """A function handle of the kernel with that body; on a GPU, the test is skipped where there is none."""
    if providers.current_provider() is providers.CUDA:
        return gpu_kernels.load(body, name or body)
    return build.load().register_kernel(
        name or body, _compile(body, copied_slots), scratch_bytes, work_per_program, list(messages)
    )


def launch(
    function: int,
    signature: str,
    *args: Any,
    grid: tuple[int, int, int] = (1, 1, 1),
    stream: torch.Stream | None = None,
) -> None:
    """Launches `function` as Triton would, on `stream` (default: the current one)."""
    handle = build.load().get_raw_stream(-1) if stream is None else stream.native_handle
    build.load().KernelLauncher(signature)(*grid, handle, function, None, None, None, None, *args)


def sleep(milliseconds: float, stream: torch.Stream | None = None) -> None:
    """Keeps `stream` busy."""
    launch(register("sleep"), "i", int(milliseconds * 1000), stream=stream)
