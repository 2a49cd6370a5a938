"""Loads packages and runs them. Needs PyTorch and the runtime: neither Triton, nor LLVM, nor the code generator."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from inductor_npu import providers
from inductor_npu.errors import PackageError


class LoadedPackage:
    """A package in this process. It is called as the model was, with tensors on its device. Threads may share it."""

    def __init__(self, package: Any, device: torch.device) -> None:
        self._package = package
        self.device = device
        self.manifest: dict[str, Any] = json.loads(package.manifest())
        call = self.manifest["call"]
        self._in_spec = pytree.treespec_loads(call["in"])
        self._out_spec = pytree.treespec_loads(call["out"])
        self._results = call["results"]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Queues the model's work on the current stream and returns its results.

        Raises ValueError where a tensor has another type, shape or device than the model was exported for, or arguments
        have another structure.
        """
        leaves, spec = pytree.tree_flatten((args, self._ordered(kwargs)))
        if spec != self._in_spec:
            raise ValueError(f"the arguments have the structure {spec}, and the model was exported for {self._in_spec}")
        results = self.run_flat([leaf for leaf in leaves if isinstance(leaf, torch.Tensor)])
        return pytree.tree_unflatten(results, self._out_spec)

    def run_flat(self, tensors: Sequence[torch.Tensor]) -> list[Any]:
        """As a call, with the tensors among the arguments in a row, and a row of results."""
        made = iter(self._package.run(list(tensors)))
        return [next(made) if "tensor" in result else result["constant"] for result in self._results]

    def _ordered(self, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Keyword arguments in the order of the export."""
        names = self._in_spec.child(1).context
        known = [name for name in names if name in kwargs]
        return {name: kwargs[name] for name in (*known, *(name for name in kwargs if name not in known))}

    def weights(self) -> dict[str, torch.Tensor]:
        """The weights on the device, by their names in the model: not copies, but what is used."""
        return self._package.weights()

    def update_weights(self, state_dict: Mapping[str, torch.Tensor]) -> None:
        """Overwrites weights in place with values of the same type and shape, on any device, and computes again what
        the package computes of them ahead of time. Waits for queued runs first.

        state_dict: any of the model's weights by name; those that the compiled model does not need are ignored.

        Raises ValueError, with nothing changed, for other names, types or shapes.
        """
        unused = set(self.manifest["weights"]["unused"])
        self._package.update_weights({name: value for name, value in state_dict.items() if name not in unused})


def load_package(
    path: str | Path, device: torch.device | str | int | None = None, weights: str | Path | None = None
) -> LoadedPackage:
    """See inductor_npu.load_package."""
    runtime = providers.package_runtime()
    place = _device(device)
    try:
        package = runtime.Package(str(path), place.index, "" if weights is None else str(weights))
        return LoadedPackage(package, place)
    except RuntimeError as error:
        raise PackageError(message=str(error).splitlines()[0]) from error


def _device(device: torch.device | str | int | None) -> torch.device:
    if isinstance(device, int):
        return torch.device("npu", device)
    found = torch.device("npu" if device is None else device)
    return found if found.index is not None else torch.device("npu", torch.npu.current_device())
