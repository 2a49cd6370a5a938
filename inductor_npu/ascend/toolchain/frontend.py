"""Ascend's front end: a kernel's text to TTIR to Linalg, by the installed `triton` (triton-ascend) itself.

This is what `triton.compile` does there up to the stage `ttadapter`, without a chip, a driver or Triton's cache.
"""

from __future__ import annotations

import ast
import importlib.util
import itertools
import linecache
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import triton
import triton.language as tl
from triton._C.libtriton import ir
from triton.backends.ascend import compiler as ascend
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, CompilationError

from inductor_npu.ascend.kernel import KernelSource
from inductor_npu.ascend.toolchain.failures import CompileFailure, Stage, failure_of_program, shorten
from inductor_npu.ascend.toolchain.families import family_of
from inductor_npu.ascend.toolchain.libdevice import LIBDEVICE, ascend_libdevice

_module_numbers = itertools.count()
# Ascend's backend then asks triton-adapter-opt for locations, so that findings can name the kernel's lines.
os.environ["TRITON_DISABLE_LINE_INFO"] = "false"


@dataclass(frozen=True)
class TritonIR:
    """A kernel's TTIR after Triton's passes: as text, and as what the next stage takes."""

    text: str
    module: Any
    options: Any
    metadata: dict[str, Any]


def to_ttir(source: KernelSource, target: str, folder: Path) -> TritonIR:
    """TTIR of `source` for the chip `target`. Writes kernel.py and kernel.ttir into `folder`.

    Raises CompileFailure if the kernel's module does not load or Triton does not accept the kernel.
    """
    backend = ascend.AscendBackend(GPUTarget("npu", target, 0))
    options = backend.parse_options({**family_of(target).options, **source.options})
    metadata = {**options.__dict__, "target": backend.target, "hash": source.key}
    dump = folder / "kernel.ttir"
    with _loaded(source, folder / "kernel.py") as function:
        module = _make_ttir(source, function, backend, options, metadata, dump)
    dump.write_text(str(module))
    return TritonIR(_without_places(str(module), folder), module, options, metadata)


def to_linalg(ttir: TritonIR, folder: Path) -> str:
    """Linalg of `ttir` by triton-adapter-opt, as bishengir-compile takes it. Writes kernel.mlir into `folder`.

    Raises CompileFailure if the adapter does not accept the kernel.
    """
    try:
        text = ascend.ttir_to_linalg(ttir.module, ttir.metadata, ttir.options, named_ops=True)
    except subprocess.CalledProcessError as error:
        output = (error.stderr or b"").decode(errors="replace")
        (folder / "command.txt").write_text(f"{_readable(error.cmd)}\n")
        raise failure_of_program(Stage.ADAPTER, "triton-adapter-opt", error.returncode, output) from error
    # Takes out the attribute `mix_mode`, which bishengir-compile does not know.
    linalg = _without_places(ascend._parse_linalg_metadata(text, ttir.metadata)[0], folder)
    (folder / "kernel.mlir").write_text(linalg)
    return linalg


def _without_places(text: str, folder: Path) -> str:
    """IR whose locations name files as `kernel.py` and `torch/...`: the same on every machine and in every run."""
    return text.replace(f"{folder}{os.sep}", "").replace(f"{Path(triton.__file__).parents[1]}{os.sep}", "")


def _readable(command: Sequence[str]) -> str:
    """The adapter's command as one gives it in the folder of kernel.ttir: its input and output are temporary files."""
    program, _, *options = command
    options[options.index("-o") + 1] = "kernel.mlir"
    return shlex.join([Path(program).name, "kernel.ttir", *options])


def _make_ttir(
    source: KernelSource, function: Any, backend: Any, options: Any, metadata: dict[str, Any], dump: Path
) -> Any:
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    modules = {**backend.get_module_map(), LIBDEVICE: ascend_libdevice()}
    try:
        ast_source = ASTSource(
            fn=function,
            signature=source.signature,
            constants={name: _constant(value) for name, value in source.constants.items()},
            attrs=_attributes(source, function),
        )
        module = ast_source.make_ir(options, backend.get_codegen_implementation(), modules, context)
        dump.write_text(str(module))  # what a crash of the passes below was given
        return ascend.make_ttir(module, metadata, options)
    except CompilationError as error:
        raise CompileFailure(Stage.FRONT_END, _explain(error, source)) from error
    except (OSError, MemoryError):
        raise  # says nothing of the kernel
    except Exception as error:
        # Triton's code generator and its passes raise anything; all of it is about this kernel.
        raise CompileFailure(Stage.FRONT_END, shorten(f"{type(error).__name__}: {error}")) from error


@contextmanager
def _loaded(source: KernelSource, path: Path) -> Iterator[Any]:
    """The kernel of `source` as Triton's function, loaded from a file at `path`."""
    path.write_text(source.text)
    name = f"_kernel_{next(_module_numbers)}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None, f"{path} is not a Python file"
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            where = f"the kernel's module does not load in Triton {triton.__version__}"
            raise CompileFailure(Stage.FRONT_END, shorten(f"{where}: {type(error).__name__}: {error}")) from error
        yield _function(module, source)
    finally:
        del sys.modules[name]
        linecache.cache.pop(str(path), None)


def _function(module: ModuleType, source: KernelSource) -> Any:
    function = getattr(module, source.name, None)
    while function is not None and not isinstance(function, triton.JITFunction):  # @autotune and @heuristics wrap it
        function = getattr(function, "fn", None)
    if function is None:
        raise CompileFailure(Stage.FRONT_END, f"the kernel's module has no @triton.jit function {source.name!r}")
    given = {*source.signature, *source.constants}
    if missing := [name for name in function.arg_names if name not in given]:
        message = f"neither a type nor a value is given for the arguments {', '.join(missing)} of {source.name}"
        raise CompileFailure(Stage.FRONT_END, message)
    return function


def _attributes(source: KernelSource, function: Any) -> Any:
    divisible = [function.arg_names.index(name) for name in source.divisible if name not in source.constants]
    properties = {"tt.divisibility": divisible, "tt.equal_to": []}
    return ascend.AscendAttrsDescriptor.from_dict({"arg_properties": properties, "cls": "AscendAttrsDescriptor"})


def _constant(value: Any) -> Any:
    """A constant of KernelSource as Triton takes it: `tl.dtype` values come as their names."""
    if isinstance(value, str) and value.startswith("tl."):
        return getattr(tl, value.removeprefix("tl."), value)
    return value


def _explain(error: CompilationError, source: KernelSource) -> str:
    """`kernel.py:12: y = libdevice.fmod(x, 2.0): what is wrong`, of the innermost function that the error is in."""
    while isinstance(error.__cause__, CompilationError):
        error = error.__cause__
    message = _said(error)
    line = getattr(error.node, "lineno", None)
    if error.src is None or line is None:
        return shorten(message)
    text = error.src.splitlines()[line - 1].strip()
    first = source.text.find(error.src)
    place = f"kernel.py:{source.text.count(chr(10), 0, first) + line}" if first >= 0 else f"line {line} of a helper"
    return shorten(f"{place}: {text}: {message}")


def _said(error: CompilationError) -> str:
    """The error's own words. Triton keeps the `repr` of the exception that it met: `ValueError('words')`."""
    message = error.error_message or type(error).__name__
    called = re.fullmatch(r"\w+\((.*?),?\)", message, re.DOTALL)
    if called is None:
        return message
    try:
        words = ast.literal_eval(called[1])
    except (SyntaxError, ValueError):
        return message
    return words if isinstance(words, str) else message
