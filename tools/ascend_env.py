"""The environment of Ascend's compiler, as `make ascend-env` makes it: which Pythons can have it, and what is in it.

`python tools/ascend_env.py supported`, run by the Python for the environment, ends with a message if the compiler has
no wheels for it. `python tools/ascend_env.py ready`, run in the environment, makes the compiler's programs executable
and prints one line that names the contents.
"""

from __future__ import annotations

import platform
import sys
import sysconfig
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

# triton-ascend 3.2.0 has wheels for Python 3.9 to 3.11, ascendnpu-ir 1.2.0 for 3.10 and later.
PYTHONS = ((3, 10), (3, 11))
MACHINES = ("x86_64", "aarch64")
PACKAGES = ("torch", "triton-ascend", "ascendnpu-ir", "inductor-npu")
PROGRAMS = ("ascendnpuir/bin", "triton/backends/ascend")


def unsupported() -> str | None:
    """Why this Python cannot have Ascend's compiler, and what to do instead; None if it can."""
    machines, pythons = " and ".join(MACHINES), " and ".join(".".join(map(str, python)) for python in PYTHONS)
    if sys.platform != "linux" or platform.machine() not in MACHINES:
        return f"Ascend's compiler exists for Linux on {machines}; this is {sys.platform} on {platform.machine()}"
    if sys.implementation.name != "cpython" or sys.version_info[:2] not in PYTHONS:
        this = f"{platform.python_implementation()} {platform.python_version()}"
        return (
            f"triton-ascend 3.2.0 exists for CPython {pythons}; this is {this}. Run: make ascend-env PYTHON=python3.11"
        )
    return None


def make_programs_runnable(packages: Path) -> list[str]:
    """Sets the run bits of the compiler's programs below `packages` (a site-packages folder), for an installer that
    drops them; returns the programs' names.
    """
    programs = []
    for folder in PROGRAMS:
        for path in sorted((packages / folder).iterdir()):
            if path.is_file() and not path.suffix and _is_elf(path):
                path.chmod(path.stat().st_mode | 0o111)
                programs.append(path.name)
    return programs


def _is_elf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def summary(programs: list[str]) -> str:
    """One line: the Python, the packages' versions and the programs."""
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    return f"Python {platform.python_version()}, {packages}; {', '.join(programs)}"


def _has_upstream_triton() -> bool:
    try:
        version("triton")
    except PackageNotFoundError:
        return False
    return True


def main(arguments: list[str]) -> int:
    """Runs the command named in `arguments`; returns the exit status."""
    if arguments == ["supported"]:
        if problem := unsupported():
            print(problem, file=sys.stderr)
            return 1
        return 0
    if arguments == ["ready"]:
        if _has_upstream_triton():
            print("triton and triton-ascend share one folder; remove the environment and make it anew", file=sys.stderr)
            return 1
        print(f"{Path(sys.prefix).name}: {summary(make_programs_runnable(Path(sysconfig.get_paths()['purelib'])))}")
        return 0
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
