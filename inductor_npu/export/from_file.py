"""The model that a file defines, with example arguments, for the command `inductor-npu package`."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch.utils import _pytree as pytree

from inductor_npu.errors import NoExampleInputsError, NoProgramError, UnpackableError

EXAMPLE_INPUTS, DYNAMIC_SHAPES = "example_inputs", "dynamic_shapes"


@dataclass(frozen=True)
class Model:
    """A module, example arguments, and which of their sizes vary."""

    module: torch.nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    dynamic_shapes: Any


def load_model(program: str, dynamic_batch: bool = False) -> Model:
    """The model that `program`, "path.py::name", names: a torch.nn.Module, or a function or class that makes one
    without arguments. It is put into eval mode.

    `<name>_example_inputs` or `example_inputs` of the file is or returns its example arguments: a tensor, a tuple of
    positional or a dictionary of keyword arguments; `<name>_dynamic_shapes` or `dynamic_shapes`, if there is one, says
    which sizes vary, as for torch.export. `dynamic_batch`: the first size of each tensor varies instead.

    Raises NoProgramError, NoExampleInputsError, UnpackableError, and what the file raises.
    """
    path, separator, name = program.rpartition("::")
    if not separator or not Path(path).is_file():
        raise NoProgramError(name=path or program)
    module = _imported(Path(path))
    if not hasattr(module, name):
        raise UnpackableError(reason=f"{path} has no {name}", where="")
    model = getattr(module, name)
    if not isinstance(model, torch.nn.Module) and callable(model):
        model = model()
    if not isinstance(model, torch.nn.Module):
        reason = f"{name} of {path} is no torch.nn.Module and makes none: it is of type {type(model).__name__}"
        raise UnpackableError(reason=reason, where="")
    args, kwargs = _arguments(module, name)
    shapes = _dynamic_first(model, args, kwargs) if dynamic_batch else _of_file(module, name, DYNAMIC_SHAPES, None)
    return Model(model.eval(), args, kwargs, shapes)


def _imported(path: Path) -> ModuleType:
    sys.path.insert(0, str(path.parent.resolve()))  # as for a script
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise NoProgramError(name=path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _arguments(module: ModuleType, name: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    found = _of_file(module, name, EXAMPLE_INPUTS, None)
    if found is None:
        names = f"{name}_{EXAMPLE_INPUTS} or {EXAMPLE_INPUTS}"
        raise NoExampleInputsError(function=name, module=module.__name__, names=names)
    inputs = found() if callable(found) else found
    if isinstance(inputs, Mapping):
        return (), dict(inputs)
    return (tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)), {}


def _of_file(module: ModuleType, name: str, what: str, otherwise: Any) -> Any:
    return getattr(module, f"{name}_{what}", getattr(module, what, otherwise))


def _dynamic_first(model: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """The first size of each tensor among the arguments, the same for all."""
    batch = torch.export.Dim("batch")

    def of_argument(value: Any) -> Any:
        return {0: batch} if isinstance(value, torch.Tensor) and value.dim() else None

    bound = inspect.signature(model.forward).bind(*args, **kwargs)
    return {name: pytree.tree_map(of_argument, value) for name, value in bound.arguments.items()}
