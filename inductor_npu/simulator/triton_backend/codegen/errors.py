"""What the code generator refuses."""

from __future__ import annotations

from ..ttir.ir import Op, SourceLine


class UnsupportedOperation(Exception):
    """An operation, or a form of it, that has no code here; names the operation and the user's source line."""

    def __init__(self, op: Op, reason: str) -> None:
        self.op_name: str = op.name
        self.line: SourceLine | None = op.line
        self.reason = reason
        super().__init__(f"{op.name} at {op.line or 'an unknown line'}: {reason}")
