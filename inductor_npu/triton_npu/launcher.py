"""From a kernel's signature to the C launcher that Triton calls for every launch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

FIXED_ARGUMENTS = 9  # grid x, y, z, stream, function, packed metadata, launch metadata, enter hook, exit hook

# Letters of `_C.KernelLauncher` for Triton's names of types. Half-precision scalars arrive as Python floats.
_LETTERS = {
    "i1": "b",
    "i8": "c",
    "i16": "h",
    "i32": "i",
    "i64": "l",
    "u1": "b",
    "u8": "C",
    "u16": "H",
    "u32": "I",
    "u64": "L",
    "fp16": "e",
    "bf16": "y",
    "fp32": "f",
    "f32": "f",
    "fp64": "d",
    "constexpr": "-",
}


def make_launcher(kernel_launcher: Callable[[str], Any], source: Any) -> Any:
    """The callable that Triton calls as `(grid x, y, z, stream, function, metadata, metadata, hook, hook, *arguments)`.

    `kernel_launcher` is `_C.KernelLauncher`, `source` the ASTSource or IRSource of the kernel. For plain arguments the
    result is the C object itself; a tuple or a tensor descriptor among them needs a Python function in front that takes
    it apart.

    Raises TypeError for a type that cannot be passed.
    """
    types = _argument_types(source)
    launch = kernel_launcher("".join(letters_of(type_) for type_ in types))
    if all(isinstance(type_, str) and not type_.startswith("tensordesc") for type_ in types):
        return launch

    def launch_flattened(*args: Any) -> None:
        flat = list(args[:FIXED_ARGUMENTS])
        for type_, value in zip(types, args[FIXED_ARGUMENTS:], strict=True):
            _flatten(type_, value, flat)
        launch(*flat)

    return launch_flattened


def run_time_arguments(source: Any) -> list[str]:
    """The names of the arguments that a kernel's code has, in their order; a tuple's or descriptor's parts are all
    called as it is.
    """
    types = zip(source.signature, _argument_types(source))
    return [str(name) for name, type_ in types for letter in letters_of(type_) if letter != "-"]


def _argument_types(source: Any) -> list[Any]:
    """The type of each argument that Triton passes at launch."""
    constants = getattr(source, "constants", None) or {}
    positions = {key[0] if isinstance(key, tuple) and len(key) == 1 else key for key in constants}
    names = getattr(getattr(source, "fn", None), "arg_names", [])
    positions |= {names[key] for key in positions if isinstance(key, int) and key < len(names)}
    return ["constexpr" if name in positions else type_ for name, type_ in source.signature.items()]


def letters_of(type_: Any) -> str:
    """The letters of `_C.KernelLauncher` for an argument of Triton's type `type_`. Raises TypeError for a type that
    cannot be passed.
    """
    if isinstance(type_, (tuple, list)):
        return "".join(letters_of(part) for part in type_)
    if type_.startswith("*"):
        return "p"
    if type_.startswith("tensordesc"):
        rank = type_.count(",", type_.index("["), type_.index("]")) + 1
        return "p" + "l" * (2 * rank) + "b" + "l" * (2 * rank)
    try:
        return _LETTERS[type_]
    except KeyError:
        raise TypeError(f"a kernel argument of type {type_} cannot be passed to npu") from None


def _flatten(type_: Any, value: Any, out: list[Any]) -> None:
    if isinstance(type_, (tuple, list)):
        for part_type, part in zip(type_, value, strict=True):
            _flatten(part_type, part, out)
    elif type_.startswith("tensordesc"):
        # Shape and strides travel twice: for the descriptor as the front end takes it apart, and as the kernel's own
        # values.
        sizes = [*value.shape, *value.strides]
        out += [value.base, *sizes, getattr(value, "padding", "zero") == "nan", *sizes]
    else:
        out.append(value)
