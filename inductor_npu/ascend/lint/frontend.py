"""TTIR of a kernel as the installed Triton's front end makes it, before any pass changes what the user wrote."""

from __future__ import annotations

import inspect
from typing import Any

from inductor_npu.ascend.kernel import Constant


class NotCompiled(Exception):
    """Triton's front end does not accept the kernel with the types and values that it got."""


def to_ttir(function: Any, line: int, signature: dict[str, str], constants: dict[str, Constant]) -> str:
    """TTIR of the JITFunction whose `def` is on `line`. Raises NotCompiled with Triton's reason and the line."""
    import triton
    from triton.compiler import ASTSource

    from inductor_npu.providers import current_target
    from inductor_npu.simulator.triton_backend.front_end import ttir_of

    values = {name: _constant(value) for name, value in constants.items()}
    try:
        if "constexprs" in inspect.signature(ASTSource).parameters:  # Triton 3.3 and later
            types = {name: signature.get(name, "constexpr") for name in function.arg_names}
        else:
            types = signature
        return ttir_of(ASTSource(function, types, values), current_target().name, sanitize_overflow=False)
    except triton.CompilationError as error:
        raise NotCompiled(_explained(error, function, line)) from error
    except Exception as error:
        # Triton's front end raises anything; all of it is about this kernel.
        raise NotCompiled(f"{type(error).__name__}: {error}") from error


def _constant(value: Constant) -> Any:
    """A constant as Triton takes it: dtypes come as their names, "tl.float32"."""
    import triton.language as tl

    if isinstance(value, str) and value.startswith("tl."):
        return getattr(tl, value.removeprefix("tl."))
    return value


def _explained(error: Any, function: Any, first: int) -> str:
    """`line 12: what is wrong`, of the innermost function that the error is in."""
    import triton

    while isinstance(error.__cause__, triton.CompilationError):
        error = error.__cause__
    message = str(error.error_message or (error.__cause__ and repr(error.__cause__)) or type(error).__name__)
    line = getattr(error.node, "lineno", None)
    return message if line is None or error.src != function.src else f"line {first + line - 1}: {message}"
