"""The module that loads and runs packages on an Ascend NPU (docs/export.md): package_runtime and csrc/packages.cpp."""

from __future__ import annotations

import functools
import threading
from pathlib import Path
from types import ModuleType

import torch_npu

from inductor_npu import package_runtime, providers
from inductor_npu.errors import NoCompilerError, PackageRuntimeBuildError
from inductor_npu.support import cpp_objects, host_compiler
from inductor_npu.support.user_cache import cache_directory

_MODULE = "inductor_npu.ascend_chip._packages"
_HERE = Path(__file__).parent / "csrc"
_SOURCE = _HERE / "packages.cpp"
_FLAGS = ("-O2", "-std=c++20", "-fPIC", "-pthread", "-fvisibility=hidden", "-Wall", "-DTORCH_EXTENSION_NAME=_packages")
_LIBRARIES = ("c10", "torch_cpu", "torch", "torch_python")

_load_lock = threading.Lock()


def runtime() -> ModuleType:
    """The module with the class Package, built first if need be. Raises NoCompilerError, PackageRuntimeBuildError or
    CacheDirectoryError if it must be built and cannot be.
    """
    with _load_lock:
        return _loaded()


@functools.cache
def _loaded() -> ModuleType:
    module = host_compiler.import_library(_MODULE, _library())
    module.set_target(providers.current_target().name)
    return module


def _library() -> Path:
    compiler = host_compiler.find()
    if compiler is None:
        raise NoCompilerError(device="what loads packages", tried=", ".join(host_compiler.names()))
    compilation = _compilation(compiler)
    sources = [_SOURCE, *sorted(package_runtime.SOURCES.rglob("*.cpp"))]
    objects = [compilation.object_of(source) for source in sources]
    name = cpp_objects.digest([torch_npu.__version__.encode(), *(path.name.encode() for path in objects)])
    library = cache_directory() / "packages" / name / "_packages.so"

    def build() -> None:
        try:
            made = cpp_objects.compile_all([(compilation, source) for source in sources])
            flags = [f"-L{_torch_npu() / 'lib'}", "-ltorch_npu", "-ldl"]
            cpp_objects.link(compiler, made, library, _LIBRARIES, flags)
        except host_compiler.CompilerError as error:
            raise PackageRuntimeBuildError(command=" ".join(error.command), output=error.output) from error

    return host_compiler.build_once(library, build)


def _compilation(compiler: Path) -> cpp_objects.Compilation:
    of_npu = _torch_npu() / "include"
    return cpp_objects.Compilation(
        compiler,
        flags=(*_FLAGS, *cpp_objects.torch_flags()),
        headers=(_HERE, package_runtime.SOURCES, package_runtime.INCLUDES),
        includes=(*cpp_objects.torch_includes(), of_npu, cpp_objects.python_includes()),
        kept=cache_directory() / "packages" / f"objects-{torch_npu.__version__}",
    )


def _torch_npu() -> Path:
    return Path(torch_npu.__file__).parent
