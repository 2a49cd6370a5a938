"""Programs of small compiled functions, for Ascend's compiler to judge their kernels."""

from __future__ import annotations

from collections.abc import Callable

import torch


def launch(cases: list[tuple]) -> Callable[[], None]:
    """A program that runs each case, a function and its inputs, compiled for npu: a kernel for each."""

    def program() -> None:
        for function, *inputs in cases:
            torch._dynamo.reset()
            torch.compile(function, fullgraph=True)(*(x.npu() for x in inputs))

    return program
