"""`Program`: something ordinary that a person compiles, small enough to run in a second."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from corpus.programs.tensors import Input


@dataclass(frozen=True)
class Program:
    """`run()` compiles and runs it on `npu`; its kernels are those launched meanwhile.

    Names are paths, `family/name`, and stay: the table in git is keyed by them.
    """

    name: str
    run: Callable[[], None]


def case(
    name: str, function: Callable[..., Any], *inputs: Input, backward: bool = False, dynamic: bool = False
) -> Program:
    """The program that compiles `function` and calls it on `inputs`, moved to `npu`.

    With `backward`, floating-point inputs require gradients and the results are differentiated. With `dynamic`, every
    size is an argument of the kernels.
    """

    def run() -> None:
        torch.manual_seed(0)
        arguments = [_to_npu(make(), backward) for make in inputs]
        results = torch.compile(function, dynamic=dynamic or None)(*arguments)
        if backward:
            differentiate(results)

    return Program(name, run)


def _to_npu(tensor: torch.Tensor, backward: bool) -> torch.Tensor:
    moved = tensor.detach().to("npu")
    return moved.requires_grad_() if backward and moved.is_floating_point() else moved


def differentiate(results: Any) -> None:
    """Runs the backward pass of all results that have one, with gradients of ones."""
    tensors = [t for t in pytree.tree_leaves(results) if isinstance(t, torch.Tensor) and t.requires_grad]
    if tensors:
        torch.autograd.backward(tensors, [torch.ones_like(t) for t in tensors])


def family(prefix: str, programs: Iterable[Program]) -> list[Program]:
    """`programs` with `prefix/` before their names. Raises ValueError if two have the same name."""
    named = [Program(f"{prefix}/{program.name}", program.run) for program in programs]
    names = [program.name for program in named]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ValueError(f"programs with the same name in {prefix}: {', '.join(sorted(twice))}")
    return named
