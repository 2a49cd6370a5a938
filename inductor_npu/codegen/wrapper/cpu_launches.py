"""Comments beside launches of CPU kernels, in graphs that use both `npu` and the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._inductor.utils import get_kernel_metadata
from torch._inductor.virtualized import V

from inductor_npu.codegen.emit import header


def comments(wrapper: Any, call_args: Sequence[Any]) -> list[str]:
    """Returns comments with the user's lines and the operators of the CPU kernel that `wrapper` launches next with
    `call_args`; none for a kernel from a template.
    """
    loops = _loops(call_args)
    if not loops:
        return []
    operators, _ = get_kernel_metadata(loops, wrapper)
    return [*(f"{wrapper.comment} {line}" for line in header.source_lines(loops)), operators]


def _loops(call_args: Sequence[Any]) -> Sequence[Any]:
    """The scheduler's nodes of the CPU kernel that Inductor is completing, if `call_args` are its arguments."""
    backend = V.graph.scheduler.backends.get(torch.device("cpu"))
    group = getattr(backend, "kernel_group", None)  # Inductor's Triton for the CPU has none
    return group.scheduled_nodes if group is not None and group.args.cpp_argdefs()[1] == call_args else []
