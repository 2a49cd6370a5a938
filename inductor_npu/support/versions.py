"""Which versions of torch and Triton are tested, and one warning for any other."""

from __future__ import annotations

import functools
import importlib.metadata
import re
import sys
import warnings

from inductor_npu.errors import NpuWarning

TESTED_TORCH = ((2, 11), (2, 15))
# Ascend's, and those of the torch above; what lies between was never tried.
TESTED_TRITON = ((3, 2), (3, 6), (3, 9))
_TRITONS = ("triton-ascend", "triton", "pytorch-triton")


def version_problems(torch_version: str, triton_version: str | None) -> list[str]:
    """What is outside the tested range, one sentence each, saying what to do. `triton_version` is None where Triton
    is not installed. What is newer is tried all the same.
    """
    problems = []
    low, high = TESTED_TORCH
    if not low <= _parse(torch_version) <= high:
        problems.append(
            f"torch {torch_version} is outside the tested range {_text(low)} to {_text(high)}"
            f"{_tried_or_left_alone(_parse(torch_version) > high)}; install torch=={_text(high)}.*"
        )
    ascends, low, high = TESTED_TRITON
    if triton_version is None:
        problems.append(
            f"Triton is not installed, so torch.compile cannot generate code for npu; install triton=={_text(high)}.*"
        )
    elif _parse(triton_version) != ascends and not low <= _parse(triton_version) <= high:
        problems.append(
            f"triton {triton_version} is outside the tested range {_text(low)} to {_text(high)} "
            f"(and Ascend's {_text(ascends)}); install the one that torch {torch_version} asks for"
        )
    return problems


def _tried_or_left_alone(is_newer: bool) -> str:
    return ", and is tried (what does not fit is named)" if is_newer else ", and is left as it is"


def version_of(distribution: str) -> str | None:
    """The version that is installed, None if it is not. Imports nothing."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def installed_tritons() -> dict[str, str]:
    """Versions of all installed distributions that bring `triton`, by name. Of two, the one that was installed last
    has written over the other.
    """
    return {name: version for name in _TRITONS if (version := version_of(name)) is not None}


def installed_triton() -> tuple[str, str] | None:
    """The first of them and its version, None without one."""
    return next(iter(installed_tritons().items()), None)


@functools.cache
def warn_about_versions() -> None:
    """Gives one warning that names the tested range if torch or Triton is outside it."""
    torch_version = sys.modules["torch"].__version__
    triton = installed_triton()
    problems = version_problems(torch_version, triton and triton[1])
    if problems:
        warnings.warn("inductor-npu: " + "; ".join(problems), NpuWarning, stacklevel=2)


def _parse(version: str) -> tuple[int, int]:
    match = re.match(r"(\d+)\.(\d+)", version)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _text(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"
