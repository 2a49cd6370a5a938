"""Optimizers in captures: a step that counts on the CPU is refused. PyTorch refuses it itself for its own devices; for
others it would put the numbers of one step into the graph, and each replay would repeat that step.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from inductor_npu.device.npu.graphs import is_current_stream_capturing


def refuse_steps_that_cannot_be_captured() -> None:
    """From here on a `step()` in a capture raises RuntimeError for an optimizer of parameters of npu that has
    `capturable`, and has it off.
    """
    register_optimizer_step_pre_hook(_check)


def _check(optimizer: torch.optim.Optimizer, arguments: Any, keywords: Any) -> None:
    if torch.compiler.is_compiling() or not is_current_stream_capturing():
        return
    for group in optimizer.param_groups:
        if not group.get("capturable", True) and any(each.device.type == "npu" for each in group["params"]):
            raise RuntimeError(
                f"a step of {type(optimizer).__name__} cannot be captured in a graph: it counts its steps on the CPU, "
                "and every replay would repeat this one. Make the optimizer with capturable=True"
            )
