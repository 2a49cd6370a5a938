"""KernelBench's 250 problems (public repository ScalingIntelligence/KernelBench), none of whose files are here.

`problems.py` finds and loads them, `scaling.py` makes them small enough for the embedded NPU.
"""

from __future__ import annotations

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
    return Built(model, tuple(inputs), note=scale.text, keeps_mode=True)
