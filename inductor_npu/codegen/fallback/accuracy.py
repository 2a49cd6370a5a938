"""Accuracy mode: wraps each kernel of a generated module in a comparison with eager operators.

The comparison runs the kernel's eager stand-in (eager_kernel.py), which would run instead if the kernel did not
compile.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from inductor_npu.codegen.annotations import provenance
from inductor_npu.codegen.fallback import eager_kernel

log = logging.getLogger(__name__)


def compare(
    wrapper: Any, kernel: Any, kernel_name: str, function_name: str, source: str, node_schedule: Sequence[Any]
) -> None:
    """Makes the generated module compare `kernel`, which it defines as `kernel_name`, at each launch.

    `source` is the text of the kernel's own module, in which the kernel is called `function_name`. A kernel without an
    eager stand-in (random numbers, inline assembly) is launched without a comparison.
    """
    operators = eager_kernel.written(kernel, kernel_name)
    if operators is None:
        log.info("kernel %s is not compared: its loops cannot be written as eager operators", kernel_name)
        return
    names = ", ".join(provenance.operators_of(node_schedule))
    lines = tuple(f"{line.file}:{line.line}: {line.text}" for line in provenance.lines_of(node_schedule))
    wrapper.add_import_once("from inductor_npu.runtime.accuracy import ComparedKernel")
    facts = f"{kernel_name!r}, {function_name!r}, {names!r}, {lines!r}, {source!r}, {operators!r}"
    wrapper.define_kernel(kernel_name, f"ComparedKernel({kernel_name}, {facts})")


__all__ = ["compare"]
