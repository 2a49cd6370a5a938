"""The explanation that users get: plain data that shows itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from inductor_npu.diagnostics.explanation.data import Observed

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True)
class Explanation(Observed):
    """What torch.compile did while it was observed: the fields of `Observed`. `print` shows it as tables."""

    def __rich__(self) -> RenderableType:
        from inductor_npu.diagnostics.explanation.tables import shown

        return shown(self)

    def __str__(self) -> str:
        from inductor_npu.support import terminal

        return terminal.as_text(self)
