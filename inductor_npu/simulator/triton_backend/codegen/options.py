"""What code depends on besides the kernel."""

from __future__ import annotations

from dataclasses import dataclass

from ..mathlib import HostVectors


@dataclass(frozen=True)
class CodegenOptions:
    """`vector_bits` is the width of the host's vector registers, of which it has `registers`; `compresses` says that it
    moves lanes together by an instruction that LLVM knows.

    `enable_fp_fusion` lets a * b + c round once; `distinct_arguments` says that no two arguments point at the same
    memory, unless it is only read; `exclusive` that nobody else writes, while the kernel runs, what it adds to by
    atomics; `grid_limit` is the largest number of programs of a launch. `record` adds counters (`emit/counters.py`),
    `checked` checks (`emit/checks.py`).
    """

    enable_fp_fusion: bool = True
    distinct_arguments: bool = False
    record: bool = False
    checked: bool = False
    vector_bits: int = 512
    registers: int = 32
    compresses: bool = False
    bf16_products: bool = False
    int8_products: bool = False
    exclusive: bool = False
    grid_limit: int = (1 << 31) - 1

    @property
    def vectors(self) -> HostVectors:
        """The host's vector unit, as mathlib asks for it."""
        return HostVectors(self.vector_bits, self.registers, self.bf16_products, self.int8_products)
