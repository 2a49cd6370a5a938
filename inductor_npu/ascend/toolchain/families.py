"""Families of chips: which switches the front end and bishengir-compile get for each.

The switches are those that triton-ascend's own backend passes (`triton/backends/ascend/compiler.py` of 3.2.0): the
defaults of its `NPUOptions`, then `linalg_to_bin_enable_npu_compile_A2_A3` or `..._910_95`. In its wheel for PyPI the
constant `is_compile_on_910_95` is False, so that for a 950 the options that depend on it are given here as that file
derives them from True.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Family:
    """Chips that are compiled alike.

    `options` are fields of `NPUOptions` that differ from their defaults, `flags` what bishengir-compile gets besides
    `--target`.
    """

    name: str
    prefixes: tuple[str, ...]
    options: dict[str, Any]
    flags: tuple[str, ...]


FAMILIES = (
    Family(
        name="910B and 910_93",
        prefixes=("Ascend910B", "Ascend910_93"),
        options={},
        flags=(
            "--enable-auto-multi-buffer=True",  # NPUOptions.multibuffer
            "--enable-auto-bind-sub-block=True",  # NPUOptions.enable_auto_bind_sub_block
            "--enable-hfusion-compile=true",
            "--enable-hivm-compile=true",
            "--enable-triton-kernel-compile=true",
        ),
    ),
    Family(
        name="950",
        prefixes=("Ascend950", "Ascend910_95"),
        options={
            "compile_on_910_95": True,
            "multibuffer": False,
            "enable_auto_bind_sub_block": False,
            "enable_select_analysis": True,
        },
        flags=(
            "--enable-auto-multi-buffer=False",
            "--enable-auto-bind-sub-block=False",
            "--enable-hfusion-compile=true",
            "--enable-triton-kernel-compile=true",
        ),
    ),
)


def family_of(target: str) -> Family:
    """The family of the chip that bishengir-compile calls `target`.

    Raises ValueError if it is of none.
    """
    for family in FAMILIES:
        if target.startswith(family.prefixes):
            return family
    raise ValueError(f"{target} is of no family that is compiled for: {', '.join(family.name for family in FAMILIES)}")
