"""The operators of `torch.testing`'s OpInfo database, each on its largest sample of float32, forward and backward."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any
from unittest import mock

import torch
from torch.utils import _pytree as pytree

from corpus.programs.program import Program, differentiate, family

SAMPLES = 12  # of each operator, the largest of the first dozen is taken
# Families without a kernel of Inductor's: library calls on every device.
LIBRARIES = (
    "jiterator",
    "linalg.",
    "fft.",
    "sparse.",
    "to_sparse",
    "torch.ops.",
    "cholesky",
    "lu",
    "ormqr",
    "geqrf",
    "svd",
)


def _sample(operator: Any) -> Any:
    """The sample with the most elements among the first ones."""
    samples = itertools.islice(
        operator.sample_inputs("cpu", torch.float32, requires_grad=operator.supports_autograd), SAMPLES
    )
    return max(samples, key=_elements, default=None)


def _elements(sample: Any) -> int:
    tensors = pytree.tree_leaves((sample.input, sample.args, sample.kwargs))
    return sum(tensor.numel() for tensor in tensors if isinstance(tensor, torch.Tensor))


def _call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


def _program(operator: Any, database: Any) -> Program:
    # Random operators set a seed in each call, which Dynamo does not trace; PyTorch's own tests of Inductor do this.
    @mock.patch.object(database, "wrapper_set_seed", _call)
    def run() -> None:
        torch.manual_seed(0)
        sample = _sample(operator)
        if sample is None:
            return
        arguments = pytree.tree_map_only(
            torch.Tensor,
            lambda t: t.detach().to("npu").requires_grad_(t.requires_grad),
            (sample.input, sample.args, sample.kwargs),
        )

        def function(value: Any, rest: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
            return operator(value, *rest, **keywords)

        differentiate(torch.compile(function)(*arguments))

    return Program(operator.name, run)


def programs() -> list[Program]:
    """One program for each operator that takes float32. Reading the database takes seconds: hence a function."""
    from torch.testing._internal import common_methods_invocations as database

    chosen = {
        operator.name: operator
        for operator in reversed(database.op_db)  # of an operator's variants, the first one
        if torch.float32 in operator.dtypes and not operator.name.startswith(LIBRARIES)
    }
    return family("operator", (_program(operator, database) for operator in reversed(chosen.values())))
