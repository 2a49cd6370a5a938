"""TTIR to vector LLVM IR. `generate` is the way in; docs/architecture.md, section 5, tells the design."""

from __future__ import annotations

import functools
from typing import Any

from ..mathlib import HostVectors
from ..ttir.ir import Module
from .errors import UnsupportedOperation
from .kernel import CodegenOptions, GeneratedKernel, generate_kernel

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
    return CodegenOptions(vector_bits=vectors.bits, registers=vectors.registers, compresses=compresses)
