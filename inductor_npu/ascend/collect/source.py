"""From what Triton compiled (an ASTSource of Triton 3.2 or of 3.6 and later) to a KernelSource."""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Mapping
from typing import Any

from inductor_npu.ascend.collect.text import module_text
from inductor_npu.ascend.kernel import Constant, KernelSource
from inductor_npu.errors import UncollectableKernelError

_DIVISIBILITY = "tt.divisibility"


def kernel_source(source: Any, options: Mapping[str, Constant] | None = None) -> KernelSource:
    """The kernel of `source` as plain data; `options` are those of Ascend's compiler that its launch gave.

    Raises UncollectableKernelError if it has an argument or a constant that is none: a tensor descriptor, a tuple, a
    function.
    """
    function = getattr(source, "fn", None)
    if function is None:
        raise UncollectableKernelError(kernel=source.name, reason="it was compiled from IR, not from a Python function")
    names = list(function.arg_names)
    constants = _constants(source, names)
    signature = {name: source.signature[name] for name in names if name in source.signature and name not in constants}
    for name, kind in signature.items():
        if not isinstance(kind, str) or kind.startswith("tensordesc"):
            what = "a tensor descriptor" if isinstance(kind, str) else "a tuple"
            raise _uncollectable(source, f"its argument {name!r} is {what}; pass pointers, sizes and strides")
    divisible = tuple(name for name in _divisible(source.attrs, names) if name in signature)
    return KernelSource(function.__name__, module_text(function), signature, constants, divisible, dict(options or {}))


def without_name(source: KernelSource) -> str:
    """A key that two kernels share which differ in nothing but their name: Inductor numbers the kernels of a graph."""
    text = re.sub(rf"\b{re.escape(source.name)}\b", "kernel", source.text)
    return dataclasses.replace(source, name="kernel", text=text).key


def _constants(source: Any, names: list[str]) -> dict[str, Constant]:
    """The values of the arguments that are constants, by name. Triton up to 3.2 has names as keys, later positions."""
    found: dict[str, Constant] = {}
    for key, value in (source.constants or {}).items():
        position = key[0] if isinstance(key, tuple) else key
        name = position if isinstance(position, str) else names[position]
        if isinstance(key, tuple) and len(key) > 1:
            raise _uncollectable(source, f"its argument {name!r} is a tuple")
        found[name] = _constant(source, name, value)
    return {name: found[name] for name in names if name in found}


def _constant(source: Any, name: str, value: Any) -> Constant:
    language = sys.modules["triton.language"]
    value = value.value if isinstance(value, language.constexpr) else value
    if isinstance(value, language.dtype):
        for spelling, other in vars(language).items():
            if other is value or (isinstance(other, language.dtype) and other == value):
                return f"tl.{spelling}"
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise _uncollectable(
        source, f"its constant {name!r} is a {type(value).__name__}, not a number, a string or a dtype"
    )


def _divisible(attributes: Any, names: list[str]) -> list[str]:
    """The arguments that are known multiples of 16."""
    if isinstance(attributes, dict):  # Triton 3.3 and later: {(position,): [[property, value], ...]}
        positions = [key[0] for key, properties in attributes.items() if [_DIVISIBILITY, 16] in map(list, properties)]
    else:
        positions = list(getattr(attributes, "arg_properties", {}).get(_DIVISIBILITY, ()))
    return [names[position] if isinstance(position, int) else position for position in sorted(positions)]


def _uncollectable(source: Any, reason: str) -> UncollectableKernelError:
    return UncollectableKernelError(kernel=source.fn.__name__, reason=reason)
