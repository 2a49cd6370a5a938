"""What a compiled function calls when it runs: generated kernels, and operators of the library, by name."""

from __future__ import annotations

import collections
import copy
import re
from collections.abc import Callable
from typing import Any

import torch
from torch._inductor.utils import run_and_get_code

from tests.compile.helpers import assert_equal, to_npu

KERNEL = "kernel"


def calls(function: Callable[..., Any], *inputs: Any, **settings: Any) -> dict[str, int]:
    """Compiles `function` (or a module) for npu without gradients, compares it with eager on the CPU, and counts the
    calls of one run: launches of generated kernels as "kernel", operators of the library by their names.

    settings: Inductor's own, such as freezing=True, for the duration of the compile.
    """
    torch._dynamo.reset()
    on_npu = copy.deepcopy(function).to("npu") if isinstance(function, torch.nn.Module) else function
    with torch.no_grad(), torch._inductor.config.patch(settings):
        compiled = torch.compile(on_npu, fullgraph=True)
        results, modules = run_and_get_code(compiled, *[to_npu(value) for value in inputs])
        expected = function(*inputs)
    assert_equal(results, expected)
    assert len(modules) == 1, "without gradients there is one graph"
    return dict(count_calls(modules[0]))


def count_calls(module: str) -> collections.Counter[str]:
    """The calls of a generated module: launches as "kernel", operators of the library by their names."""
    body = module.split("\nasync_compile.wait", 1)[-1]
    found = collections.Counter({KERNEL: len(re.findall(r"\btriton_\w+\.run\(", body))})
    found.update(re.findall(r"\bextern_kernels\.(\w+)\(", body))
    found.update(re.findall(r"= torch\.ops\.\w+\.(\w+)\.", body))
    return +found
