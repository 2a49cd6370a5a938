"""A case: a model with inputs that stand for what a user runs, and the names of cases."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

TRAINING = ":train"
_LARGEST = 1e4  # weights beyond are memory that was never written, or a mask's


@dataclass
class Built:
    """A model on the CPU, and one call's arguments. `note`: in what size it was made. `keeps_mode`: it runs in the mode
    in which it is, else in eval mode, or where it trains, in training mode without dropout.
    """

    model: nn.Module
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    note: str = ""
    keeps_mode: bool = False


def names_of(library: str, members: Iterable[str]) -> Iterator[str]:
    """The names of a library's cases: `library/member`, and for a third of them `library/member:train` too, whose
    results are outputs and gradients. A name decides alone whether it trains, whatever else the library has.
    """
    for member in members:
        name = f"{library}/{member}"
        yield name
        if place(name, 3) == 0:
            yield name + TRAINING


def place(name: str, places: int) -> int:
    """A place of the name in 0..places-1, the same in every process and in every year."""
    return zlib.crc32(name.encode()) % places


def stirred(model: nn.Module, scale: bool = False) -> nn.Module:
    """The model in eval mode; weights that are all zero or constant, not finite, or too small to show in the results
    get other values. `scale`: matrices whose deviation is below half of 1/sqrt(columns) are scaled to it.
    """
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for weight in model.parameters():
            uninitialised = isinstance(weight, nn.UninitializedParameter)
            if uninitialised or not weight.is_floating_point() or weight.dim() == 0 or weight.numel() < 2:
                continue
            noise = torch.randn(weight.shape, generator=generator)
            if not torch.isfinite(weight).all() or weight.abs().max() > _LARGEST:
                weight.copy_(0.05 * noise)
            deviation = weight.std()
            if weight.dim() == 1:
                if deviation < 1e-6:
                    weight.add_(0.05 * noise)
            elif deviation < 1e-6:
                weight.add_(noise / math.sqrt(max(1, weight[0].numel())))
            elif scale and deviation < 0.5 / math.sqrt(weight[0].numel()):
                weight.mul_(1 / math.sqrt(weight[0].numel()) / deviation)
    return model.eval()
