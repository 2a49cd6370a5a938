"""The versions of torch and Triton that the test suite has passed on, and what is said about others."""

from __future__ import annotations

import warnings
from dataclasses import dataclass


@dataclass(frozen=True)
class TestedRange:
    """The releases from `oldest` to `newest`, both included; patch releases count as their minor release."""

    __test__ = False  # not a pytest class

    package: str
    oldest: tuple[int, int]
    newest: tuple[int, int]
    also: tuple[tuple[int, int], ...] = ()

    def __str__(self) -> str:
        parts = [_spell(version) for version in self.also]
        parts.append(f"{_spell(self.oldest)} to {_spell(self.newest)}" if self.oldest != self.newest else _spell(self.oldest))
        return f"{self.package} {' and '.join(parts)}"


TORCH = TestedRange("torch", oldest=(2, 11), newest=(2, 13))
TRITON = TestedRange("triton", oldest=(3, 6), newest=(3, 6))


def release_of(version: str) -> tuple[int, int] | None:
    """The (major, minor) of a version such as "2.13.0+cpu" or "2.14.0a0+git123"; None where the text does not begin with two numbers."""
    parts = version.split(".")
    if len(parts) < 2 or not parts[0].isdigit() or not parts[1].isdigit():
        return None
    return int(parts[0]), int(parts[1])


def is_too_old(version: str, tested: TestedRange) -> bool:
    """Whether `version` is older than all tested ones. A version that cannot be read is not."""
    release = release_of(version)
    return release is not None and release < tested.oldest and release not in tested.also


def warn_if_untested(version: str, tested: TestedRange) -> bool:
    """Warns, with the tested range and what to do, if `version` of a package lies outside it. Returns whether it is inside."""
    release = release_of(version)
    if release is not None and (tested.oldest <= release <= tested.newest or release in tested.also):
        return True
    age = "older" if is_too_old(version, tested) else "newer"
    consequence = (
        "It is too old for the device `npu`, which stays unavailable."
        if age == "older"
        else "It may work; wrong results or errors in private interfaces are possible."
    )
    warnings.warn(
        f"inductor-npu is tested with {tested}; this is {tested.package} {version}, {age} than that. {consequence} "
        f"Install a tested release ({tested.package}=={_spell(tested.newest)}.*), or set INDUCTOR_NPU_PROVIDER=none to silence this.",
        stacklevel=2,
    )
    return False


def _spell(release: tuple[int, int]) -> str:
    return f"{release[0]}.{release[1]}"
