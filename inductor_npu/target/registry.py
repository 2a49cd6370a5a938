"""The chips that are known by name; the maker of another one adds it with `register_target`."""

from __future__ import annotations

from inductor_npu.target.npu_target import GIB, KIB, NpuTarget

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


register_target(
    NpuTarget(
        name="Ascend910B3",
        cube_cores=20,
        vector_cores=40,
        unified_buffer=192 * KIB,
        l1=512 * KIB,
        l0a=64 * KIB,
        l0b=64 * KIB,
        l0c=128 * KIB,
        memory=64 * GIB,
        memory_bandwidth=1.6e12,
    )
)
