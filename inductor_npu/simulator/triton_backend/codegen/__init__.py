"""TTIR to vector LLVM IR. `generate` is the entry point; docs/architecture.md, section 5, describes the design.

The rooms, from top to bottom; a module imports from its own room and from those below it:

- `kernel`: the LLVM function: arguments, loop over programs, blocks, control flow;
- `variants`: operations with code of their own;
- `nests`: loop nests over tiles;
- `evaluation`: the value of a tile at a chunk of lanes;
- `emit`: instructions, and `emit/context.py`, the state that all code written for one kernel shares;
- `planning`: what is decided before any text is written;
- `rewriting`: rewrites of the kernel's operations before that;
- `analysis`: facts about its operations and values;
- `forms`: how a value is represented.
"""

from __future__ import annotations

import functools
from typing import Any

from ..mathlib import HostVectors
from ..ttir.ir import Module
from .kernel.function import GeneratedKernel, generate_kernel
from .options import CodegenOptions

__all__ = ["CodegenOptions", "GeneratedKernel", "UnsupportedOperation", "generate", "host_options"]


def generate(module: Module, options: Any = None, grid_limit: int = CodegenOptions.grid_limit) -> GeneratedKernel:
    """LLVM IR for the module's kernel, for this host. `options` has the attributes of CodegenOptions that differ from
    the host's; no launch has more than `grid_limit` programs.

    Changes `module`. Raises UnsupportedOperation, which names operation and source line.
    """
    host = host_options()
    given = {
        name: getattr(options, name)
        for name in (
            *("enable_fp_fusion", "distinct_arguments", "exclusive", "record", "checked"),
            *("vector_bits", "registers"),
        )
        if hasattr(options, name)
    }
    return generate_kernel(module, CodegenOptions(**{**vars(host), "grid_limit": grid_limit, **given}))


@functools.cache
def host_options() -> CodegenOptions:
    """The options that fit this process's CPU."""
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features()
    vectors = HostVectors.of_features(features)
    compresses = bool(features.get("avx512f")) and llvm.llvm_version_info >= (20,)
    return CodegenOptions(
        vector_bits=vectors.bits,
        registers=vectors.registers,
        compresses=compresses,
        bf16_products=vectors.bf16_products,
        int8_products=vectors.int8_products,
    )
