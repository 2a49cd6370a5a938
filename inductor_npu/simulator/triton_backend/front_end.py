"""What the installed Triton's front end makes of a kernel."""

from __future__ import annotations

import inspect
from typing import Any

from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget

from .compiler import NpuBackend, make_ttir


def ttir_of(source: Any, chip: str, simplified: bool = False, **options: Any) -> str:
    """Returns the text of the TTIR of an `ASTSource` for the target `npu` as `chip`, with these options of the backend:
    before any pass, or `simplified` by those that compiling begins with.

    Raises what Triton's front end raises, which may be anything.
    """
    assert source.fn.cache_key, "what a launch asks first: it reads what the kernel calls"
    backend = NpuBackend(GPUTarget("npu", chip, 1))
    parsed = backend.parse_options(options)
    context = ir.context()
    ir.load_dialects(context)
    given = {
        "target": backend.target,  # not asked for by Triton 3.2
        "options": parsed,
        "codegen_fns": backend.get_codegen_implementation(parsed),
        "module_map": backend.get_module_map(),
        "context": context,
    }
    wanted = inspect.signature(source.make_ir).parameters
    module = source.make_ir(**{name: value for name, value in given.items() if name in wanted})
    return str(make_ttir(module) if simplified else module)
