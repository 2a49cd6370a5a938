"""Holds each rewrite of a graph to what the graph computed before: values, aliases, and what is written. Strides of
results that the user gets are restored by Inductor, whatever passes make of them.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch.fx import Graph, GraphModule, Interpreter
from torch.utils import _pytree as pytree

from inductor_npu.lowering.graph_passes import passes
from inductor_npu.lowering.graph_passes.passes import GraphPass


@contextmanager
def verified() -> Iterator[Counter[str]]:
    """Inside, whenever a pass rewrites a graph, the graphs before and after run on random tensors like their inputs.

    Gives how often each pass rewrote something. Raises AssertionError where the two differ.
    """
    rewritten: Counter[str] = Counter()
    switched_on = passes.switched_on
    with patch.object(passes, "switched_on", lambda: tuple(_verified(each, rewritten) for each in switched_on())):
        yield rewritten


def _verified(each: GraphPass, rewritten: Counter[str]) -> GraphPass:
    def apply(graph: Graph) -> int:
        before = GraphModule(graph.owning_module, copy.deepcopy(graph))
        count = each.apply(graph)
        if count:
            rewritten[each.name] += count
            _check_same(before, GraphModule(graph.owning_module, copy.deepcopy(graph)), each.name)
        return count

    checked = copy.copy(each)
    checked.apply = apply
    return checked


def _check_same(before: GraphModule, after: GraphModule, name: str) -> None:
    inputs = _inputs_of(before)
    expected, actual = _run(before, inputs), _run(after, inputs)
    torch.testing.assert_close(actual, expected, equal_nan=True, msg=lambda text: f"{name}: {text}")
    assert _memories(actual) == _memories(expected), f"{name} changes which results lie in one memory"


def _run(module: GraphModule, inputs: Sequence[Any]) -> list[Any]:
    """The results of `module`, and what became of `inputs`, which are copied first."""
    copies = [_like(each) if isinstance(each, torch.Tensor) else each for each in inputs]
    torch.manual_seed(0)
    with torch.no_grad():
        results = Interpreter(module).run(*copies)
    return [*pytree.tree_leaves(results), *copies]


def _like(tensor: torch.Tensor) -> torch.Tensor:
    """A copy of `tensor` with its strides; elements that share memory share it in the copy."""
    return torch.as_strided(torch.as_strided(tensor, (_extent(tensor),), (1,)).clone(), tensor.shape, tensor.stride())


def _extent(tensor: torch.Tensor) -> int:
    if not tensor.numel():
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))


def _inputs_of(module: GraphModule) -> list[Any]:
    torch.manual_seed(1)
    return [_random(node.meta["val"]) for node in module.graph.find_nodes(op="placeholder")]


def _random(value: Any) -> Any:
    """A tensor like the fake one `value`: small numbers, of which indices of 0 and 1 are valid nearly everywhere."""
    if not isinstance(value, torch.Tensor):
        return getattr(getattr(value, "node", None), "hint", value)
    shape, strides = ([_number(each) for each in part] for part in (value.shape, value.stride()))
    extent = 0 if 0 in shape else 1 + sum((size - 1) * step for size, step in zip(shape, strides, strict=True))
    if value.dtype.is_floating_point or value.dtype.is_complex:
        memory = torch.randn(extent, dtype=torch.float64).to(value.dtype)
    else:
        memory = torch.randint(0, 2, (extent,)).to(value.dtype)
    return torch.as_strided(memory.to(value.device), shape, strides)


def _number(size: Any) -> int:
    return size if isinstance(size, int) else size.node.hint


def _memories(values: Sequence[Any]) -> list[int]:
    """For each tensor the place of the first one that lies in the same storage."""
    first: dict[int, int] = {}
    kept = [each for each in values if isinstance(each, torch.Tensor) and each.numel()]
    return [first.setdefault(each.untyped_storage().data_ptr(), place) for place, each in enumerate(kept)]


def strides_of(results: Any) -> list[tuple[int, ...]]:
    """The strides of each tensor of `results`, of axes that have several elements."""
    return [
        tuple(step for size, step in zip(each.shape, each.stride(), strict=True) if size > 1)
        for each in pytree.tree_leaves(results)
        if each.numel()
    ]


def variants(tensors: Sequence[torch.Tensor]) -> Iterator[tuple[str, list[torch.Tensor]]]:
    """`tensors` in other types, orders of memory and sizes, by the name of each: what a user may pass as well."""

    def each(name: str, change: Callable[[torch.Tensor], torch.Tensor]) -> tuple[str, list[torch.Tensor]]:
        return name, [change(tensor.detach()).requires_grad_(tensor.requires_grad) for tensor in tensors]

    yield each("as they are", lambda tensor: tensor)
    for dtype in (torch.float64, torch.bfloat16):
        yield each(str(dtype), lambda tensor, to=dtype: tensor.to(to) if tensor.is_floating_point() else tensor)
    yield each("turned", lambda tensor: tensor.mT.contiguous().mT if tensor.dim() > 1 else tensor)
    yield each("channels last", _channels_last)
    yield each("with gaps", lambda tensor: torch.stack([tensor, tensor], -1)[..., 0])
    yield each("expanded", lambda tensor: tensor[:1].expand(tensor.shape) if tensor.dim() else tensor)
    yield each("empty", lambda tensor: tensor[:0] if tensor.dim() > 1 else tensor)


def _channels_last(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor
