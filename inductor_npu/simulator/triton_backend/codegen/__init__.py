"""TTIR to vector LLVM IR. `generate` is the way in; docs/architecture.md, section 5, tells the design."""

from __future__ import annotations

import functools
from typing import Any

from ..ttir.ir import Module
from .errors import UnsupportedOperation
from .kernel import CodegenOptions, GeneratedKernel, generate_kernel

__all__ = ["CodegenOptions", "GeneratedKernel", "UnsupportedOperation", "generate", "host_options"]


def generate(module: Module, options: Any = None) -> GeneratedKernel:
    """LLVM IR for the module's kernel, for this host. `options` has the attributes of CodegenOptions that differ from
    the host's.

    Changes `module`. Raises UnsupportedOperation, which names operation and source line.
    """
    host = host_options()
    given = {
        name: getattr(options, name)
        for name in ("enable_fp_fusion", "distinct_arguments", "record", "vector_bits", "registers")
        if hasattr(options, name)
    }
    return generate_kernel(module, CodegenOptions(**{**vars(host), **given}))


@functools.cache
def host_options() -> CodegenOptions:
    """The options that fit this process's CPU."""
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features()
    if features.get("avx512f"):
        return CodegenOptions(vector_bits=512, registers=32)
    if features.get("avx"):
        return CodegenOptions(vector_bits=256, registers=16)
    return CodegenOptions(vector_bits=128, registers=32 if features.get("neon") else 16)
