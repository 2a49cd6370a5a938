"""What is measured: cases in groups, each measured by itself, and what they need to know of the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

GROUPS = {
    "kernels": "Kernels",
    "models": "Models in bf16",
    "kernelbench": "KernelBench's problems as published, in float32",
    "small": "A call with little work, in us",
    "launches": "Host time of a launch, in us",
    "compile": "Cold compile time",
}
# The sides that each process measures. PyTorch's autograd engine knows one accelerator in a process: where `npu` is
# registered there are no gradients on `cuda`.
WORKERS = {"ours": ("ours",), "stock": ("stock", "eager")}
REASON = 200, 500  # characters of an error that are told, of its beginning and of its end
HINTS = ("Set TORCH", "For even more", "You can suppress", "import torch._dynamo", "torch._dynamo.config.suppress")


@dataclass(frozen=True)
class Setup:
    """The run. ours, stock: device types. target: the chip of ours, where it is not what the provider finds. scale: 1
    for sizes that fill a GPU, less for a rehearsal. rounds: turns of each side. seconds: of a side in a round.
    repeats: cold starts of each side. workers: processes that compile. profiled: whether it is told what the device
    ran, too.
    """

    ours: str = "npu"
    stock: str = "cuda"
    target: str = ""
    scale: float = 1.0
    rounds: int = 7
    seconds: float = 0.02
    repeats: int = 1
    workers: int = 1
    profiled: bool = False

    @property
    def is_rehearsal(self) -> bool:
        return self.scale < 1

    def scaled(self, size: int, least: int = 4) -> int:
        """`size`, or the part of it that a rehearsal takes."""
        return max(least, round(size * self.scale))

    def device(self, side: str) -> str:
        """The device type of `ours`, `stock` or `eager`."""
        return self.ours if side == "ours" else self.stock

    def environment(self, worker: str) -> dict[str, str]:
        """What is set for a process of `ours`, or for one of `stock`, which is PyTorch without this package."""
        if worker == "ours":
            return {"INDUCTOR_NPU_TARGET": self.target} if self.target else {}
        return {} if self.stock == "npu" else {"INDUCTOR_NPU_PROVIDER": "none"}


@dataclass
class Prepared:
    """A case in one of its two processes, compiled and run once.

    turns: one round each, in seconds of a call; by the name of the number, `side` or `side_what`.
    known: numbers that need no time taken.
    results: of ours, tensors that the other process compares.
    finish: of stock, from all numbers so far and the results of ours to further numbers.
    rounds: how many times as many rounds are taken as the setup says.
    """

    turns: dict[str, Callable[[], float]]
    known: dict[str, Any] = field(default_factory=dict)
    results: list[Any] = field(default_factory=list)
    finish: Callable[[Mapping[str, Any], list[Any]], dict[str, Any]] | None = None
    rounds: int = 1


@dataclass(frozen=True)
class Case:
    """`prepare(setup, worker)` runs in each of the two processes; the numbers of both are those of `report.py`."""

    group: str
    name: str
    prepare: Callable[[Setup, str], Prepared]


def reason_of(error: BaseException) -> str:
    """Type and text of an error without empty lines and torch's hints; of a long text the beginning and the end."""
    lines = f"{type(error).__name__}: {error}".splitlines()
    return shortened("\n".join(line.rstrip() for line in lines if line.strip() and not line.strip().startswith(HINTS)))


def shortened(text: str) -> str:
    """The beginning and the end of a text that is too long for a table."""
    first, last = REASON
    return text if len(text) <= first + last else f"{text[:first]} [...] {text[-last:]}"
