"""Kernels as the planner sees them, in a few words: axes, accesses, and what is computed."""

from __future__ import annotations

from collections import Counter

from inductor_npu.tiling.plan import AccessSummary, AxisSummary, KernelSummary


def axes(**lengths: int) -> list[AxisSummary]:
    return [AxisSummary(name, length, name.startswith("r")) for name, length in lengths.items()]


def load(names: str, contiguous: str | None, indirect: str = "", size: int = 4, passes: int = 1) -> AccessSummary:
    return AccessSummary(size, frozenset(names.split()), contiguous, frozenset(indirect.split()), False, passes)


def store(names: str, contiguous: str | None, size: int = 4) -> AccessSummary:
    return AccessSummary(size, frozenset(names.split()), contiguous, frozenset(), True)


def work(
    planned: list[AxisSummary],
    *accesses: AccessSummary,
    values: int = 1,
    scalar_axes: str = "",
    scans: bool = False,
    compared: str | None = None,
) -> KernelSummary:
    every = frozenset(axis.name for axis in planned)
    of_every = Counter({(every, 4): values})
    return KernelSummary(
        planned,
        accesses,
        [of_every],
        frozenset(scalar_axes.split()),
        scans,
        operations=of_every,
        compared=frozenset() if compared is None else frozenset([frozenset(compared.split())]),
    )


SUM = work(axes(x=1 << 20), load("x", "x"), load("x", "x"), store("x", "x"))
BIAS = work(axes(y=512, x=768), load("y x", "x"), load("x", "x"), store("y x", "x"))
TRANSPOSE = work(axes(y=2048, x=1024), load("y x", "y"), store("y x", "x"))
SOFTMAX = work(axes(x=2048, r0_=512), load("x r0_", "r0_", passes=2), store("x r0_", "r0_"), values=2)
COLUMN_SUM = work(axes(x=1024, r0_=4096), load("x r0_", "x"), store("x", "x"))
SCAN = work(axes(x=512, r0_=256), load("x r0_", "r0_"), store("x r0_", "r0_"), scans=True)
GATHER = work(axes(y=1000, x=200), load("y x", "x"), load("y x", None, indirect="y x"), store("y x", "x"))
