"""Parameters that a model has in several places, such as the weights of an embedding and of the output layer."""

from __future__ import annotations

from typing import Any


def tied_parameters(root: Any) -> list[list[tuple[Any, str]]]:
    """The parameters that occur in several places of a module tree, each as the (module, name) of its places."""
    places: dict[int, list[tuple[Any, str]]] = {}
    for module in root.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                places.setdefault(id(parameter), []).append((module, name))
    return [found for found in places.values() if len(found) > 1]
