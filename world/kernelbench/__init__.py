"""KernelBench's 250 problems (public repository ScalingIntelligence/KernelBench), none of whose files are here.

`problems.py` finds and loads them, `scaling.py` makes them small enough for the embedded NPU.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from world.case import Built
from world.kernelbench import problems, scaling
from world.running import set_training


def members() -> list[str]:
    """`level1/19_ReLU` and so on. Raises FileNotFoundError that says what to do if the problems are not there."""
    return problems.names()


def build(member: str) -> Built:
    """The problem in training mode, as the benchmark has it, but for dropout; scaled so that it takes seconds."""
    path = problems.path_of(member)
    scale = scaling.fitting(path)
    module = problems.load(path, scale.rewrite)
    model, inputs = problems.model_of(module), problems.inputs_of(module)
    set_training(model)

    def made_again(memo: dict[int, Any]) -> nn.Module:
        """A copy whose functions, if it has some of its own, refer to it and not to `model`."""
        other = problems.model_of(module)
        other.load_state_dict(model.state_dict())
        set_training(other)
        return other

    model.__deepcopy__ = made_again
    return Built(model, tuple(inputs), note=scale.text, keeps_mode=True)
