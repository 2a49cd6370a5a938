"""`NpuTarget`: the facts of one chip that code generation, tiling and the embedded NPU need."""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1024
GIB = 1024**3


@dataclass(frozen=True, slots=True)
class NpuTarget:
    """One chip. Sizes are in bytes, bandwidths in bytes a second; all per device.

    `name` is what the Triton target's `arch` and Ascend's `--target` are called. `memory` and `memory_bandwidth` are
    None where no source says them. `alignment`, `max_grid` and `vector_bytes` are what Ascend's documentation says of
    the 910B.
    """

    name: str
    cube_cores: int
    vector_cores: int
    unified_buffer: int
    l1: int
    l0a: int
    l0b: int
    l0c: int
    memory: int | None = None
    memory_bandwidth: float | None = None
    alignment: int = 32
    max_grid: int = 65535
    vector_bytes: int = 256
    float_types: tuple[str, ...] = ("fp16", "bf16", "fp32")

    def __post_init__(self) -> None:
        positive = ("cube_cores", "vector_cores", "unified_buffer", "memory", "alignment", "max_grid", "vector_bytes")
        for field in positive:
            value = getattr(self, field)
            if value is not None and value <= 0:
                raise ValueError(f"NpuTarget {self.name!r}: {field} must be positive, got {value}")
