"""The kernels of a package, each once. What is kept of one, and how, is its provider's to say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inductor_npu import providers


class KernelTable:
    """The kernels that a package's program launches. `tuners`: the compiled kernels, by the numbers of launches in the
    graph.
    """

    def __init__(self, tuners: Mapping[int, Any]) -> None:
        self._tuners = tuners
        self._provided = providers.packaged_kernels()
        self._numbers: dict[Any, int] = {}

    def number(self, index: int) -> tuple[int, list[str]]:
        """The number of the kernel that a launch names, and the names of its arguments at run time, in order. Raises
        UnpackableError for a kernel that the provider cannot package.
        """
        tuner = self._tuners[index]
        name = tuner.inductor_meta.get("kernel_name", tuner.fn.__name__)
        names, kernel = self._provided.packaged(name, tuner.compile_results[0])
        return self._numbers.setdefault(kernel, len(self._numbers)), names

    def members(self) -> tuple[list[dict[str, Any]], dict[str, bytes]]:
        """What the manifest says of the kernels, in the order of their numbers; the files that they are in, by name.
        Raises what the provider raises.
        """
        return self._provided.members(list(self._numbers))

    def machine(self) -> dict[str, object]:
        """What the kernels need of the machine that loads them."""
        return self._provided.machine()
