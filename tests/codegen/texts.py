"""Generated code as text: for what a kernel says, Inductor has to write it, and nobody to compile or run it."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import torch

from inductor_npu.ascend.collect.afresh import compiled_afresh

if TYPE_CHECKING:
    from torch._inductor.graph import GraphLowering


class _NotRunError(Exception):
    """A module that is only text was called."""


def module_of(function: Callable[..., Any], *inputs: torch.Tensor, **options: Any) -> str:
    """The only module that Inductor generates for `function`; `options` go to torch.compile."""
    from torch._inductor.graph import GraphLowering

    written: list[str] = []

    def write(graph: GraphLowering) -> SimpleNamespace:
        written.append(graph.codegen()[0].value)
        return SimpleNamespace(call=do_not_run)

    def do_not_run(*_: object) -> None:
        raise _NotRunError

    with compiled_afresh(), patch.object(GraphLowering, "compile_to_module", write):
        try:
            torch.compile(function, **options)(*inputs)
        except _NotRunError:
            (module,) = written
            return module
    raise AssertionError("nothing was compiled")
