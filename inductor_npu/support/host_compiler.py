"""The C++ compiler of this machine, for code that depends on torch and Python and is therefore built where it runs."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

from inductor_npu.errors import CacheDirectoryError
from inductor_npu.support.user_cache import cache_directory

_MOST_OUTPUT = 4000  # characters of the compiler's words, from the end


class CompilerError(Exception):
    """A compiler could not be started, or did not compile. Whoever runs it says what for."""

    def __init__(self, command: Sequence[str], output: str) -> None:
        super().__init__(output)
        self.command, self.output = command, output


def names() -> list[str]:
    """What is looked for: CXX, where it is set."""
    return [os.environ["CXX"]] if os.environ.get("CXX") else ["c++", "g++", "clang++"]


def find() -> Path | None:
    """The compiler's file, links resolved; None if there is none."""
    found = (shutil.which(name) for name in names())
    return next((Path(path).resolve() for path in found if path), None)


def build_once(library: Path, build: Callable[[], None]) -> Path:
    """`library`, which `build` makes unless it is there. Of several processes one builds and the others wait. Raises
    CacheDirectoryError if its folder cannot be written, and whatever `build` raises.
    """
    if library.exists():
        return library
    import filelock

    try:
        library.parent.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(library.with_suffix(".lock")):
            if not library.exists():
                build()
    except OSError as error:
        raise CacheDirectoryError(directory=cache_directory(), reason=error) from error
    return library


def run_and_rename(command: Sequence[str], target: Path) -> None:
    """Runs `command` with its output in a temporary file, which becomes `target` at once and whole. Raises
    CompilerError.
    """
    temporary = target.with_name(f"{target.name}.{os.getpid()}.tmp")
    command = [*command, "-o", str(temporary)]
    try:
        result = subprocess.run(command, capture_output=True, text=True)
    except OSError as error:
        raise CompilerError(command, str(error)) from error
    if result.returncode != 0 or not temporary.exists():
        temporary.unlink(missing_ok=True)
        raise CompilerError(command, (result.stderr or result.stdout).strip()[-_MOST_OUTPUT:])
    os.replace(temporary, target)


def import_library(name: str, path: Path) -> ModuleType:
    """The extension module called `name` that was built as `path`; it is not in sys.modules. Raises ImportError."""
    loader = importlib.machinery.ExtensionFileLoader(name, str(path))
    spec = importlib.util.spec_from_file_location(name, str(path), loader=loader)
    assert spec is not None, f"{path} is not an extension module"
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module
