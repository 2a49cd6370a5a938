"""Lowers a kernel's Linalg, as Ascend's front end made it, to LLVM IR for the host.

    Linalg --(Ascend's own HFusion passes)--> HFusion --(meaning.py)--> linalg, scf, arith --(upstream passes)--> LLVM
    IR

`Level.MIDDLE_END` runs the whole first step. It executes the arithmetic that the chip will do (int32 division through
fp32, functions as polynomials), still on tensors, before memory planning. `Level.FRONT_END` leaves the step out, and
executes the kernel's Linalg. Runs in the Ascend environment (bishengir-opt, and the LLVM of its libtriton).
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from inductor_npu.ascend.execute.elements import UnknownOperationError
from inductor_npu.ascend.execute.meaning import Writer


class Level(str, Enum):
    """How far Ascend's compiler has gone with what is executed."""

    FRONT_END = "front end"
    MIDDLE_END = "middle end"


class CannotExecuteError(Exception):
    """This kernel cannot be executed here; the message says why. No statement about the kernel's correctness."""


@dataclass(frozen=True)
class Program:
    """LLVM IR of a kernel. `parameters` are its arguments' types in MLIR (`memref<?xf32>`, `i32`), from the first that
    the kernel itself has to the last before the grid; `leading` counts the 8-byte words of what comes before (locks,
    workspace).
    """

    entry: str
    ir: str
    parameters: tuple[str, ...]
    leading: tuple[str, ...]
    level: Level


_SECONDS = 60.0
_GRID_ARGUMENTS = 6  # the grid's three sizes and the program's three numbers, at the end
_FRONT_END = ("--convert-linalg-to-hfusion", "--adapt-triton-kernel")
_BUFFERIZE = (
    "--one-shot-bufferize=bufferize-function-boundaries allow-unknown-ops allow-return-allocs-from-loops "
    "function-boundary-type-conversion=identity-layout-map"
)
_UPSTREAM = (
    "--execution-engine-convert-hivm-to-upstream",
    "--convert-elementwise-to-linalg",
    "--empty-tensor-to-alloc-tensor",
    _BUFFERIZE,
    "--canonicalize",
    "--convert-linalg-to-loops",
    "--buffer-loop-hoisting",  # tiles that a loop allocates anew each time would fill the arena
    "--expand-strided-metadata",
    "--lower-affine",
    "--convert-scf-to-cf",
    "--arith-emulate-unsupported-floats=source-types=bf16 target-type=f32",
    "--arith-expand=include-bf16=true",
    "--convert-math-to-llvm",
    "--convert-math-to-libm",
    "--convert-arith-to-llvm",
    "--convert-index-to-llvm",
    "--finalize-memref-to-llvm",
    "--convert-func-to-llvm",
    "--convert-cf-to-llvm",
    "--reconcile-unrealized-casts",
)
_DIALECTS_LEFT = re.compile(r'^\s+(?:%[\w:, ]+ = )?"?((?!llvm\b)[a-z]\w*\.[a-z][\w.]*)', re.M)


def lower(linalg: str, target: str, level: Level, programs: Path, folder: Path) -> Program:
    """LLVM IR of `linalg` for this machine. `programs` holds bishengir-opt; intermediate files go to `folder`.

    Raises CannotExecuteError if a step does not accept the kernel.
    """
    text = _hfusion(linalg, target, level, programs, folder)
    entry, types = _signature(text)
    try:
        text = Writer().rewrite(text)
    except UnknownOperationError as error:
        raise CannotExecuteError(f"{error} has no meaning on the host") from error
    text = _pass(text, _UPSTREAM, _optimiser(target, programs), folder / f"{level.name.lower()}.upstream.mlir")
    if left := sorted(set(_DIALECTS_LEFT.findall(text))):
        raise CannotExecuteError(f"{', '.join(left)} remains after lowering to LLVM")
    first = _leading_arguments(types)
    return Program(entry, _translate(text, folder), types[first:-_GRID_ARGUMENTS], types[:first], level)


def _leading_arguments(types: tuple[str, ...]) -> int:
    """How many arguments the compiler put before the kernel's: an address for synchronisation (middle end), locks,
    workspace.
    """
    return 3 if types[0] == "i64" and types[1:3] == ("memref<?xi8>", "memref<?xi8>") else 2


def _optimiser(target: str, programs: Path) -> Path:
    a5 = programs / "bishengir-opt-a5"
    return a5 if target.startswith(("Ascend950", "Ascend910_95")) and a5.is_file() else programs / "bishengir-opt"


def _hfusion(linalg: str, target: str, level: Level, programs: Path, folder: Path) -> str:
    passes = _FRONT_END
    if level is Level.MIDDLE_END:
        pipeline = "--lower-hfusion-pipeline=enable-triton-kernel-compile=true"
        passes = (f"--hacc-append-device-spec=target={target}", pipeline)
    return _pass(linalg, passes, _optimiser(target, programs), folder / f"{level.name.lower()}.linalg.mlir")


def _pass(text: str, passes: tuple[str, ...], program: Path, path: Path) -> str:
    path.write_text(text)
    try:
        done = subprocess.run(
            [str(program), str(path), *passes], capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise CannotExecuteError(f"{program.name} took more than {_SECONDS:.0f} s") from error
    if done.returncode:
        errors = re.findall(r"error: (.*)", done.stderr)
        words = errors[0] if errors else done.stderr.strip().splitlines()[-1:] or [f"status {done.returncode}"]
        raise CannotExecuteError(f"{program.name}: {words if isinstance(words, str) else words[0]}"[:300])
    return done.stdout


def _signature(text: str) -> tuple[str, tuple[str, ...]]:
    """Name and argument types of the one public function with a body."""
    match = re.search(r"func\.func @(\w+)\((.*)\) attributes", text)
    if not match:
        raise CannotExecuteError("its Linalg has no kernel function")
    types = re.findall(r"%arg\d+: (memref<[^>]*>|\w+)", match[2])
    if len(types) < _GRID_ARGUMENTS + 2:
        raise CannotExecuteError(f"its Linalg's function has {len(types)} arguments, fewer than the compiler adds")
    return match[1], tuple(types)


def _translate(text: str, folder: Path) -> str:
    # The LLVM that comes with triton-ascend; imported here, because only this step needs Triton.
    from triton._C.libtriton import ir, llvm

    path = folder / "kernel.llvm.mlir"
    path.write_text(text)
    context = ir.context()
    ir.load_dialects(context)
    llvm.init_targets()
    try:
        module = ir.parse_mlir_module(str(path), context)
        return str(llvm.to_module(module, llvm.context()))
    except RuntimeError as error:
        raise CannotExecuteError(f"LLVM: {error}"[:300]) from error
