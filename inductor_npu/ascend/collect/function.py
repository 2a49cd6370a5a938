"""Runs one function of the user's on device `npu`: moved there, compiled, forward and backward."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from inductor_npu.errors import NoExampleInputsError

EXAMPLE_INPUTS = "example_inputs"


def run_with_example_inputs(module: ModuleType, name: str, backward: bool) -> None:
    """Runs `name` (a dotted path) of `module`.

    A function that can be called without arguments is an entry point: it is run as it is. Any other function, and a
    torch.nn.Module, is called as `run_compiled` does, with what `<name>_example_inputs` or `example_inputs` of `module`
    is or returns: a tensor, a tuple of positional or a dictionary of keyword arguments. Raises NoExampleInputsError.
    """
    function: Any = module
    for part in name.split("."):
        function = getattr(function, part)
    if _needs_no_arguments(function):
        function()
        return
    names = (f"{name.replace('.', '_')}_{EXAMPLE_INPUTS}", EXAMPLE_INPUTS)
    found = [getattr(module, candidate) for candidate in names if hasattr(module, candidate)]
    if not found:
        raise NoExampleInputsError(function=name, module=module.__name__, names=" or ".join(names))
    inputs = found[0]() if callable(found[0]) else found[0]
    if isinstance(inputs, Mapping):
        run_compiled(function, (), dict(inputs), backward)
    else:
        run_compiled(function, tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,), {}, backward)


def run_compiled(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], backward: bool = True) -> Any:
    """Calls `function`, compiled, with tensors and modules copied to `npu`: the caller's stay where they are.

    Where the result needs gradients, the sum of its elements is differentiated too, unless `backward` is False: then
    nothing needs gradients. Returns the result.
    """
    import torch
    from torch.utils._pytree import tree_leaves, tree_map

    function = _on_npu(function)
    args, kwargs = tree_map(_on_npu, (args, kwargs))
    compiled = function if hasattr(function, "_torchdynamo_orig_callable") else torch.compile(function)
    with torch.set_grad_enabled(backward):
        result = compiled(*args, **kwargs)
    parts = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    if parts:
        torch.autograd.backward([part.sum() for part in parts])
    torch.npu.synchronize()
    return result


def _on_npu(value: Any) -> Any:
    """A tensor or module on `npu`, a module's method with its module there; anything else as it is."""
    import torch

    if isinstance(value, torch.Tensor):
        moved = value.detach().to("npu")
        return moved.requires_grad_() if value.requires_grad else moved
    if isinstance(value, torch.nn.Module):
        tensors = [*value.parameters(), *value.buffers()]
        return value if all(tensor.device.type == "npu" for tensor in tensors) else copy.deepcopy(value).to("npu")
    owner = getattr(value, "__self__", None)
    if isinstance(owner, torch.nn.Module):
        return getattr(_on_npu(owner), value.__name__)
    return value


def _needs_no_arguments(function: Callable[..., Any]) -> bool:
    import torch

    target = function.forward if isinstance(function, torch.nn.Module) else function
    kinds = inspect.Parameter
    needed = [
        parameter
        for parameter in inspect.signature(target).parameters.values()
        if parameter.default is kinds.empty and parameter.kind not in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD)
    ]
    return not needed
