"""Holds each kernel that is taken from earlier loops like its own against the same kernel, written anew."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from inductor_npu.codegen.scheduling.kernel_reuse import ReusableKernels


@dataclass
class Repetitions:
    """How many kernels were taken from others, and what would have been different in them."""

    taken: int = 0
    differences: list[str] = field(default_factory=list)


@contextlib.contextmanager
def every_repetition_written_anew() -> Iterator[Repetitions]:
    """While it lasts, kernels are written that would have been taken from others, and both are compared."""
    found = Repetitions()
    find, keep = ReusableKernels.find, ReusableKernels.keep
    waiting: list[Any] = []

    def find_but_write(self: ReusableKernels, loops: Any, features: Any) -> None:
        known = find(self, loops, features)
        waiting[:] = [] if known is None else [known]

    def compare_and_keep(self: ReusableKernels, loops: Any, kernel: Any) -> bool:
        for known in waiting:
            found.taken += 1
            found.differences += list(_differences(known, kernel))
        waiting.clear()
        return keep(self, loops, kernel)

    with patch.multiple(ReusableKernels, find=find_but_write, keep=compare_and_keep):
        yield found


def _differences(taken: Any, written: Any) -> Iterator[str]:
    """What a program would notice: the source, the arguments of a launch, and which buffers there are no more."""
    if taken.source != written.source:
        yield f"source:\n{taken.source}\n-- written anew:\n{written.source}"
    for what in ("removed_buffers", "inplaced_to_remove", "inplace_update_buffers", "mutations", "must_keep_buffers"):
        if getattr(taken, what) != getattr(written, what):
            yield f"{what}: {getattr(taken, what)}, written anew: {getattr(written, what)}"
    arguments, others = ([str(part) for part in kernel.args.python_argdefs()] for kernel in (taken, written))
    if arguments != others:
        yield f"arguments: {arguments}, written anew: {others}"
