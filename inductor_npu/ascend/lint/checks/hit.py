"""What a rule finds."""

from __future__ import annotations

from dataclasses import dataclass

from inductor_npu.simulator.triton_backend.ttir.ir import Op, SourceLine


@dataclass(frozen=True)
class Hit:
    """A rule's number, what exactly it found, and the kernel's line."""

    rule: str
    what: str
    line: SourceLine | None


def hit(rule: str, what: str, op: Op) -> Hit:
    return Hit(rule, what, op.line)
