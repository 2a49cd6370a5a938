"""Compiles functions of the math library and calls them on NumPy arrays."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable

import numpy as np

from inductor_npu.simulator.triton_backend import object_code
from inductor_npu.simulator.triton_backend.mathlib import Library
from inductor_npu.simulator.triton_backend.mathlib.builder import LLVM_TYPES, llvm_type

NUMPY = {
    "f32": np.float32,
    "f64": np.float64,
    "f16": np.float16,
    "bf16": np.uint16,
    "f8E4M3FN": np.uint8,
    "f8E5M2": np.uint8,
    "i1": np.uint8,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
}


def compile_text(text: str) -> Callable[..., None]:
    """The function `run` of a module: pointers, which are NumPy arrays here, and integers of 64 bits."""
    return functools.partial(call, object_code.compile_object(text, 2))


def call(code: bytes, *arguments: np.ndarray | int) -> None:
    """Calls the function `run` of `code` in this process."""
    prototype = ctypes.CFUNCTYPE(None, *(_type(argument) for argument in arguments))
    prototype(_loaded(code))(*(a if isinstance(a, int) else a.ctypes.data for a in arguments))


def _type(argument: np.ndarray | int) -> type:
    return ctypes.c_int64 if isinstance(argument, int) else ctypes.c_void_p


@functools.cache
def _loaded(code: bytes) -> int:
    return object_code.load_function(code, "run", {})


@functools.cache
def _loop(name: str, elements: tuple[str, ...], lanes: int) -> tuple[Callable[..., None], str]:
    library = Library()
    function = library.function(name, elements, lanes)
    lines = []
    for i, element in enumerate(elements):
        vector = llvm_type(element, lanes)
        lines += [
            f"  %p{i} = getelementptr {LLVM_TYPES[element]}, ptr %x{i}, i64 %start",
            f"  %a{i} = load {vector}, ptr %p{i}, align 1",
        ]
    call = function.call(*(f"%a{i}" for i in range(len(elements))))
    result, stored = function.result_type, "%r"
    if function.result == "i1":
        result, stored = llvm_type("i8", lanes), "%wide"
        lines_after = [f"  %wide = zext {function.result_type} %r to {result}"]
    else:
        lines_after = []
    parameters = ", ".join(f"ptr %x{i}" for i in range(len(elements)))
    out_element = LLVM_TYPES["i8" if function.result == "i1" else function.result]
    text = "\n".join(
        [
            f"define void @run(ptr %out, i64 %n, {parameters}) {{",
            "entry:",
            "  br label %loop",
            "loop:",
            "  %start = phi i64 [ 0, %entry ], [ %next, %loop ]",
            *lines,
            f"  %r = {call}",
            *lines_after,
            f"  %q = getelementptr {out_element}, ptr %out, i64 %start",
            f"  store {result} {stored}, ptr %q, align 1",
            f"  %next = add i64 %start, {lanes}",
            "  %more = icmp slt i64 %next, %n",
            "  br i1 %more, label %loop, label %done",
            "done:",
            "  ret void",
            "}",
            library.text(),
        ]
    )
    return compile_text(text), function.result


def evaluate(name: str, *arguments: np.ndarray, elements: tuple[str, ...] | None = None, lanes: int = 16) -> np.ndarray:
    """The function's value for each element of the arguments; bf16 and fp8 are passed as bits, with `elements`."""
    if elements is None:
        names = {np.dtype(t): e for e, t in NUMPY.items() if e not in ("bf16", "f8E4M3FN", "f8E5M2", "i1")}
        elements = tuple(names[a.dtype] for a in arguments)
    run, result = _loop(name, elements, lanes)
    count = arguments[0].size
    padded_count = -(-count // lanes) * lanes
    padded = [np.concatenate([a, np.ones(padded_count - count, a.dtype)]) for a in arguments]
    out = np.zeros(padded_count, NUMPY[result])
    run(out, padded_count, *padded)
    return out[:count]
