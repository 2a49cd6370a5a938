"""The kernels of a package for the embedded NPU: what a launch needs to know of each, and their object code as shared
libraries.

A provider's module of this kind has `packaged`, `members` and `machine`, for export/kernels.py. Kernels are linked
here, with the host's C++ compiler as linker, so that who loads the package needs neither a linker nor LLVM. They find
the functions of the runtime that they call, and the C library's, as any shared library does.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inductor_npu.device import build
from inductor_npu.errors import DeviceBuildError, NoCompilerError, UnpackableError
from inductor_npu.simulator import host_processor
from inductor_npu.simulator.triton_backend.kernel_file import KernelFile
from inductor_npu.support import host_compiler
from inductor_npu.triton_npu.launcher import letters_of

# PyTorch's loader of packages wants a library of this name (torch._inductor.aoti_load_package).
_FIRST_LIBRARY, _OTHER_LIBRARY = "kernels.wrapper.so", "kernels-{}.so"
_FLAGS = ("-shared", "-nostartfiles", "-Wl,-z,now", "-Wl,--build-id=none", "-Wl,--as-needed")


@dataclass(frozen=True)
class PackagedKernel:
    """arguments: letters of _C.KernelLauncher."""

    name: str
    arguments: str
    file: KernelFile


def packaged(name: str, result: Any) -> tuple[list[str], PackagedKernel]:
    """The names of a kernel's arguments at run time, in order, and the kernel. `result`: its TritonCompileResult.

    Raises UnpackableError for a kernel with arguments that the runtime does not take.
    """
    names, letters = _arguments(name, result.compile_meta)
    return names, PackagedKernel(name, letters, KernelFile.unpack(result.kernel.asm["obj"]))


def members(kernels: Sequence[PackagedKernel]) -> tuple[list[dict[str, Any]], dict[str, bytes]]:
    """What the manifest says of the kernels; the files that they are in, by name. Raises NoCompilerError or
    DeviceBuildError.
    """
    places: dict[bytes, str] = {}
    linked: dict[str, bytes] = {}
    for position, objects in enumerate(_without_clashes(kernels)):
        name = _OTHER_LIBRARY.format(position) if position else _FIRST_LIBRARY
        linked[name] = _link(objects)
        places.update(dict.fromkeys(objects.values(), name))
    described = [
        {
            "name": kernel.name,
            "library": places[kernel.file.object_code],
            "entry": kernel.file.entry,
            "arguments": kernel.arguments,
            "scratch_bytes": kernel.file.scratch_bytes,
            "work_per_program": kernel.file.work_per_program,
            "messages": list(kernel.file.messages),
        }
        for kernel in kernels
    ]
    return described, linked


def machine() -> dict[str, object]:
    """What kernels need of the machine that loads them."""
    return host_processor.facts()


def _arguments(kernel: str, meta: Mapping[str, Any]) -> tuple[list[str], str]:
    """Names and letters of the arguments that a kernel's code has; `meta` is what it was compiled with."""
    constants = meta.get("constants", {})
    names, letters = [], []
    for name, type_ in meta["signature"].items():
        letter = "-" if name in constants else letters_of(type_)
        if len(letter) > 1:
            reason = f"kernel {kernel} takes {name} of type {type_}: tuples and tensor descriptors are not supported"
            raise UnpackableError(reason=reason, where="")
        if letter != "-":
            names.append(name)
            letters.append(letter)
    return names, "".join(letters)


def _without_clashes(kernels: Sequence[PackagedKernel]) -> list[dict[str, bytes]]:
    """Object codes by their entry, spread over as few libraries as names allow: kernels of the compile cache may have
    been called alike. There is at least one library.
    """
    libraries: list[dict[str, bytes]] = [{}]
    for kernel in kernels:
        entry, code = kernel.file.entry, kernel.file.object_code
        if any(objects.get(entry) == code for objects in libraries):
            continue
        free = next((objects for objects in libraries if entry not in objects), None)
        if free is None:
            free = {}
            libraries.append(free)
        free[entry] = code
    return libraries


def _link(objects: Mapping[str, bytes]) -> bytes:
    compiler = host_compiler.find()
    if compiler is None:
        raise NoCompilerError(device="the kernels of a package", tried=", ".join(host_compiler.names()))
    runtime = build.runtime_library()
    with tempfile.TemporaryDirectory(prefix="inductor-npu-") as folder:
        files = []
        for position, code in enumerate(objects.values()):
            files.append(Path(folder) / f"{position}.o")
            files[-1].write_bytes(code)
        library = Path(folder) / "kernels.so"
        command = [str(compiler), *_FLAGS, *map(str, files), f"-L{runtime.parent}", f"-l:{runtime.name}", "-lm"]
        try:
            host_compiler.run_and_rename(command, library)
        except host_compiler.CompilerError as error:
            raise DeviceBuildError(
                device="the kernels of a package",
                step="linking them",
                command=" ".join(error.command),
                output=error.output,
            ) from error
        return library.read_bytes()
