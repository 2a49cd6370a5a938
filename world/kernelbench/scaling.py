"""Sizes of KernelBench's problems, chosen for a large GPU, cut down to what a processor computes in seconds."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree
from torch.utils.flop_counter import FlopCounterMode

from opinfo.running import first_line
from world.kernelbench import problems

LARGEST, TOTAL = 1 << 28, 1 << 29  # bytes of the largest tensor, and of inputs, weights and results
OPERATIONS = (3e9, 2e10)  # floating-point operations; the second where nothing keeps to the first

# Names of numbers that are no sizes, or tied to others.
KEPT = re.compile(
    "kernel|stride|padding|dilation|pool|heads?$|n_head|layers$|stages|ratio|patch|d_state|block|reduce|eps|clusters"
)
SPACE = re.compile(r"height|width|depth|length|seq|size$|^[HWDL]$|image|dim[123]?$")


@dataclass(frozen=True)
class Scale:
    """batch: the most of numbers whose names say batch; size: the most of others (0: as they are), of spatial ones
    alone where `space`; groups: the most of numbers of groups (0: as they are).
    """

    batch: int
    size: int = 0
    groups: int = 0
    space: bool = False

    @property
    def text(self) -> str:
        size = f"{'spatial ' if self.space else ''}sizes to {self.size}, " if self.size else ""
        groups = f"groups to {self.groups}, " if self.groups else ""
        return f"{size}{groups}batch {self.batch}"

    def rewrite(self, name: str, value: Any) -> Any:
        """What the number becomes that the problem gives `name`."""
        if isinstance(value, bool) or not isinstance(value, int) or value < 2:
            return value
        if "batch" in name or name in ("B", "b"):
            return min(value, self.batch)
        if "groups" in name:
            return halved(value, self.groups) if self.groups else value
        if KEPT.search(name) or not self.size or (self.space and not SPACE.search(name)):
            return value
        return halved(value, self.size)


# The first that fits is taken; with groups to 8 first, since groups of one element would be noise.
SCALES = (
    *(Scale(4, 64, 8), Scale(4, 64), Scale(2, 32), Scale(2, 128), Scale(2, 256)),
    *(Scale(2, 32, space=True), Scale(2, 64, space=True), Scale(2), Scale(1)),
)


def halved(value: int, most: int) -> int:
    """`value`, halved until it is at most `most`; what stays odd becomes something odd below."""
    while value > most and value % 2 == 0:
        value //= 2
    return value if value <= most else most // 2 + 1 + 2 * (value % (most // 4)) - (most // 2) % 2


def fitting(path: Path) -> Scale:
    """The first scale with which the problem fits. Raises LookupError with each one's reason if none does."""
    logging.getLogger("torch._subclasses.fake_tensor").setLevel(logging.CRITICAL)
    reasons = []
    for operations in OPERATIONS:
        for scale in SCALES:
            try:
                largest, total, counted = cost(problems.load(path, scale.rewrite))
            except Exception as error:  # noqa: BLE001 - of a scale with which the problem does not run
                reasons.append(f"{scale.text}: {first_line(error)}")
                continue
            if largest <= LARGEST and total <= TOTAL and counted <= operations:
                return scale
            reasons.append(f"{scale.text}: {total >> 20} MiB, {counted / 1e9:.1f} GFLOP")
    if all("DataDependent" in reason or "ake" in reason for reason in reasons):
        return SCALES[-1]  # what cannot be traced without values
    raise LookupError("; ".join(reasons))


def cost(module: Any) -> tuple[int, int, int]:
    """(bytes of the largest tensor, bytes of inputs, weights and results, operations), without computing."""
    with FakeTensorMode(), torch.no_grad():
        model = module.Model(*module.get_init_inputs())
        inputs = module.get_inputs()
        with FlopCounterMode(display=False) as counter:
            results = model(*inputs)
    everything = [*pytree.tree_leaves((inputs, results)), *model.parameters(), *model.buffers()]
    sizes = [one.numel() * one.element_size() for one in everything if isinstance(one, torch.Tensor)]
    return max(sizes, default=0), sum(sizes), counter.get_total_flops()
