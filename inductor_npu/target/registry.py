"""The chips that are known by name; the maker of another one adds it with `register_target`."""

from __future__ import annotations

from inductor_npu.target.ascend import ASCEND_CHIPS
from inductor_npu.target.gpu import GPUS
from inductor_npu.target.npu_target import NpuTarget

_TARGETS: dict[str, NpuTarget] = {}


def register_target(target: NpuTarget) -> NpuTarget:
    """Makes `target` selectable by its name.

    Raises ValueError if another target already has that name.
    """
    known = _TARGETS.setdefault(target.name, target)
    if known != target:
        raise ValueError(f"an NpuTarget named {target.name!r} is already registered with other facts")
    return target


def known_targets() -> list[str]:
    """The names of all registered targets, sorted."""
    return sorted(_TARGETS)


def get_target(name: str) -> NpuTarget:
    """The target called `name`.

    Raises ValueError, naming the known ones, if there is none.
    """
    try:
        return _TARGETS[name]
    except KeyError:
        raise ValueError(f"unknown NPU target {name!r}; known targets: {', '.join(known_targets())}") from None


for _chip in (*ASCEND_CHIPS, *GPUS):
    register_target(_chip)
