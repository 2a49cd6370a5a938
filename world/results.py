"""What a call gives: tensors by name; calls on any device, with copies of a case's model and inputs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from world.case import Built

Results = dict[str, torch.Tensor]  # gradients are named "grad NAME"


def tensors_of(value: Any, path: str = "", into: Results | None = None) -> Results:
    """The tensors in `value`, by their place in it."""
    into = {} if into is None else into
    if isinstance(value, torch.Tensor):
        into[path or "result"] = value
    elif hasattr(value, "items"):
        for key, each in value.items():
            tensors_of(each, f"{path}.{key}", into)
    elif isinstance(value, list | tuple):
        for number, each in enumerate(value):
            tensors_of(each, f"{path}[{number}]", into)
    elif dataclasses.is_dataclass(value):
        for each in dataclasses.fields(value):
            tensors_of(getattr(value, each.name), f"{path}.{each.name}", into)
    return into


def moved(value: Any, device: str | None = None, dtype: torch.dtype | None = None) -> Any:
    """Copies of all tensors in `value` on `device`; those of floating-point dtypes in `dtype`."""

    def move(tensor: torch.Tensor) -> torch.Tensor:
        copy = tensor.detach().clone()
        return copy.to(device=device, dtype=dtype if tensor.is_floating_point() else None)

    return pytree.tree_map_only(torch.Tensor, move, value)


def placed(model: nn.Module, device: str) -> nn.Module:
    """The model on `device`, with tensors that are neither weights nor buffers, such as states kept between calls, and
    with modules that it keeps in lists, which PyTorch does not know.
    """
    waiting, seen = [model], set[nn.Module]()
    for one in waiting:  # grows as it is read
        one.to(device)
        for module in one.modules():
            if module in seen:
                continue
            seen.add(module)
            for name, value in list(vars(module).items()):
                if isinstance(value, torch.Tensor):
                    setattr(module, name, value.to(device))
                elif isinstance(value, list):
                    waiting.extend(each for each in value if isinstance(each, nn.Module))
    return model


def call(function: Callable[..., Any], built: Built, train: bool, seed: int = 0) -> tuple[Results, Any]:
    """Calls with the inputs of `built`, and where `train`, goes backward from a weighted sum of all results. Gradients
    stay in the model. Returns results, and the value that holds them.
    """
    torch.manual_seed(seed)
    with torch.set_grad_enabled(train):
        value = function(*built.args, **built.kwargs)
        results = tensors_of(value)
        if train:
            loss = sum(_weighted(tensor) for tensor in results.values() if _leads_to_weights(tensor))
            loss.backward()  # type: ignore[union-attr]
    return results, value


def collected(results: Results, model: nn.Module) -> Results:
    """Copies of results and gradients on the CPU; the model's gradients are gone afterwards."""
    everything = dict(results)
    for name, weight in model.named_parameters():
        if weight.grad is not None:
            everything[f"grad {name}"] = weight.grad
    copies = {
        name: tensor.detach().to("cpu", copy=True)
        for name, tensor in everything.items()
        if not tensor.is_sparse and not tensor.is_nested
    }
    model.zero_grad(set_to_none=True)
    return copies


def _leads_to_weights(tensor: torch.Tensor) -> bool:
    return tensor.requires_grad and tensor.is_floating_point() and tensor.numel() > 0


def _weighted(tensor: torch.Tensor) -> torch.Tensor:
    """A sum over all elements with weights that every precision has exactly, about as large as one element."""
    weights = (torch.arange(tensor.numel(), device=tensor.device) % 7 - 3).to(tensor.dtype) / 4
    return (tensor.reshape(-1) * weights).sum() / max(1.0, tensor.numel() ** 0.5)
