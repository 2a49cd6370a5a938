"""All facts about one kernel's values."""

from __future__ import annotations

from dataclasses import dataclass

from ...ttir.ir import Function
from .aliases import AliasAnalysis
from .constant_tiles import ConstantTiles
from .strides import Strides


@dataclass(frozen=True, eq=False)
class Facts:
    """What of a kernel's values may alias, how far apart neighbours are in memory, and which tiles are constant."""

    aliases: AliasAnalysis
    strides: Strides
    constants: ConstantTiles

    @classmethod
    def of(cls, function: Function, distinct_arguments: bool) -> Facts:
        """Those of `function`; with `distinct_arguments` no two of its arguments are the same memory."""
        return cls(AliasAnalysis(function.body.arguments, distinct_arguments), Strides(), ConstantTiles())
