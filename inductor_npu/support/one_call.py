"""One call of a user's function or module with example arguments, which leaves as few traces as possible. Used by
`inductor_npu.warmup` and `inductor_npu.explain`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils import _pytree as pytree

from inductor_npu.errors import NoGradientError


def call(function: Callable[..., Any], examples: Sequence[Any], keywords: Mapping[str, Any], backward: bool) -> None:
    """Calls `function`, with `backward` also the backward pass of all results that need a gradient.

    Raises what the call raises; NoGradientError if there is nothing to go backward through.
    """
    result = function(*examples, **keywords)
    if not backward:
        return
    outputs = [value for value in pytree.tree_leaves(result) if isinstance(value, torch.Tensor) and value.requires_grad]
    if not outputs:
        raise NoGradientError(function=name_of(function))
    torch.autograd.backward(outputs, [torch.ones_like(value) for value in outputs])


@contextmanager
def undone(function: Callable[..., Any], tensors: Sequence[torch.Tensor]) -> Iterator[None]:
    """Gives back gradients, the module's buffers and the states of random number generators, as they were before."""
    module = module_of(function)
    buffers = [] if module is None else [(buffer, buffer.detach().clone()) for buffer in module.buffers()]
    leaves = [tensor for tensor in tensors if tensor.is_leaf and tensor.requires_grad]
    gradients = [(leaf, leaf.grad) for leaf in leaves]
    generators = [(device, torch.get_device_module(device).get_rng_state(device)) for device in devices_of(tensors)]
    of_host = torch.get_rng_state()
    for leaf in leaves:
        leaf.grad = None
    try:
        yield
    finally:
        for leaf, gradient in gradients:
            leaf.grad = gradient
        with torch.no_grad():
            for buffer, content in buffers:
                buffer.copy_(content)
        for device, state in generators:
            torch.get_device_module(device).set_rng_state(state, device)
        torch.set_rng_state(of_host)


def devices_of(tensors: Iterable[torch.Tensor]) -> list[torch.device]:
    """Where `tensors` are, beside the host."""
    return [
        device for device in dict.fromkeys(tensor.device for tensor in tensors) if device.type not in ("cpu", "meta")
    ]


def tensors_of(function: Callable[..., Any], examples: object) -> list[torch.Tensor]:
    """The tensors among `examples`, and the parameters and buffers of `function` if it is a module."""
    module = module_of(function)
    state = [] if module is None else [*module.parameters(), *module.buffers()]
    return [*state, *(value for value in pytree.tree_leaves(examples) if isinstance(value, torch.Tensor))]


def module_of(function: Callable[..., Any]) -> torch.nn.Module | None:
    """The module that a call of `function` runs, as its user wrote it; None for other functions."""
    inner = unwrapped(function)
    owner = inner if isinstance(inner, torch.nn.Module) else getattr(inner, "__self__", None)
    return owner if isinstance(owner, torch.nn.Module) else None


def unwrapped(function: Callable[..., Any]) -> Any:
    """What was given to torch.compile."""
    inner = getattr(function, "_orig_mod", None)  # of a module
    return inner if inner is not None else getattr(function, "_torchdynamo_orig_callable", function)


def name_of(function: Callable[..., Any]) -> str:
    """What a call of `function` runs, as `module.name`."""
    inner = unwrapped(function)
    named = inner if hasattr(inner, "__qualname__") else type(inner)
    return f"{named.__module__}.{named.__qualname__}"


def is_compiled(function: Callable[..., Any]) -> bool:
    """Whether torch.compile made `function`, or its module was compiled in place."""
    return unwrapped(function) is not function or getattr(function, "_compiled_call_impl", None) is not None
