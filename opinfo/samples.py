"""The cases of the sweep: operators and samples of `torch.testing._internal`'s OpInfo database, on the CPU."""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch.utils import _pytree as pytree

# Names as in dtypes of the table; the order is that in which a sweep takes them.
DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        *(torch.float32, torch.int64, torch.bool, torch.float16, torch.bfloat16, torch.float64, torch.int32),
        *(torch.uint8, torch.int8, torch.int16, torch.complex64, torch.complex128, torch.complex32),
        *(torch.uint16, torch.uint32, torch.uint64),
        *(torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz),
    )
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
# Their result is memory that nobody has written.
UNDEFINED_VALUES = frozenset(
    {
        "empty",
        "empty_like",
        "empty_permuted",
        "empty_strided",
        "new_empty",
        "new_empty_strided",
        "resize_",
        "resize_as_",
    }
)
# Their arguments beyond the first are on the CPU, whatever the device: they decide the number of results.
ARGUMENTS_ON_CPU = frozenset({"tensor_split"})


@functools.cache
def operators() -> dict[str, Any]:
    """OpInfo of every operator that runs on a CPU, by full name. The database takes seconds to read."""
    return {operator.full_name: operator for operator in _database().op_db if operator.supported_dtypes("cpu")}


def _database() -> Any:
    from torch.testing._internal import common_methods_invocations

    return common_methods_invocations


def dtypes_of(operator: str) -> list[str]:
    """The dtypes that an operator takes, in the order of a sweep."""
    supported = operators()[operator].supported_dtypes("cpu")
    return [name for name, dtype in DTYPES.items() if dtype in supported]


def differentiable(operator: str, dtype: str) -> bool:
    """Whether the operator's backward pass is part of the case."""
    found = operators()[operator]
    return found.supports_autograd and DTYPES[dtype] in found.supported_backward_dtypes("cpu")


def samples_of(operator: str, dtype: str, until: int) -> list[Any]:
    """The first `until` samples, the same ones in every process; fewer if there are no more."""
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)
    made = operators()[operator].sample_inputs("cpu", DTYPES[dtype], requires_grad=differentiable(operator, dtype))
    return list(itertools.islice(made, until))


@contextmanager
def unseeded() -> Iterator[None]:
    """Lets random operators be: OpInfo sets a seed in each call of one, which Dynamo does not trace."""

    def call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    with mock.patch.object(_database(), "wrapper_set_seed", call):
        yield


class Arguments:
    """Arguments of a call: a value, the rest, keywords; each `moved` is a deep copy."""

    def __init__(self, value: Any, args: tuple[Any, ...], kwargs: dict[str, Any], rest_on_cpu: bool = False) -> None:
        self.all = (value, args, kwargs)
        self.rest_on_cpu = rest_on_cpu

    def copied(self, device: str = "cpu", widened: bool = False) -> Arguments:
        """On `device`, tensors with the same strides and memory of their own; `widened` to the highest precision:
        float64 or complex128 wherever a float or complex is less.
        """

        def copied(values: Any, place: str) -> Any:
            return pytree.tree_map(lambda leaf: _copied(leaf, place, widened), values)

        value, *rest = self.all
        return Arguments(copied(value, device), *copied(rest, "cpu" if self.rest_on_cpu else device))

    def tensors(self) -> list[torch.Tensor]:
        return [leaf for leaf in pytree.tree_leaves(self.all) if isinstance(leaf, torch.Tensor)]


def _copied(leaf: Any, device: str, widened: bool) -> Any:
    if isinstance(leaf, torch.dtype) and widened:
        return _wide(leaf)
    if (isinstance(leaf, torch.device) and leaf.type == "cpu") or (isinstance(leaf, str) and leaf == "cpu"):
        return torch.device(device) if isinstance(leaf, torch.device) else device
    if not isinstance(leaf, torch.Tensor):
        return leaf
    with torch.no_grad():
        dtype = _wide(leaf.dtype) if widened else leaf.dtype
        if leaf.layout is not torch.strided:
            copy = leaf.detach().to(device=device, dtype=dtype, copy=True)
        else:
            memory = torch.empty(0, dtype=leaf.dtype).set_(leaf.untyped_storage()).to(device, dtype, copy=True)
            copy = torch.as_strided(memory, leaf.size(), leaf.stride(), leaf.storage_offset())
            copy = torch.conj(copy) if leaf.is_conj() else copy
            copy = torch._neg_view(copy) if leaf.is_neg() else copy
    return copy.detach().requires_grad_(leaf.requires_grad)


def _wide(dtype: torch.dtype) -> torch.dtype:
    if dtype.is_complex:
        return torch.complex128
    return torch.float64 if dtype.is_floating_point else dtype
