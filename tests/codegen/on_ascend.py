"""Programs of small compiled functions, for Ascend's compiler to judge their kernels."""

from __future__ import annotations

from collections.abc import Callable

import torch

from inductor_npu.ascend import check
from inductor_npu.ascend.execute import RunVerdict


def launch(cases: list[tuple]) -> Callable[[], None]:
    """A program that runs each case, a function and its inputs, compiled for npu: a kernel for each."""

    def program() -> None:
        for function, *inputs in cases:
            torch._dynamo.reset()
            torch.compile(function, fullgraph=True)(*(x.npu() for x in inputs))

    return program


def assert_vector_and_right(cases: Callable[[], list[tuple]], joined: int = 0) -> None:
    """The kernels of `cases()` are vector code, as Ascend's compiler understood them they give the embedded NPU's
    results, and there is at least one for each case but `joined`, which are one with another's.
    """
    torch.manual_seed(0)
    report = check(launch(cases()), run=True)
    found = {(row.operators, row.verdict, row.agreement and row.agreement.verdict) for row in report.rows}
    assert {entry for entry in found if entry[1:] != ("vector", RunVerdict.AGREES)} == set()
    assert len(report.rows) >= len(cases()) - joined
