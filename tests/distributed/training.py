"""A model, its data, and what a run of one process at the same global batch makes of it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

STEPS = 3
EXAMPLES = 16


class Model(nn.Sequential):
    """With a forward of its own: Dynamo leaves those of torch's modules alone where they are not the outermost."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self:
            x = layer(x)
        return x


def model() -> nn.Sequential:
    torch.manual_seed(1)
    return Model(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 4))


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    """The global batch, on the CPU."""
    generator = torch.Generator().manual_seed(2)
    return torch.randn(EXAMPLES, 16, generator=generator), torch.randn(EXAMPLES, 4, generator=generator)


def own_part(group: dist.ProcessGroup | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """This rank's examples, on npu."""
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    x, y = batch()
    return x.chunk(size)[rank].npu(), y.chunk(size)[rank].npu()


def optimizer_of(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=0.01)


def plain_descent(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    """Whose steps are in proportion to the gradients: for gradients that are rounded on their way."""
    return torch.optim.SGD(parameters, lr=0.1)


def train(
    module: Callable[[torch.Tensor], torch.Tensor],
    parameters: Iterable[nn.Parameter],
    data: tuple[torch.Tensor, torch.Tensor],
    make_optimizer: Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer] = optimizer_of,
) -> None:
    optimizer = make_optimizer(parameters)
    for _ in range(STEPS):
        optimizer.zero_grad()
        F.mse_loss(module(data[0]), data[1]).backward()
        optimizer.step()


@functools.cache
def expected(
    make_optimizer: Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer] = optimizer_of,
) -> dict[str, torch.Tensor]:
    """The parameters after training in one process, in float64."""
    reference = model().double()
    x, y = batch()
    train(reference, reference.parameters(), (x.double(), y.double()), make_optimizer)
    return {name: parameter.detach() for name, parameter in reference.named_parameters()}


def check(
    module: nn.Module,
    tolerance: float = 2e-5,
    names: Callable[[str], str] = lambda name: name,
    make_optimizer: Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer] = optimizer_of,
) -> None:
    """The parameters of `module`, whatever their placement, are those of one process. `names` gives a parameter's name
    in the model.
    """
    reference = expected(make_optimizer)
    for name, parameter in module.named_parameters():
        value = parameter.detach()
        value = value.full_tensor() if hasattr(value, "full_tensor") else value
        name = names(name.removeprefix("_orig_mod.").removeprefix("module.").removeprefix("_orig_mod."))
        difference = (value.cpu().double() - reference[name]).abs().max()
        assert difference <= tolerance, f"{name}: {difference} away from the reference"
