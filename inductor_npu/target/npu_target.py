"""`NpuTarget`: the facts of one chip that code generation, tiling and the embedded NPU need."""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1024
GIB = 1024**3


@dataclass(frozen=True, slots=True)
class NpuTarget:
    """One chip. Sizes are in bytes, bandwidths in bytes a second; all per device.

    `name` is what the Triton target's `arch` and Ascend's `--target` are called. Facts of the Ascend chips come from
    the target spec that Ascend's compiler prints into the HIVM module, the grid limit from its documentation.
    """

    name: str
    cube_cores: int
    vector_cores: int
    unified_buffer: int
    l1: int
    l0a: int
    l0b: int
    l0c: int
    memory: int
    memory_bandwidth: float
    alignment: int = 32
    burst: int = 512
    max_grid: int = 65535
    vector_bytes: int = 256
    float_types: tuple[str, ...] = ("fp16", "bf16", "fp32")
    integer_types: tuple[str, ...] = ("i1", "i8", "i16", "i32", "i64")

    def __post_init__(self) -> None:
        positive = ("cube_cores", "vector_cores", "unified_buffer", "memory", "alignment", "max_grid", "vector_bytes")
        for field in positive:
            if getattr(self, field) <= 0:
                raise ValueError(f"NpuTarget {self.name!r}: {field} must be positive, got {getattr(self, field)}")
