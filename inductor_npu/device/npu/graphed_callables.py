"""`make_graphed_callables`: functions and modules whose forward and backward passes are captured graphs, with
torch.cuda's semantics. Several of one call share a memory pool and must run in the order in which they were given.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from inductor_npu.device.npu.devices import synchronize
from inductor_npu.device.npu.graphs import NPUGraph, PoolId, graph, graph_pool_handle
from inductor_npu.device.npu.streams import Stream, StreamContext

_Tensors = tuple[torch.Tensor, ...]
_Callable = Callable[..., Any]


@dataclass
class _Passes:
    """The captured passes of one callable: graphs, and the tensors that they read and write."""

    arguments: int  # how many of `inputs` the caller passes; the rest are parameters
    inputs: _Tensors
    forward: NPUGraph
    backward: NPUGraph
    outputs: _Tensors = ()
    structure: pytree.TreeSpec | None = None
    of_outputs: tuple[torch.Tensor | None, ...] = ()  # gradients that come in
    of_inputs: tuple[torch.Tensor | None, ...] = ()  # gradients that go out

    def differentiable_inputs(self) -> _Tensors:
        return tuple(tensor for tensor in self.inputs if tensor.requires_grad)


def make_graphed_callables(
    callables: _Callable | tuple[_Callable, ...],
    sample_args: tuple[Any, ...],
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: PoolId | None = None,
) -> Any:
    """Callables that do what the given ones do, forward and backward, by replaying captured graphs.

    `sample_args` is a tuple of tensors (of trees of tensors), or a tuple of such tuples where several callables are
    given: sizes, dtypes and `requires_grad` of the arguments of each call. A module is changed in place: in the mode
    (train or eval) that it is in now, its forward pass replays; in the other it runs as before.

    Raises ValueError for modules with hooks or buffers that require gradients and for arguments that are not tensors,
    RuntimeError inside autocast with a cache, and what a capture raises.
    """
    if torch.is_autocast_enabled("npu") and torch.is_autocast_cache_enabled():
        raise RuntimeError(
            "make_graphed_callables inside autocast would capture casts that its cache drops later: "
            "use torch.autocast('npu', cache_enabled=False)"
        )
    single = not isinstance(callables, tuple)
    functions: tuple[_Callable, ...] = (callables,) if single else callables  # type: ignore[assignment]
    samples: tuple[tuple[Any, ...], ...] = (sample_args,) if single else sample_args
    passes = [_passes_of(function, arguments) for function, arguments in zip(functions, samples, strict=True)]
    # One stream throughout: gradients of parameters accumulate on that of the first pass.
    stream = Stream()
    _warm_up(functions, samples, passes, num_warmup_iters, allow_unused_input, stream)
    shared = graph_pool_handle() if pool is None else pool
    # In the order in which they will run, so that no replay overwrites what a later one reads.
    for function, arguments, each in zip(functions, samples, passes, strict=True):
        _capture_forward(function, arguments, each, shared, stream)
    for each in reversed(passes):
        _capture_backward(each, shared, allow_unused_input, stream)
    results = tuple(_replace(function, each) for function, each in zip(functions, passes, strict=True))
    return results[0] if single else results


def _passes_of(function: _Callable, arguments: tuple[Any, ...]) -> _Passes:
    tensors = tuple(pytree.arg_tree_leaves(*arguments))
    if not all(isinstance(tensor, torch.Tensor) for tensor in tensors):
        raise ValueError("make_graphed_callables: sample_args must hold tensors only: a graph keeps no other values")
    parameters: _Tensors = ()
    if isinstance(function, torch.nn.Module):
        if function._backward_hooks or function._forward_hooks or function._forward_pre_hooks:
            raise ValueError(
                f"make_graphed_callables: {type(function).__name__} has hooks, which a graph does not call; "
                "register them afterwards"
            )
        if any(buffer.requires_grad for buffer in function.buffers()):
            raise ValueError(
                f"make_graphed_callables: a buffer of {type(function).__name__} requires a gradient; "
                "only parameters may be trained"
            )
        parameters = tuple(function.parameters())
    return _Passes(len(tensors), tensors + parameters, NPUGraph(), NPUGraph())


def _warm_up(
    functions: Sequence[_Callable],
    samples: Sequence[tuple[Any, ...]],
    passes: Sequence[_Passes],
    iterations: int,
    allow_unused: bool,
    stream: Stream,
) -> None:
    """Compiles kernels, and whatever else happens once only, outside of captures."""
    synchronize()
    with StreamContext(stream):
        for function, arguments, each in zip(functions, samples, passes, strict=True):
            for _ in range(iterations):
                outputs = pytree.tree_leaves(function(*arguments))
                _gradients(each, outputs, [torch.empty_like(output) for output in outputs], allow_unused)
    synchronize()


def _gradients(
    passes: _Passes, outputs: Sequence[torch.Tensor], of_outputs: Sequence[torch.Tensor | None], allow_unused: bool
) -> _Tensors:
    differentiable = [(output, grad) for output, grad in zip(outputs, of_outputs, strict=True) if output.requires_grad]
    inputs = passes.differentiable_inputs()
    if not differentiable or not inputs:
        return ()
    return torch.autograd.grad(
        outputs=[output for output, _ in differentiable],
        inputs=inputs,
        grad_outputs=[grad for _, grad in differentiable],
        only_inputs=True,
        allow_unused=allow_unused,
    )


def _capture_forward(
    function: _Callable, arguments: tuple[Any, ...], passes: _Passes, pool: PoolId, stream: Stream
) -> None:
    with graph(passes.forward, pool=pool, stream=stream):
        result = function(*arguments)
    outputs, passes.structure = pytree.tree_flatten(result)
    passes.outputs = tuple(outputs)


def _capture_backward(passes: _Passes, pool: PoolId, allow_unused: bool, stream: Stream) -> None:
    passes.of_outputs = tuple(torch.empty_like(output) if output.requires_grad else None for output in passes.outputs)
    gradients: _Tensors = ()
    if any(grad is not None for grad in passes.of_outputs) and passes.differentiable_inputs():
        with graph(passes.backward, pool=pool, stream=stream):
            gradients = _gradients(passes, passes.outputs, passes.of_outputs, allow_unused)
    remaining = iter(gradients)
    passes.of_inputs = tuple(next(remaining, None) if tensor.requires_grad else None for tensor in passes.inputs)


class _Replayed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, passes: _Passes, *inputs: torch.Tensor) -> _Tensors:
        ctx.passes = passes
        for static, given in zip(passes.inputs[: passes.arguments], inputs, strict=False):
            _move(given, static)
        passes.forward.replay()
        return tuple(output.detach() for output in passes.outputs)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        passes: _Passes = ctx.passes
        for static, given in zip(passes.of_outputs, gradients, strict=True):
            if static is not None:
                _move(given, static)
        passes.backward.replay()
        return None, *(grad.detach() if grad is not None else None for grad in passes.of_inputs)


def _move(given: torch.Tensor, static: torch.Tensor) -> None:
    """Puts the values where the graph reads them."""
    if given.data_ptr() != static.data_ptr():
        static.copy_(given)


def _replace(function: _Callable, passes: _Passes) -> _Callable:
    def run(*arguments: Any) -> Any:
        tensors = pytree.arg_tree_leaves(*arguments)
        outputs = _Replayed.apply(passes, *tensors, *passes.inputs[passes.arguments :])
        assert passes.structure is not None, "captured with its outputs"
        return pytree.tree_unflatten(outputs, passes.structure)

    if not isinstance(function, torch.nn.Module):
        return run
    # The module holds its new `forward`, which must not hold the module: the graphs go with the last reference to it,
    # not with a garbage collection, which could come in the middle of another capture.
    reference, mode, original = weakref.ref(function), function.training, _forward_of(function)

    def forward(*arguments: Any, **named: Any) -> Any:
        module = reference()
        assert module is not None, "a method of it is called"
        return run(*arguments, **named) if module.training == mode else original(module, *arguments, **named)

    function.forward = forward
    return function


def _forward_of(module: torch.nn.Module) -> _Callable:
    """Its `forward`, with the module as first argument."""
    forward = module.forward
    if getattr(forward, "__self__", None) is module:
        return forward.__func__
    return lambda _, *arguments, **named: forward(*arguments, **named)
